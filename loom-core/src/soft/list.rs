//! The two lock-free lists of the software transport, over cells that are numbered.
//!
//! An [`Inbox`] takes messages from any number of senders; a [`Returns`] takes cells back from any number of
//! receivers. Both are stacks that are pushed with compare-and-swap and taken whole with one swap, so there is no
//! ABA, and no thread waits for another: a pusher that is preempted before its compare-and-swap has not begun, after it,
//! it is done. The link to the next cell lies in the cell, and belongs to whom the cell belongs.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// No cell.
pub(super) const NIL: u32 = u32::MAX;
/// In place of a cell: the inbox takes no more.
const CLOSED: u32 = u32::MAX - 1;

const fn word(generation: u32, cell: u32) -> u64 {
    (generation as u64) << 32 | cell as u64
}

#[expect(clippy::cast_possible_truncation, reason = "the two halves of the word")]
const fn parts(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// Messages on their way to one endpoint, newest first. The word carries the endpoint's generation, so that a push
/// meant for an endpoint that has closed cannot reach its successor.
#[derive(Debug)]
pub(super) struct Inbox(AtomicU64);

impl Inbox {
    /// A closed inbox of generation zero.
    pub(super) fn new() -> Self {
        Inbox(AtomicU64::new(word(0, CLOSED)))
    }

    /// Opens a closed inbox for the next endpoint; returns its generation, which is never zero.
    ///
    /// For the owner alone, under the network's lock.
    pub(super) fn open(&self) -> u32 {
        let generation = match parts(self.0.load(Ordering::Relaxed)).0.wrapping_add(1) {
            0 => 1,
            generation => generation,
        };
        // Relaxed: a push reads nothing of the endpoint but this word. Who reaches its memory asks `Reach`.
        self.0.store(word(generation, NIL), Ordering::Relaxed);
        generation
    }

    /// Gives a cell with its link to the endpoint of this generation; `false` if it is gone, and the cell stays with the
    /// caller.
    #[inline]
    pub(super) fn push(&self, generation: u32, cell: u32, link: &AtomicU32) -> bool {
        let mut head = self.0.load(Ordering::Relaxed);
        loop {
            let (current, first) = parts(head);
            if current != generation || first == CLOSED {
                return false;
            }
            link.store(first, Ordering::Relaxed);
            // Release: publishes the cell's contents, and its link. A later push continues this one's release
            // sequence, so the one acquire of the taker covers every cell on the list. Acquire: pairs with a look that
            // comes before, so that who pushes sees that the receiver sleeps.
            match self.0.compare_exchange_weak(head, word(generation, cell), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(seen) => head = seen,
            }
        }
    }

    /// Whether nothing has arrived. For the owner alone: others are told nothing by it.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        parts(self.0.load(Ordering::Relaxed)).1 == NIL
    }

    /// Whether nothing has arrived, for an owner that is about to [sleep](super::sleeper): a push comes before this look and is found, or
    /// comes behind it and sees what the owner did before.
    pub(super) fn is_empty_for_sleeper(&self) -> bool {
        // A step that changes nothing. Release: pairs with the pushes behind it. What is found is acquired when it is taken.
        parts(self.0.fetch_add(0, Ordering::Release)).1 == NIL
    }

    /// Takes everything, newest first, linked. For the owner alone.
    #[inline]
    pub(super) fn take(&self, generation: u32) -> u32 {
        if self.is_empty() {
            return NIL;
        }
        // Acquire: pairs with the pushes.
        parts(self.0.swap(word(generation, NIL), Ordering::Acquire)).1
    }

    /// Takes everything and lets nothing more in. For the owner alone.
    pub(super) fn close(&self, generation: u32) -> u32 {
        // Acquire: pairs with the pushes.
        parts(self.0.swap(word(generation, CLOSED), Ordering::Acquire)).1
    }
}

/// Which endpoint peers reach in a place, and its domain: one word, so that the two are always read together.
#[derive(Debug)]
pub(super) struct Reach(AtomicU64);

impl Reach {
    /// Nothing is reached.
    const CLOSED: u64 = 0;

    pub(super) fn new() -> Self {
        Reach(AtomicU64::new(Self::CLOSED))
    }

    /// Lets peers reach the endpoint of this generation, which is not zero, and this domain. For the owner alone.
    pub(super) fn open(&self, generation: u32, domain: u32) {
        // Release: a thread that learns of the endpoint through this word sees it set up.
        self.0.store(word(generation, domain), Ordering::Release);
    }

    /// Lets peers reach it no more. For the owner alone.
    pub(super) fn close(&self) {
        // Relaxed: what peers have begun goes on, as long as the regions are open that it goes to.
        self.0.store(Self::CLOSED, Ordering::Relaxed);
    }

    /// The domain of the endpoint of this generation, if it is there.
    #[inline]
    pub(super) fn domain(&self, generation: u32) -> Option<u32> {
        // Acquire: pairs with `open`.
        let word = self.0.load(Ordering::Acquire);
        let (current, domain) = parts(word);
        (current == generation && word != Self::CLOSED).then_some(domain)
    }
}

/// Cells that receivers are done with, on their way back to the endpoint that owns them.
#[derive(Debug)]
pub(super) struct Returns(AtomicU32);

impl Returns {
    pub(super) fn new() -> Self {
        Returns(AtomicU32::new(NIL))
    }

    /// Gives a cell back, with its link.
    #[inline]
    pub(super) fn push(&self, cell: u32, link: &AtomicU32) {
        let mut head = self.0.load(Ordering::Relaxed);
        loop {
            link.store(head, Ordering::Relaxed);
            // Release: what the receiver read from the cell, or from the sender's buffer, is over. Acquire: as in `Inbox::push`.
            match self.0.compare_exchange_weak(head, cell, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }

    /// Whether nothing has come back, for an owner that is about to sleep: as [`Inbox::is_empty_for_sleeper`].
    pub(super) fn is_empty_for_sleeper(&self) -> bool {
        self.0.fetch_add(0, Ordering::Release) == NIL
    }

    /// Takes everything, linked. For the owner alone.
    #[inline]
    pub(super) fn take(&self) -> u32 {
        if self.0.load(Ordering::Relaxed) == NIL {
            return NIL;
        }
        // Acquire: pairs with the pushes, so that cells and buffers may be used again.
        self.0.swap(NIL, Ordering::Acquire)
    }
}
