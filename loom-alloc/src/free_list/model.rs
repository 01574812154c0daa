//! The shared list under the model checker `loom`: every interleaving, and every value that a load may see.
//!
//! ```text
//! RUSTFLAGS="--cfg loom_model" cargo test -p loom-fabric-alloc --lib model --release
//! ```
//!
//! What a number stands for is plain memory that the checker does not see: a `Plain` value is in its place, which is read and
//! written by whoever has the number, and fails the model where two do so without an order between them.
//!
//! The controls are the same models with lists from which an order, or the tag, is taken away. Each must fail, or the
//! models prove nothing.

#![allow(unsafe_code, clippy::unwrap_used, reason = "tests: they use `std`, and fail by panicking")]

use std::vec::Vec;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;

use super::{FreeList, SharedList};

/// Plain memory, whose accesses are checked for an order between them.
struct Plain(UnsafeCell<u32>);

// SAFETY: it is what the models are about, and the checker fails on two accesses without order.
unsafe impl Sync for Plain {}
// SAFETY: as above.
unsafe impl Send for Plain {}

impl Plain {
    fn read(&self) -> u32 {
        // SAFETY: the checker fails the model if somebody writes.
        self.0.with(|value| unsafe { *value })
    }

    fn write(&self, new: u32) {
        // SAFETY: the checker fails the model if somebody else is there.
        self.0.with_mut(|value| unsafe { *value = new });
    }
}

/// A list that a model can be played on.
trait Modelled: FreeList + Send + Sync + 'static {
    fn of(links: Vec<AtomicU32>) -> Self;
}

impl Modelled for SharedList<Vec<AtomicU32>> {
    fn of(links: Vec<AtomicU32>) -> Self {
        SharedList::new(links)
    }
}

/// A list with what its numbers stand for.
struct Pool<L> {
    list: L,
    blocks: Vec<Plain>,
}

impl<L: Modelled> Pool<L> {
    fn new(count: usize) -> Arc<Self> {
        let list = L::of((0..count).map(|_| AtomicU32::new(0)).collect());
        Arc::new(Pool { list, blocks: (0..count).map(|_| Plain(UnsafeCell::new(0))).collect() })
    }

    fn take(&self) -> Option<u32> {
        let number = self.list.take()?;
        self.blocks[number as usize].write(number);
        Some(number)
    }

    fn put(&self, number: u32) {
        assert_eq!(self.blocks[number as usize].read(), number);
        self.list.put(number);
    }

    /// The numbers that were taken for good and those on the list are all there are, once each.
    fn all_are_there(&self, taken: impl IntoIterator<Item = u32>) {
        let mut all: Vec<u32> = taken.into_iter().collect();
        while let Some(number) = self.take() {
            all.push(number);
            assert!(all.len() <= self.blocks.len(), "more than there are");
        }
        all.sort_unstable();
        assert!(all.iter().zip(0..).all(|(number, wanted)| *number == wanted), "{all:?}");
        assert_eq!(all.len(), self.blocks.len(), "some are lost");
    }
}

/// Two threads take and put, and there is one number for both.
fn one_number_for_two<L: Modelled>() {
    loom::model(|| {
        let pool = Pool::<L>::new(1);
        let other = {
            let pool = pool.clone();
            thread::spawn(move || pool.take().map(|number| pool.put(number)))
        };
        if let Some(number) = pool.take() {
            pool.put(number);
        }
        other.join().unwrap();
        pool.all_are_there([]);
    });
}

/// One takes a number while another one takes two, puts the first one back, and keeps the second.
fn one_comes_back_while_another_takes<L: Modelled>() {
    loom::model(|| {
        let pool = Pool::<L>::new(3);
        let other = {
            let pool = pool.clone();
            thread::spawn(move || {
                let (first, second) = (pool.take(), pool.take());
                if let Some(first) = first {
                    pool.put(first);
                }
                second
            })
        };
        let mine = pool.take();
        let others = other.join().unwrap();
        assert!(mine.is_some() && others.is_some(), "three are enough for both");
        pool.all_are_there(mine.into_iter().chain(others));
    });
}

