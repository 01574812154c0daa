//! [`Entry`]: the waiter of the operation in a slot of the queue.

use core::cell::Cell;
use core::task::Waker;

use super::wait_list::store;
use crate::engine::op_table::OpKey;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interest {
    /// The operation has no future.
    None,
    Awaited(OpKey),
    GivenUp(OpKey),
    /// The operation completed after its future was dropped, and can be taken back.
    Unclaimed(OpKey),
}

pub(super) struct Entry {
    pub(super) interest: Cell<Interest>,
    waker: Cell<Option<Waker>>,
    pub(super) after: Cell<u32>,
}

impl Entry {
    pub(super) const fn new() -> Self {
        Entry { interest: Cell::new(Interest::None), waker: Cell::new(None), after: Cell::new(u32::MAX) }
    }

    #[inline]
    pub(super) fn store(&self, waker: &Waker) {
        store(&self.waker, waker);
    }

    #[inline]
    pub(super) fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    #[inline]
    pub(super) fn clear(&self) {
        drop(self.waker.take());
    }
}
