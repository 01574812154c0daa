//! [`CqAttr`]: how a queue is opened, and where its parts lie in the memory that it takes.

use core::alloc::Layout;

use super::{CqBody, PEER_EVENTS};
use crate::buffer::Buffer;
use crate::engine::op_table::Slot;
use crate::error::OpenError;
use crate::objects::endpoint::Record;
use crate::storage::{array, extend};
use crate::transport::Transport;
use crate::vocabulary::WaitObj;

/// How a queue is opened: for up to `N` operations in flight.
#[derive(Clone, Copy, Debug)]
pub struct CqAttr<const N: usize> {
    /// How many endpoints can be open on the queue at a time; below `u16::MAX`.
    pub endpoints: u16,
    /// One provider queue for transmits and another for receives, so that either can be polled alone.
    pub separate: bool,
    /// What to sleep on until there is something. The software transport has nothing but [`WaitObj::NONE`], and neither
    /// has `shm`.
    #[doc(alias = "wait_obj")]
    pub wait: WaitObj,
    /// Whether messages can be claimed ([`Endpoint::tagged_peek_claim`](crate::objects::endpoint::Endpoint::tagged_peek_claim))
    /// also where the provider keeps claims in the contexts of operations (`struct fi_context`).
    pub claims: bool,
}

impl<const N: usize> CqAttr<N> {
    /// Up to 16 endpoints and one provider queue.
    #[must_use]
    pub const fn new() -> Self {
        CqAttr { endpoints: 16, separate: false, wait: WaitObj::NONE, claims: false }
    }

    /// With one provider queue for each direction.
    #[must_use]
    pub const fn separate(mut self) -> Self {
        self.separate = true;
        self
    }

    /// For claiming messages, over every provider that can.
    #[must_use]
    pub const fn with_claims(mut self) -> Self {
        self.claims = true;
        self
    }

    /// With a file descriptor to sleep on, and one provider queue: for [`Cq::poll_for`](super::CqBody::poll_for) and
    /// [`Cq::wait_fd`](super::CqBody::wait_fd).
    #[must_use]
    pub const fn with_fd(mut self) -> Self {
        self.wait = WaitObj::FD;
        self
    }

    /// For so many endpoints.
    #[must_use]
    pub const fn endpoints(mut self, endpoints: u16) -> Self {
        self.endpoints = endpoints;
        self
    }

    /// How many events the provider's queue is opened for.
    pub(super) const fn events() -> usize {
        N + PEER_EVENTS
    }

    /// The memory that a queue takes from its allocator, in one block: the op table, the endpoints' records, and
    /// what the transport asks for.
    ///
    /// # Errors
    /// [`OpenError::Size`] if it is more than an address space holds.
    pub fn layout<T: Transport, B: Buffer>(&self) -> Result<Layout, OpenError> {
        Ok(self.places::<T, B>()?.layout)
    }

    pub(super) fn places<T: Transport, B: Buffer>(&self) -> Result<Places, OpenError> {
        if self.endpoints == u16::MAX {
            return Err(OpenError::Size);
        }
        let body = Layout::new::<CqBody<'_, T, B, [Slot<B>; N]>>();
        let (layout, records) = extend(body, array::<Record<'_, T>>(self.endpoints.into())?)?;
        let (layout, tx) = extend(layout, T::cq_layout(Self::events()))?;
        let (layout, rx) = if self.separate { extend(layout, T::cq_layout(Self::events()))? } else { (layout, tx) };
        Ok(Places { layout, records, tx, rx })
    }
}

impl<const N: usize> Default for CqAttr<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// Offsets in the block of memory.
pub(super) struct Places {
    pub(super) layout: Layout,
    pub(super) records: usize,
    pub(super) tx: usize,
    pub(super) rx: usize,
}
