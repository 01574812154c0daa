//! Closing one endpoint of a queue: cancels its operations, and waits for those that its provider
//! cannot cancel.

#![allow(unsafe_code, reason = "closes raw handles and drops the buffers that were lent")]

use super::{CqInner, EndpointSlot, ReceiveMode, SlotState};
use crate::buffer::Buffer;
use crate::engine::op_table::{Kind, OpKey, Posted};
use crate::storage::handle::Object;
use crate::transport::{Closing, InFlight, Transport};
use crate::util::log::note;
use crate::vocabulary::Errno;

/// Maximum number of polls for an endpoint's uninterruptible operations.
pub(super) const SETTLING: u32 = 1 << 17;

impl<T: Transport, B: Buffer> CqInner<T, B> {
    pub(crate) fn is_received_through(&self, index: u16) -> bool {
        let through_this = Some(ReceiveMode::Through(index));
        self.endpoint_slots().iter().any(|other| other.receives() == through_this)
    }

    /// # Safety
    /// The endpoint is not used after this.
    pub(crate) unsafe fn close_endpoint(&self, index: u16, endpoint_slot: &EndpointSlot<T>) -> Result<Closing, Errno> {
        if self.is_received_through(index) {
            endpoint_slot.retire();
            return Ok(Closing::Retired);
        }
        // Providers cancel operations in flight when an endpoint closes.
        self.all_to_cancel(index).for_each(drop);
        // SAFETY: the caller guarantees that the endpoint is not used after this. Its slot belongs
        // to this queue's domain.
        unsafe { endpoint_slot.close(&self.domain, self.in_flight_on(index)) }
    }

    /// # Safety
    /// The endpoint has no handles any more.
    pub(crate) unsafe fn close_one(&self, index: u16) {
        let Some(endpoint_slot) = self.endpoint_slots().get(usize::from(index)) else { return };
        if !self.is_here() {
            return;
        }
        let receives = endpoint_slot.receives();
        if endpoint_slot.consumes.get() {
            self.ops.end_used_up(index);
        }
        if endpoint_slot.settles.get() {
            endpoint_slot.cancel_all(self.all_to_cancel(index));
            self.settle(index);
        }
        let close = || {
            // SAFETY: the caller guarantees that the endpoint has no handles.
            unsafe { self.close_endpoint(index, endpoint_slot) }
        };
        let mut closed = close();
        if let Ok(Closing::Retired) = closed {
            endpoint_slot.cancel_all(self.all_to_cancel(index));
            if !self.is_received_through(index) {
                self.settle(index);
                closed = close();
            }
        }
        if let Ok(Closing::Closed) = closed {
            self.collect();
            // SAFETY: the endpoint is closed (P1).
            unsafe { self.ops.abandon(index) };
            let bonds = endpoint_slot.take_bonds();
            self.domain.release();
            drop(bonds);
            if let Some(ReceiveMode::Through(shared)) = receives
                && self
                    .endpoint_slots()
                    .get(usize::from(shared))
                    .is_some_and(|endpoint_slot| endpoint_slot.is(SlotState::Retired))
                && !self.is_received_through(shared)
            {
                // SAFETY: a retired endpoint has no handles any more.
                unsafe { self.close_one(shared) };
            }
            note!(debug, "close", "endpoint {index} is closed on {}", *self.domain);
        } else {
            note!(
                debug,
                "quirk",
                "endpoint {index} on {} cannot be closed now: it is closed with its queue",
                *self.domain
            );
        }
        self.ops.wake_driver();
    }

    pub(crate) fn cancelling(&self, key: OpKey) {
        // Providers that respect the buffer of a multi-receive also flag its end.
        self.ops.cancelling(key, T::quirks(self.domain.info().raw()).multi_recv);
    }

    pub(crate) fn all_to_cancel(&self, endpoint: u16) -> impl Iterator<Item = Posted> + '_ {
        self.ops.posted_on(endpoint).inspect(|op| self.cancelling(op.key))
    }

    pub(crate) fn in_flight_on(&self, endpoint: u16) -> InFlight {
        // A closed endpoint has no operations in flight, even if some were never reported.
        let endpoint_slot = self.endpoint_slots().get(usize::from(endpoint));
        let Some(receives) = endpoint_slot.and_then(EndpointSlot::receives) else { return InFlight::NOTHING };
        let with_transmits = receives == ReceiveMode::Nowhere || !T::quirks(self.domain.info().raw()).close_with_sends;
        self.ops.posted_on(endpoint).fold(InFlight::NOTHING, |in_flight, op| match op.kind {
            Kind::Receive | Kind::TaggedReceive | Kind::MultiReceive | Kind::Spare => {
                InFlight { receives: in_flight.receives + 1, ..in_flight }
            }
            Kind::Send | Kind::Read | Kind::Value if with_transmits => {
                InFlight { transmits: in_flight.transmits + 1, ..in_flight }
            }
            Kind::Read | Kind::Value => InFlight { longest_read: in_flight.longest_read.max(op.len), ..in_flight },
            Kind::Send | Kind::Peek | Kind::PeekClaim => in_flight,
        })
    }

    #[cold]
    pub(crate) fn settle(&self, endpoint: u16) {
        let mut polls = 0;
        while self.in_flight_on(endpoint) != InFlight::NOTHING
            && polls < SETTLING
            && self.keep_until_busy(&mut polls, SETTLING)
        {}
    }

    pub(super) fn keep_until_busy(&self, polls: &mut u32, patience: u32) -> bool {
        while *polls < patience {
            *polls += 1;
            match self.progress() {
                Ok(true) => return true,
                Ok(false) => core::hint::spin_loop(),
                Err(_) => return false,
            }
        }
        true
    }
}