/// Two put numbers of their own at once, and take again.
fn two_put_at_once<L: Modelled>() {
    loom::model(|| {
        let pool = Pool::<L>::new(2);
        let [mine, others] = [pool.take().unwrap(), pool.take().unwrap()];
        let other = {
            let pool = pool.clone();
            thread::spawn(move || {
                pool.put(others);
                pool.take()
            })
        };
        pool.put(mine);
        let mine = pool.take();
        let others = other.join().unwrap();
        assert!(mine.is_some() && others.is_some(), "there is one for each");
        pool.all_are_there(mine.into_iter().chain(others));
    });
}

/// Nobody is told that there is none while there is one that nobody has.
fn three_threads_and_two_numbers<L: Modelled>() {
    loom::model(|| {
        let pool = Pool::<L>::new(2);
        let threads = [(); 2].map(|()| {
            let pool = pool.clone();
            thread::spawn(move || pool.take())
        });
        let mine = pool.take();
        let taken: Vec<u32> =
            threads.into_iter().map(|thread| thread.join().unwrap()).chain([mine]).flatten().collect();
        assert_eq!(taken.len(), 2, "two of three");
        pool.all_are_there(taken);
    });
}

type Real = SharedList<Vec<AtomicU32>>;

#[test]
fn one_number_for_two_threads() {
    one_number_for_two::<Real>();
}

#[test]
fn a_number_comes_back_while_another_is_taken() {
    one_comes_back_while_another_takes::<Real>();
}

#[test]
fn two_threads_put_at_once() {
    two_put_at_once::<Real>();
}

#[test]
fn three_threads_want_two_numbers() {
    three_threads_and_two_numbers::<Real>();
}

// Controls: what the models must find.

/// What a control does without.
const TAG: u8 = 0;
const ACQUIRE: u8 = 1;
const RELEASE: u8 = 2;

/// The list as it is, without one thing.
struct Without<const THING: u8> {
    head: AtomicU64,
    links: Vec<AtomicU32>,
}

impl<const THING: u8> Modelled for Without<THING> {
    fn of(links: Vec<AtomicU32>) -> Self {
        Without { head: AtomicU64::new(0), links }
    }
}

impl<const THING: u8> FreeList for Without<THING> {
    fn take(&self) -> Option<u32> {
        let acquire = if THING == ACQUIRE { Ordering::Relaxed } else { Ordering::Acquire };
        let mut head = self.head.load(acquire);
        loop {
            let (tag, number) = (head >> 32, u32::try_from(head & 0xffff_ffff).unwrap());
            let link = self.links.get(number as usize)?;
            let next = link.load(Ordering::Relaxed).wrapping_add(number).wrapping_add(1);
            let tag = if THING == TAG { 0 } else { tag + 1 };
            match self.head.compare_exchange_weak(head, tag << 32 | u64::from(next), Ordering::Relaxed, acquire) {
                Ok(_) => return Some(number),
                Err(seen) => head = seen,
            }
        }
    }

    fn put(&self, number: u32) {
        let release = if THING == RELEASE { Ordering::Relaxed } else { Ordering::Release };
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            let (tag, first) = (head >> 32, u32::try_from(head & 0xffff_ffff).unwrap());
            self.links[number as usize].store(first.wrapping_sub(number).wrapping_sub(1), Ordering::Relaxed);
            match self.head.compare_exchange_weak(head, tag << 32 | u64::from(number), release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }
}

#[test]
#[should_panic]
fn control_without_a_tag_a_number_has_two_owners() {
    one_comes_back_while_another_takes::<Without<TAG>>();
}

#[test]
#[should_panic]
fn control_without_acquire_the_last_owner_is_not_seen() {
    one_number_for_two::<Without<ACQUIRE>>();
}

#[test]
#[should_panic]
fn control_without_release_the_next_owner_sees_nothing() {
    one_number_for_two::<Without<RELEASE>>();
}
