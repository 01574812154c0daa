//! Lock-free lists of numbered cells: [`Inbox`] for messages, [`Returns`] for cells.
//!
//! Both are stacks: a push is one compare-and-swap, and the owner takes the whole stack with one
//! swap, which excludes ABA.

use crate::util::sync::{AtomicU32, AtomicU64, Ordering};

pub(crate) const NIL: u32 = u32::MAX;
/// Head of a closed inbox, in place of a cell.
const CLOSED: u32 = u32::MAX - 1;

const fn word(generation: u32, cell: u32) -> u64 {
    (generation as u64) << 32 | cell as u64
}

#[expect(clippy::cast_possible_truncation, reason = "the two halves of the word")]
const fn parts(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// The generation keeps a push to a closed endpoint from its successor.
#[derive(Debug)]
pub(crate) struct Inbox(AtomicU64);

impl Inbox {
    pub(crate) fn new() -> Self {
        Inbox(AtomicU64::new(word(0, CLOSED)))
    }

    /// Opens the inbox and returns its generation, which is not zero. Only the owner calls it,
    /// under the network's lock.
    pub(crate) fn open(&self) -> u32 {
        let generation = match parts(self.0.load(Ordering::Relaxed)).0.wrapping_add(1) {
            0 => 1,
            generation => generation,
        };
        // Relaxed: a push reads only this word of the endpoint.
        self.0.store(word(generation, NIL), Ordering::Relaxed);
        generation
    }

    /// Returns `false` if the endpoint of this generation is closed.
    #[inline]
    pub(crate) fn push(&self, generation: u32, cell: u32, link: &AtomicU32) -> bool {
        let mut head = self.0.load(Ordering::Relaxed);
        loop {
            let (current, first) = parts(head);
            if current != generation || first == CLOSED {
                return false;
            }
            link.store(first, Ordering::Relaxed);
            // Release: publishes the cell and its link. Later pushes continue the release sequence,
            // so the taker's one acquire covers all cells. Acquire: pairs with an earlier
            // `is_empty_for_sleeper`, so that the pusher sees that the receiver sleeps.
            match self.0.compare_exchange_weak(head, word(generation, cell), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(seen) => head = seen,
            }
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        parts(self.0.load(Ordering::Relaxed)).1 == NIL
    }

    /// A later push sees the owner's earlier writes.
    pub(crate) fn is_empty_for_sleeper(&self) -> bool {
        // Changes no bits. Release: pairs with later pushes. `take` acquires earlier ones.
        parts(self.0.fetch_add(0, Ordering::Release)).1 == NIL
    }

    /// Takes all cells. Only the owner calls it.
    #[inline]
    pub(crate) fn take(&self, generation: u32) -> u32 {
        if self.is_empty() {
            return NIL;
        }
        // Acquire: pairs with the pushes.
        parts(self.0.swap(word(generation, NIL), Ordering::Acquire)).1
    }

    /// For the owner alone.
    pub(crate) fn close(&self, generation: u32) -> u32 {
        // Acquire: pairs with the pushes.
        parts(self.0.swap(word(generation, CLOSED), Ordering::Acquire)).1
    }
}

/// Generation and domain of a port's endpoint, in one word so that peers read them together.
#[derive(Debug)]
pub(crate) struct Reach(AtomicU64);

impl Reach {
    const CLOSED: u64 = 0;

    pub(crate) fn new() -> Self {
        Reach(AtomicU64::new(Self::CLOSED))
    }

    /// The generation is not zero. For the owner alone.
    pub(crate) fn open(&self, generation: u32, domain: u32) {
        // Release: readers of this word see the endpoint set up.
        self.0.store(word(generation, domain), Ordering::Release);
    }

    pub(crate) fn close(&self) {
        // Relaxed: operations in flight continue while their regions are open.
        self.0.store(Self::CLOSED, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn domain(&self, generation: u32) -> Option<u32> {
        // Acquire: pairs with `open`.
        let word = self.0.load(Ordering::Acquire);
        let (current, domain) = parts(word);
        (current == generation && word != Self::CLOSED).then_some(domain)
    }
}

#[derive(Debug)]
pub(crate) struct Returns(AtomicU32);

impl Returns {
    pub(crate) fn new() -> Self {
        Returns(AtomicU32::new(NIL))
    }

    #[inline]
    pub(crate) fn push(&self, cell: u32, link: &AtomicU32) {
        let mut head = self.0.load(Ordering::Relaxed);
        loop {
            link.store(head, Ordering::Relaxed);
            // Release: the receiver's reads of the cell and the buffer come before. Acquire: pairs
            // with an earlier `is_empty_for_sleeper`, so that the receiver sees that the owner
            // sleeps.
            match self.0.compare_exchange_weak(head, cell, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }

    pub(crate) fn is_empty_for_sleeper(&self) -> bool {
        self.0.fetch_add(0, Ordering::Release) == NIL
    }

    #[inline]
    pub(crate) fn take(&self) -> u32 {
        if self.0.load(Ordering::Relaxed) == NIL {
            return NIL;
        }
        // Acquire: pairs with the pushes, so that cells and buffers can be reused.
        self.0.swap(NIL, Ordering::Acquire)
    }
}
