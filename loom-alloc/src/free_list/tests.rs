use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::BTreeSet;
use std::vec::Vec;
use std::{thread, vec};

use super::{FreeList, OwnerList, SharedList};

fn owner<const N: usize>() -> OwnerList<[Cell<u32>; N]> {
    OwnerList::new([const { Cell::new(0) }; N])
}

fn shared<const N: usize>() -> SharedList<[AtomicU32; N]> {
    SharedList::new([const { AtomicU32::new(0) }; N])
}

struct Near<S> {
    list: SharedList<S>,
    stacks: &'static [usize],
    calls: Cell<usize>,
}

impl<S> Near<S> {
    fn new(list: SharedList<S>, stacks: &'static [usize]) -> Self {
        Near { list, stacks, calls: Cell::new(0) }
    }

    fn next(&self) -> usize {
        self.stacks[self.calls.replace(self.calls.get() + 1) % self.stacks.len()]
    }
}

impl<S: AsRef<[AtomicU32]>> FreeList for Near<S> {
    fn take(&self) -> Option<u32> {
        self.list.take_near(self.next())
    }

    fn put(&self, number: u32) {
        self.list.put_near(self.next(), number);
    }
}

fn numbers_are_taken_in_order_and_the_last_one_put_comes_first(list: &impl FreeList) {
    assert_eq!([list.take(), list.take(), list.take()], [Some(0), Some(1), Some(2)]);
    list.put(1);
    list.put(0);
    assert_eq!([list.take(), list.take(), list.take(), list.take()], [Some(0), Some(1), Some(3), None]);
    assert_eq!(list.take(), None, "and stays empty");
    list.put(2);
    assert_eq!([list.take(), list.take()], [Some(2), None]);
}

#[test]
fn both_take_in_order_and_the_last_one_put_first() {
    numbers_are_taken_in_order_and_the_last_one_put_comes_first(&owner::<4>());
    for stack in [&[0], &[1], &[6]] {
        numbers_are_taken_in_order_and_the_last_one_put_comes_first(&Near::new(shared::<4>(), stack));
    }
}

#[test]
fn a_list_of_zero_blocks_is_empty() {
    assert_eq!((owner::<0>().take(), shared::<0>().take()), (None, None));
}

#[test]
fn the_storage_may_be_a_slice_or_a_vector() {
    let (cells, atomics) = ([const { Cell::new(0) }; 4], [const { AtomicU32::new(0) }; 4]);
    numbers_are_taken_in_order_and_the_last_one_put_comes_first(&OwnerList::new(&cells[..]));
    numbers_are_taken_in_order_and_the_last_one_put_comes_first(&Near::new(SharedList::new(&atomics[..]), &[2]));
    numbers_are_taken_in_order_and_the_last_one_put_comes_first(&OwnerList::new(vec![Cell::new(0); 4]));
}

fn agrees_with_a_set(list: &impl FreeList, count: u32) {
    let mut free: BTreeSet<u32> = (0..count).collect();
    let mut taken: Vec<u32> = Vec::new();
    let mut seed = 1_u64;
    for step in 0..100_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let drawn = usize::try_from(seed >> 33).expect("31 bits");
        if drawn % 8 < if step / 100 % 2 == 0 { 6 } else { 2 } {
            match list.take() {
                Some(number) => {
                    assert!(free.remove(&number), "{number} is not free");
                    taken.push(number);
                }
                None => assert!(free.is_empty()),
            }
        } else if !taken.is_empty() {
            let number = taken.swap_remove(drawn % taken.len());
            list.put(number);
            free.insert(number);
        }
    }
    while let Some(number) = list.take() {
        assert!(free.remove(&number));
    }
    assert!(free.is_empty(), "lost");
}

#[test]
fn both_agree_with_a_set() {
    agrees_with_a_set(&owner::<1>(), 1);
    agrees_with_a_set(&owner::<37>(), 37);
    agrees_with_a_set(&shared::<1>(), 1);
    agrees_with_a_set(&shared::<37>(), 37);
    agrees_with_a_set(&Near::new(shared::<1>(), &[3, 0, 5]), 1);
    agrees_with_a_set(&Near::new(shared::<37>(), &[0, 1, 2, 3, 4, 5, 6, 3]), 37);
}

#[test]
fn the_owners_list_counts_taken_numbers() {
    let list = owner::<3>();
    let first = list.take().expect("three are free");
    list.take();
    assert_eq!(list.taken(), 2);
    list.put(first);
    assert_eq!(list.taken(), 1);
}

#[test]
#[cfg_attr(debug_assertions, should_panic(expected = "none of the list's"))]
fn a_number_beyond_the_owners_list_is_never_handed_out() {
    let list = owner::<2>();
    list.take();
    list.put(2);
    assert_eq!([list.take(), list.take()], [Some(1), None]);
}

#[test]
#[cfg_attr(debug_assertions, should_panic(expected = "none of the list's"))]
fn a_number_beyond_the_shared_list_is_never_handed_out() {
    let list = shared::<2>();
    list.take();
    list.put(2);
    assert_eq!([list.take(), list.take()], [Some(1), None]);
}

#[test]
fn threads_never_have_the_same_number() {
    const NUMBERS: usize = 8;
    let list = shared::<NUMBERS>();
    let owners = [const { AtomicU32::new(0) }; NUMBERS];
    let takes: u32 = thread::scope(|scope| {
        let threads = [1, 2, 3, 4].map(|me| {
            let (list, owners) = (&list, &owners);
            scope.spawn(move || {
                let mut takes = 0;
                for round in 0..20_000 {
                    let numbers: Vec<u32> = (0..1 + round % 3).filter_map(|_| list.take()).collect();
                    for number in &numbers {
                        assert_eq!(owners[*number as usize].swap(me, Ordering::Relaxed), 0, "somebody else has it");
                        takes += 1;
                    }
                    for number in numbers {
                        assert_eq!(owners[number as usize].swap(0, Ordering::Relaxed), me);
                        list.put(number);
                    }
                }
                takes
            })
        });
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert!(takes > 40_000, "{takes}: the threads got too few blocks");
    let mut all: Vec<u32> = core::iter::from_fn(|| list.take()).collect();
    all.sort_unstable();
    assert_eq!(all, (0..8).collect::<Vec<u32>>(), "all of them are back");
}

#[test]
fn a_thread_that_has_no_number_gets_one_where_there_are_as_many_as_threads() {
    let list = shared::<4>();
    thread::scope(|scope| {
        for me in 0..4 {
            let list = &list;
            scope.spawn(move || {
                for round in 0..50_000 {
                    let number = list.take_near((me + round) % 7).expect("each of the others has one at most");
                    list.put_near((me + round / 3) % 7, number);
                }
            });
        }
    });
    assert_eq!(core::iter::from_fn(|| list.take()).count(), 4, "all of them are back");
}
