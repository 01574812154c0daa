//! The shared list under the model checker `loom`.
//!
//! ```text
//! RUSTFLAGS="--cfg loom_model" cargo test -p loom-fabric-alloc --lib model --release
//! ```
//!
//! A `Plain` value stands for the memory of a number.
//!
//! Controls, without a memory order, the tag or the second pass, must fail.

#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests: they use `std`, and fail by panicking"
)]

use std::vec::Vec;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;

use super::SharedList;

struct Plain(UnsafeCell<u32>);

// SAFETY: the checker fails on unordered accesses.
unsafe impl Sync for Plain {}
// SAFETY: the checker fails on unordered accesses.
unsafe impl Send for Plain {}

impl Plain {
    fn read(&self) -> u32 {
        // SAFETY: the checker fails on a concurrent write.
        self.0.with(|value| unsafe { *value })
    }

    fn write(&self, new: u32) {
        // SAFETY: the checker fails on a concurrent access.
        self.0.with_mut(|value| unsafe { *value = new });
    }
}

trait Modelled: Send + Sync + 'static {
    fn of(links: Vec<AtomicU32>) -> Self;
    fn take_near(&self, stack: usize) -> Option<u32>;
    fn put_near(&self, stack: usize, number: u32);
}

impl Modelled for SharedList<Vec<AtomicU32>> {
    fn of(links: Vec<AtomicU32>) -> Self {
        SharedList::new(links)
    }

    fn take_near(&self, stack: usize) -> Option<u32> {
        self.take_near(stack)
    }

    fn put_near(&self, stack: usize, number: u32) {
        self.put_near(stack, number);
    }
}

struct Pool<L> {
    list: L,
    blocks: Vec<Plain>,
}

impl<L: Modelled> Pool<L> {
    fn new(count: usize) -> Arc<Self> {
        let list = L::of((0..count).map(|_| AtomicU32::new(0)).collect());
        Arc::new(Pool { list, blocks: (0..count).map(|_| Plain(UnsafeCell::new(0))).collect() })
    }

    fn take(&self, near: usize) -> Option<u32> {
        let number = self.list.take_near(near)?;
        self.blocks[number as usize].write(number);
        Some(number)
    }

    fn put(&self, near: usize, number: u32) {
        assert_eq!(self.blocks[number as usize].read(), number);
        self.list.put_near(near, number);
    }

    fn assert_complete(&self, taken: impl IntoIterator<Item = u32>) {
        let mut all: Vec<u32> = taken.into_iter().collect();
        while let Some(number) = self.take(0) {
            all.push(number);
            assert!(all.len() <= self.blocks.len(), "more than there are");
        }
        all.sort_unstable();
        assert!(all.iter().zip(0..).all(|(number, wanted)| *number == wanted), "{all:?}");
        assert_eq!(all.len(), self.blocks.len(), "some are lost");
    }
}

fn one_number_for_two<L: Modelled>(others: usize) {
    loom::model(move || {
        let pool = Pool::<L>::new(1);
        let other = {
            let pool = pool.clone();
            thread::spawn(move || pool.take(others).map(|number| pool.put(others, number)))
        };
        if let Some(number) = pool.take(0) {
            pool.put(0, number);
        }
        other.join().unwrap();
        pool.assert_complete([]);
    });
}

fn one_comes_back_while_another_takes<L: Modelled>(others: usize) {
    loom::model(move || {
        let pool = Pool::<L>::new(3);
        let other = {
            let pool = pool.clone();
            thread::spawn(move || {
                let (first, second) = (pool.take(others), pool.take(others));
                if let Some(first) = first {
                    pool.put(others, first);
                }
                second
            })
        };
        let mine = pool.take(0);
        let others = other.join().unwrap();
        assert!(mine.is_some() && others.is_some(), "three are enough for both");
        pool.assert_complete(mine.into_iter().chain(others));
    });
}

fn two_put_at_once<L: Modelled>(others: usize) {
    loom::model(move || {
        let pool = Pool::<L>::new(2);
        let [mine, its] = [pool.take(0).unwrap(), pool.take(0).unwrap()];
        let other = {
            let pool = pool.clone();
            thread::spawn(move || {
                pool.put(others, its);
                pool.take(others)
            })
        };
        pool.put(0, mine);
        let mine = pool.take(0);
        let its = other.join().unwrap();
        assert!(mine.is_some() && its.is_some(), "there is one for each");
        pool.assert_complete(mine.into_iter().chain(its));
    });
}

fn three_threads_and_two_numbers<L: Modelled>(others: usize) {
    loom::model(move || {
        let pool = Pool::<L>::new(2);
        let threads = [0, others].map(|near| {
            let pool = pool.clone();
            thread::spawn(move || pool.take(near))
        });
        let mine = pool.take(0);
        let taken: Vec<u32> =
            threads.into_iter().map(|thread| thread.join().unwrap()).chain([mine]).flatten().collect();
        assert_eq!(taken.len(), 2, "two of three");
        pool.assert_complete(taken);
    });
}

