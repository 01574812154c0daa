//! [`Entry`]: who waits for the operation in a slot of the queue.

use core::cell::Cell;
use core::task::Waker;

use super::wait_list::store;
use crate::engine::op_table::OpKey;

/// What is known of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interest {
    /// There was no future for its operation.
    None,
    /// A future waits for this operation.
    Awaited(OpKey),
    /// The future that waited for this operation was dropped.
    GivenUp(OpKey),
    /// Such an operation is over, and can be taken back.
    Unclaimed(OpKey),
}

/// Who waits for the operation in a slot of the queue.
pub(super) struct Entry {
    interest: Cell<Interest>,
    waker: Cell<Option<Waker>>,
    /// In the list of those that can be taken back.
    pub(super) after: Cell<u32>,
}

impl Entry {
    pub(super) const fn new() -> Self {
        Entry { interest: Cell::new(Interest::None), waker: Cell::new(None), after: Cell::new(u32::MAX) }
    }

    #[inline]
    pub(super) const fn interest(&self) -> Interest {
        self.interest.get()
    }

    #[inline]
    pub(super) fn set(&self, interest: Interest) {
        self.interest.set(interest);
    }

    /// Has an operation's end wake this waker.
    #[inline]
    pub(super) fn store(&self, waker: &Waker) {
        store(&self.waker, waker);
    }

    /// Wakes who waits.
    #[inline]
    pub(super) fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// No task is woken any more.
    #[inline]
    pub(super) fn clear(&self) {
        drop(self.waker.take());
    }
}
