//! [`Kept`]: the endpoint that a memory region is bound to.

#![allow(unsafe_code, reason = "closes an endpoint of a queue whose type has no name here")]

use core::fmt;

use super::opened::Opened;
use crate::buffer::Buffer;
use crate::handle::Erased;
use crate::objects::cq::CqInner;
use crate::transport::Transport;

/// A handle of an endpoint that a memory region is bound to, which is closed before the endpoint is.
pub struct Kept(Option<Keeper>);

struct Keeper {
    queue: Erased,
    index: u16,
    /// Gives a handle of the endpoint at a place of the queue up, and a region that is bound to it.
    release: unsafe fn(&Erased, u16),
}

impl Kept {
    /// Of no endpoint.
    pub(crate) const fn nothing() -> Self {
        Kept(None)
    }

    pub(super) fn endpoint<T: Transport, B: Buffer>(endpoint: &Opened<'_, T, B>) -> Self {
        /// # Safety
        /// The queue is a `CqInner<T, B>`, with an endpoint there, of which a handle is given up.
        unsafe fn release<T: Transport, B: Buffer>(queue: &Erased, index: u16) {
            // SAFETY: the caller's promise.
            let queue = unsafe { queue.object::<CqInner<T, B>>() };
            let Some(endpoint_slot) = queue.endpoint_slots().get(usize::from(index)) else { return };
            endpoint_slot.regions().set(endpoint_slot.regions().get().one_less());
            endpoint_slot.handles().set(endpoint_slot.handles().get().one_less());
            if endpoint_slot.handles().get().is_none() {
                // SAFETY: it was the last one.
                unsafe { queue.close_one(index) };
            }
        }
        let endpoint_slot = endpoint.endpoint_slot();
        endpoint_slot.regions().set(endpoint_slot.regions().get().one_more());
        endpoint_slot.handles().set(endpoint_slot.handles().get().one_more());
        let (queue, index) = (endpoint.cq().body.erased(), endpoint.index());
        Kept(Some(Keeper { queue, index, release: release::<T, B> }))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(Keeper { queue, index, release }) = &self.0 {
            // SAFETY: the queue is that of the endpoint. This is a handle of both.
            unsafe { release(queue, *index) };
        }
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kept").field(&self.0.as_ref().map(|keeper| keeper.index)).finish()
    }
}