/// A take succeeds while one number is put on the visited stack and another taken from the next.
fn one_is_put_before_another_is_taken<L: Modelled>() {
    loom::model(|| {
        let pool = Pool::<L>::new(2);
        let [its, far] = [pool.take(0).unwrap(), pool.take(0).unwrap()];
        pool.put(1, far);
        let other = {
            let pool = pool.clone();
            thread::spawn(move || {
                pool.put(0, its);
                pool.take(1)
            })
        };
        let mine = pool.take(0);
        let its = other.join().unwrap();
        assert!(mine.is_some() && its.is_some(), "there is one for each");
        pool.assert_complete(mine.into_iter().chain(its));
    });
}

type Real = SharedList<Vec<AtomicU32>>;

#[test]
fn one_number_for_two_threads() {
    [0, 1].into_iter().for_each(one_number_for_two::<Real>);
}

#[test]
fn a_number_comes_back_while_another_is_taken() {
    [0, 1].into_iter().for_each(one_comes_back_while_another_takes::<Real>);
}

#[test]
fn two_threads_put_at_once() {
    [0, 1].into_iter().for_each(two_put_at_once::<Real>);
}

#[test]
fn three_threads_want_two_numbers() {
    [0, 1].into_iter().for_each(three_threads_and_two_numbers::<Real>);
}

#[test]
fn a_number_is_put_before_another_is_taken() {
    one_is_put_before_another_is_taken::<Real>();
}

const TAG: u8 = 0;
const ACQUIRE: u8 = 1;
const RELEASE: u8 = 2;
const SECOND_LOOK: u8 = 3;
const RELEASE_OF_TAKE: u8 = 4;

struct Without<const THING: u8> {
    heads: [AtomicU64; 2],
    links: Vec<AtomicU32>,
}

impl<const THING: u8> Without<THING> {
    fn pop(&self, stack: usize) -> Result<u32, u64> {
        let acquire = if THING == ACQUIRE { Ordering::Relaxed } else { Ordering::Acquire };
        let release = if THING == RELEASE_OF_TAKE { Ordering::Relaxed } else { Ordering::Release };
        let offset = stack as u32;
        let own = &self.heads[stack];
        let mut head = own.load(acquire);
        loop {
            let (tag, number) = (head >> 32, (head as u32).wrapping_sub(offset));
            let Some(link) = self.links.get(number as usize) else { return Err(head) };
            let next = link.load(Ordering::Relaxed).wrapping_add(number).wrapping_add(1).wrapping_add(offset);
            let tag = if THING == TAG { 0 } else { tag + 1 };
            match own.compare_exchange_weak(head, tag << 32 | u64::from(next), release, acquire) {
                Ok(_) => return Ok(number),
                Err(seen) => head = seen,
            }
        }
    }
}

impl<const THING: u8> Modelled for Without<THING> {
    fn of(links: Vec<AtomicU32>) -> Self {
        Without { heads: [(); 2].map(|()| AtomicU64::new(0)), links }
    }

    fn take_near(&self, stack: usize) -> Option<u32> {
        let mut before = None;
        loop {
            let mut empty = [0; 2];
            for stack in [stack, 1 - stack] {
                match self.pop(stack) {
                    Ok(number) => return Some(number),
                    Err(head) => empty[stack] = head,
                }
            }
            if before == Some(empty) || THING == SECOND_LOOK {
                return None;
            }
            before = Some(empty);
        }
    }

    fn put_near(&self, stack: usize, number: u32) {
        let release = if THING == RELEASE { Ordering::Relaxed } else { Ordering::Release };
        let offset = stack as u32;
        let own = &self.heads[stack];
        let mut head = own.load(Ordering::Relaxed);
        loop {
            let (tag, first) = (head >> 32, head as u32);
            let next = first.wrapping_sub(offset).wrapping_sub(number).wrapping_sub(1);
            self.links[number as usize].store(next, Ordering::Relaxed);
            let put = tag << 32 | u64::from(number.wrapping_add(offset));
            match own.compare_exchange_weak(head, put, release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }
}

#[test]
#[should_panic]
fn control_without_a_tag_a_number_has_two_owners() {
    one_comes_back_while_another_takes::<Without<TAG>>(0);
}

#[test]
#[should_panic]
fn control_without_acquire_the_last_owner_is_not_seen() {
    one_number_for_two::<Without<ACQUIRE>>(0);
}

#[test]
#[should_panic]
fn control_without_release_the_next_owner_sees_no_write() {
    one_number_for_two::<Without<RELEASE>>(0);
}

#[test]
#[should_panic = "there is one for each"]
fn control_without_a_second_look_a_take_fails_while_a_number_is_free() {
    one_is_put_before_another_is_taken::<Without<SECOND_LOOK>>();
}

#[test]
#[should_panic = "there is one for each"]
fn control_without_release_of_a_take_the_second_look_sees_no_more() {
    one_is_put_before_another_is_taken::<Without<RELEASE_OF_TAKE>>();
}
