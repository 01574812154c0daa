//! [`SharedList`]: the free numbers of any number of threads.

#[cfg(not(loom_model))]
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(loom_model)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::FreeList;

/// A lock-free stack of free numbers (R. K. Treiber, 1986).
///
/// `head` is the first free number and, in its upper half, a tag: how often one was taken. `links` has for each free number the
/// one after it, stored less the number's own successor. Whatever lies beyond the links is no number: it ends the list.
///
/// # Why the tag
///
/// A taker reads the head and the link of what it found there, and then exchanges the head for what the link says. In between others
/// may take the first two numbers and put the first one back: the head has the same number, and the link that was read leads
/// to one that is taken (ABA). The tag has moved on by then, so the exchange fails. It comes round after 2^32 takes: a thread would
/// have to be stopped between its load and its exchange for exactly a multiple of so many.
///
/// # Memory orders
///
/// The head is changed by read-modify-writes alone, so that every `put` starts a release sequence that all later heads are part of:
/// whoever reads a head with `Acquire` sees the link of every number that is on the list, and all that was done with these
/// numbers before they were put.
#[derive(Debug)]
pub(crate) struct SharedList<S> {
    head: AtomicU64,
    links: S,
}

const fn word(tag: u32, number: u32) -> u64 {
    (tag as u64) << 32 | number as u64
}

#[expect(clippy::cast_possible_truncation, reason = "the two halves of the word")]
const fn parts(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

impl<S> SharedList<S> {
    /// A list over links that are all zero: as many numbers as there are links, all of them free.
    #[cfg(not(loom_model))]
    pub(crate) const fn new(links: S) -> Self {
        SharedList { head: AtomicU64::new(0), links }
    }

    /// As above; the model checker's atomics are not made at compile time.
    #[cfg(loom_model)]
    pub(crate) fn new(links: S) -> Self {
        SharedList { head: AtomicU64::new(0), links }
    }
}

impl<S: AsRef<[AtomicU32]>> FreeList for SharedList<S> {
    #[inline]
    fn take(&self) -> Option<u32> {
        // Acquire: the link of the number, which is read next, and whatever its last owner did with it. The exchange reads the
        // same word, so it adds nothing but its change: Relaxed. Another taker needs nothing of this one.
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let (tag, number) = parts(head);
            let link = self.links.as_ref().get(number as usize)?;
            // Relaxed: if another one has taken the number meanwhile and writes its link, the exchange fails.
            let next = link.load(Ordering::Relaxed).wrapping_add(number).wrapping_add(1);
            let taken = word(tag.wrapping_add(1), next);
            match self.head.compare_exchange_weak(head, taken, Ordering::Relaxed, Ordering::Acquire) {
                Ok(_) => return Some(number),
                Err(seen) => head = seen,
            }
        }
    }

    #[inline]
    fn put(&self, number: u32) {
        let link = self.links.as_ref().get(number as usize);
        debug_assert!(link.is_some(), "{number} is none of the list's");
        let Some(link) = link else { return };
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            let (tag, first) = parts(head);
            link.store(first.wrapping_sub(number).wrapping_sub(1), Ordering::Relaxed);
            // Release: publishes the link, and what was done with the number. Nothing is read through the head: Relaxed
            // is enough where it fails.
            match self.head.compare_exchange_weak(head, word(tag, number), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }
}
