#[cfg(not(loom_model))]
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(loom_model)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::FreeList;

/// Call stacks lie a power of two apart, no multiple of 7: up to 7 consecutive threads differ.
#[cfg(not(loom_model))]
const STACKS: usize = 7;
#[cfg(loom_model)]
const STACKS: usize = 2;

/// First free number of a stack in the lower half, or its successor in all but the first stack, so
/// zero is number 0 there and an empty stack elsewhere. The upper half is a tag that counts takes.
///
/// Two cache lines, which processors fetch together.
#[derive(Debug)]
#[repr(align(128))]
struct Head(AtomicU64);

/// Lock-free stacks of free numbers (R. K. Treiber, 1986).
///
/// A thread puts numbers on its own stack, by its call stack's address, and takes there first.
///
/// For a free number `n`, `links` stores the next one minus `n + 1`. A number beyond the links ends
/// the stack.
///
/// # The tag
/// Between a taker's reads and its exchange, others may take two numbers and put the first back:
/// the link then names a taken one (ABA). The changed tag, which wraps after 2^32 takes, fails the
/// exchange.
///
/// # Empty lists
/// While a taker visits the stacks, a number may be put on a visited one. If a second pass sees
/// equal heads, tags included, the list was empty at a moment. Otherwise another thread took a
/// number, and the taker goes on.
///
/// # Memory orders
/// Heads change by read-modify-writes, so each `put` starts a release sequence of all later values.
/// An `Acquire` load of a head sees the links on its stack, and all use of these numbers before.
/// Taking also releases, for the second pass: a thread that sees a stack's last number taken also
/// sees numbers put before, on any stack.
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

#[inline]
fn own() -> usize {
    let here = 0_u8;
    // Mostly equal within 64 KiB of stack.
    (core::ptr::from_ref(&here).addr() >> 16) % STACKS
}

impl<S> SharedList<S> {
    #[cfg(not(loom_model))]
    pub(crate) const fn new(links: S) -> Self {
        SharedList { heads: [const { Head(AtomicU64::new(0)) }; STACKS], links }
    }

    /// The model checker's atomics are not `const`.
    #[cfg(loom_model)]
    pub(crate) fn new(links: S) -> Self {
        SharedList { heads: core::array::from_fn(|_| Head(AtomicU64::new(0))), links }
    }
}

impl<S: AsRef<[AtomicU32]>> SharedList<S> {
    #[inline]
    fn pop(&self, stack: usize) -> Result<u32, u64> {
        let Some(Head(own)) = self.heads.get(stack) else { return Err(0) };
        let offset = u32::from(stack != 0);
        // Acquire: the link, read next, and the last owner's use of the number. The exchange reads
        // the same word.
        let mut head = own.load(Ordering::Acquire);
        loop {
            let (tag, first) = parts(head);
            let number = first.wrapping_sub(offset);
            let Some(link) = self.links.as_ref().get(number as usize) else { return Err(head) };
            // Relaxed: the exchange fails if another thread took the number and changed the link.
            let next = link.load(Ordering::Relaxed).wrapping_add(number).wrapping_add(1).wrapping_add(offset);
            // Release: for another taker's second pass over this empty stack.
            match own.compare_exchange_weak(head, word(tag.wrapping_add(1), next), Ordering::Release, Ordering::Acquire)
            {
                Ok(_) => return Ok(number),
                Err(seen) => head = seen,
            }
        }
    }

    #[inline]
    pub(super) fn take_near(&self, stack: usize) -> Option<u32> {
        match self.pop(stack) {
            Ok(number) => Some(number),
            Err(_) => self.take_anywhere(stack),
        }
    }

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
            // Spares stores to the cache line.
            if link.load(Ordering::Relaxed) != next {
                link.store(next, Ordering::Relaxed);
            }
            // Release: the link, and the use of the number. Failure reads no memory through the
            // head.
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
