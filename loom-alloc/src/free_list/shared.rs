//! [`SharedList`]: the free numbers of any number of threads.

#[cfg(not(loom_model))]
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(loom_model)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::FreeList;

/// How many stacks a list has. Stacks of threads lie a power of two apart, of which none is a multiple of seven: so up to seven
/// threads, one after the other, have a stack of free numbers each.
#[cfg(not(loom_model))]
const STACKS: usize = 7;
/// Enough to move a number from one to another.
#[cfg(loom_model)]
const STACKS: usize = 2;

/// The first free number of a stack and, in its upper half, a tag: how often one was taken. The lower half of the first stack is the
/// number itself, that of the others the number's successor: zero is the number zero in the first one, and none in the others.
///
/// Two cache lines, of which processors fetch the second with the first.
#[derive(Debug)]
#[repr(align(128))]
struct Head(AtomicU64);

/// Lock-free stacks of free numbers (R. K. Treiber, 1986): one to whatever thread is near it, and the others' when that has none.
///
/// `links` has for each free number the one after it, stored less the number's own successor. Whatever lies beyond the links is
/// no number: it ends the stack. A number is on one stack at most, so that one array of links does for all of them.
///
/// A thread puts a number on its own stack, whichever it was taken from, and takes from there first. Which one is its own tells
/// an address on the thread's stack: a hint, of which nothing depends but how many threads meet at one head.
///
/// # Why the tag
///
/// A taker reads the head and the link of what it found there, and then exchanges the head for what the link says. In between others
/// may take the first two numbers and put the first one back: the head has the same number, and the link that was read leads
/// to one that is taken (ABA). The tag has moved on by then, so the exchange fails. It comes round after 2^32 takes: a thread would
/// have to be stopped between its load and its exchange for exactly a multiple of that number.
///
/// # When there is none
///
/// A taker that finds each stack empty has looked at one after the other: meanwhile a number may have been put on one that it had
/// seen before another thread took the last number of the next. It looks a second time. If every head is what it was, tag
/// included, nothing was taken in between, so what was empty at first stayed empty until the second look: there was a
/// moment without any free number. Otherwise another thread has taken a number, and the taker goes on.
///
/// # Memory orders
///
/// A head is changed by read-modify-writes alone, so that every `put` starts a release sequence that all later values of the head are
/// part of: a thread that reads a head with `Acquire` sees the link of every number that is on the stack, and all that was done with
/// these numbers before they were put. Taking releases, too, for the second look: who sees that a stack's last number was taken
/// sees every number that was put before that, on whichever stack.
#[derive(Debug)]
pub(crate) struct SharedList<S> {
    heads: [Head; STACKS],
    links: S,
}

const fn word(tag: u32, first: u32) -> u64 {
    (tag as u64) << 32 | first as u64
}

#[expect(clippy::cast_possible_truncation, reason = "the two halves of the word")]
const fn parts(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// The stack of the thread that calls it.
#[inline]
fn own() -> usize {
    let here = 0_u8;
    // Calls that are nested less than 64 KiB deep mostly have the same.
    (core::ptr::from_ref(&here).addr() >> 16) % STACKS
}

impl<S> SharedList<S> {
    /// A list over links that are all zero: as many numbers as there are links, all of them free.
    #[cfg(not(loom_model))]
    pub(crate) const fn new(links: S) -> Self {
        SharedList { heads: [const { Head(AtomicU64::new(0)) }; STACKS], links }
    }

    /// As above; the model checker's atomics are not made at compile time.
    #[cfg(loom_model)]
    pub(crate) fn new(links: S) -> Self {
        SharedList { heads: core::array::from_fn(|_| Head(AtomicU64::new(0))), links }
    }
}

impl<S: AsRef<[AtomicU32]>> SharedList<S> {
    /// Takes the first number of a stack; if there is none, the head that said so.
    #[inline]
    fn pop(&self, stack: usize) -> Result<u32, u64> {
        let Some(Head(own)) = self.heads.get(stack) else { return Err(0) };
        let offset = u32::from(stack != 0);
        // Acquire: the link of the number, which is read next, and whatever its last owner did with it. The exchange reads the
        // same word, so it adds nothing to that.
        let mut head = own.load(Ordering::Acquire);
        loop {
            let (tag, first) = parts(head);
            let number = first.wrapping_sub(offset);
            let Some(link) = self.links.as_ref().get(number as usize) else { return Err(head) };
            // Relaxed: if another one has taken the number meanwhile and writes its link, the exchange fails.
            let next = link.load(Ordering::Relaxed).wrapping_add(number).wrapping_add(1).wrapping_add(offset);
            // Release: for the second look of who finds this stack empty.
            match own.compare_exchange_weak(head, word(tag.wrapping_add(1), next), Ordering::Release, Ordering::Acquire)
            {
                Ok(_) => return Ok(number),
                Err(seen) => head = seen,
            }
        }
    }

    /// Takes a number, from this stack first.
    #[inline]
    pub(super) fn take_near(&self, stack: usize) -> Option<u32> {
        match self.pop(stack) {
            Ok(number) => Some(number),
            Err(_) => self.take_anywhere(stack),
        }
    }

    /// Looks at all stacks until one has a number, or twice the same is seen in all of them.
    #[cold]
    fn take_anywhere(&self, near: usize) -> Option<u32> {
        let mut before = None;
        loop {
            let mut empty = [0; STACKS];
            for at in 0..STACKS {
                let stack = (near + at) % STACKS;
                match (self.pop(stack), empty.get_mut(stack)) {
                    (Ok(number), _) => return Some(number),
                    (Err(head), Some(seen)) => *seen = head,
                    (Err(_), None) => {}
                }
            }
            if before == Some(empty) {
                return None;
            }
            before = Some(empty);
        }
    }

    /// Puts a number on this stack.
    #[inline]
    pub(super) fn put_near(&self, stack: usize, number: u32) {
        let link = self.links.as_ref().get(number as usize);
        debug_assert!(link.is_some(), "{number} is none of the list's");
        let (Some(link), Some(Head(own))) = (link, self.heads.get(stack)) else { return };
        let offset = u32::from(stack != 0);
        let mut head = own.load(Ordering::Relaxed);
        loop {
            let (tag, first) = parts(head);
            let next = first.wrapping_sub(offset).wrapping_sub(number).wrapping_sub(1);
            // The links of other threads' numbers are in the same cache line: it stays theirs, too, if nothing changes.
            if link.load(Ordering::Relaxed) != next {
                link.store(next, Ordering::Relaxed);
            }
            // Release: publishes the link, and what was done with the number. Nothing is read through the head: Relaxed
            // is enough where it fails.
            let put = word(tag, number.wrapping_add(offset));
            match own.compare_exchange_weak(head, put, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }
}

impl<S: AsRef<[AtomicU32]>> FreeList for SharedList<S> {
    #[inline]
    fn take(&self) -> Option<u32> {
        self.take_near(own())
    }

    #[inline]
    fn put(&self, number: u32) {
        self.put_near(own(), number);
    }
}
