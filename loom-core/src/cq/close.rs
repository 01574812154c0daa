//! Closing a queue: endpoints first, forgotten ones too, then the buffers in flight, then the raw queues.

#![allow(unsafe_code, reason = "closes raw handles and drops the buffers that were lent")]

use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use super::CqInner;
use super::{EndpointSlot, ReceiveMode};
use crate::abort::OnFailedClose;
use crate::buffer::Buffer;
use crate::domain::DomainInner;
use crate::engine::op_table::{Kind, OpKey, Posted};
use crate::handle::{Ended, HandleBlock, Head, Object};
use crate::notes::note;
use crate::scope_registry::{Node, ScopeRef};
use crate::transport::{Closing, InFlight, Transport};
use crate::vocabulary::Errno;

/// How many polls an endpoint is given to end what cannot be interrupted, before it is left to its queue.
const SETTLING: u32 = 1 << 17;

impl<T: Transport, B: Buffer> CqInner<T, B> {
    /// Closes endpoints, forgotten ones too, then drops the buffers, if they are to be, then closes the queues. Says whether endpoints
    /// are left open, and so everything that they use.
    ///
    /// # Safety
    /// Called once; the queue and its endpoints are not used any more.
    unsafe fn close(&self, drops_buffers: bool) -> Result<bool, Errno> {
        if self.has_bound_regions() {
            return Err(Errno::EBUSY);
        }
        // Polls: milliseconds where giving up leaks; a tenth of a second, so that a peer which is not running at the
        // moment can answer, where it ends the process.
        let patience = match self.on_failed_close {
            OnFailedClose::Leak => SETTLING,
            OnFailedClose::Abort => 32 * SETTLING,
        };
        // SAFETY: the caller's promise: no `Endpoint` uses the endpoint slots.
        let mut open = unsafe { self.close_endpoints() }?;
        if open.retired > 0 {
            for (index, endpoint_slot) in (0u16..).zip(self.endpoint_slots()) {
                endpoint_slot.cancel_all(self.all_to_cancel(index));
            }
            let quiet = self.progress_until(patience, || {
                (0u16..).zip(self.endpoint_slots()).all(|(index, _)| self.in_flight_on(index) == InFlight::NOTHING)
            });
            if quiet {
                // Together, if they keep each other open only.
                for endpoint_slot in self.endpoint_slots() {
                    endpoint_slot.leave();
                }
            }
            // What could not be closed because of others that are closed now, too.
            // SAFETY: as above.
            open = unsafe { self.close_endpoints() }?;
        }
        if open.retired > 0 {
            // What is still in flight on endpoints that others keep open stays lent.
            if !self.progress_until(patience, || self.ops.in_flight() == 0) {
                return Err(Errno::EBUSY);
            }
            // SAFETY: as above.
            open = unsafe { self.close_endpoints() }?;
            for endpoint_slot in self.endpoint_slots() {
                endpoint_slot.leave_for_good(&self.domain);
            }
        }
        let left_open = open.retired + open.left > 0;
        let queues = CloseQueues { cq: self, left_open };
        if drops_buffers {
            // SAFETY: every endpoint that posted is closed (P1), or has nothing in flight (P3). A destructor that unwinds still gets the
            // queues closed.
            unsafe { self.ops.drop_buffers() };
        }
        let _ = ManuallyDrop::new(queues);
        // Queues of endpoints that stay open stay open too, and so does the domain.
        if !left_open {
            self.close_queues()?;
        }
        Ok(left_open)
    }

    /// Closes a queue that was forgotten in a scope. Its buffers are leaked: they may belong to another thread, or have handles of the
    /// scope. So may what its endpoints are bound to.
    ///
    /// # Safety
    /// The node lies in a queue, which is not used any more.
    pub(super) unsafe fn close_scoped(node: NonNull<Node>, scope: ScopeRef) {
        // SAFETY: the caller's promise.
        let prefix = unsafe { node.byte_sub(Self::NODE_AT) };
        // SAFETY: as above: the node lies in a place.
        let place = unsafe { Self::place_of(prefix.cast()) };
        // SAFETY: as above.
        let this = unsafe { HandleBlock::value(place) };
        // SAFETY: as above.
        let this = unsafe { this.as_ref() };
        if !this.is_here() {
            return;
        }
        // SAFETY: the queue's own, which gives it up with this: the block stays, whatever was forgotten may refer to it.
        let domain = unsafe { core::ptr::read(&raw const this.domain) };
        // SAFETY: as above; called once.
        let closed = unsafe { this.close(false) };
        this.note_closed(closed, &domain);
        match closed {
            Ok(false) => {}
            Ok(true) => domain.leave(),
            Err(_) => this.failed_to_close(),
        }
        note!(
            warn,
            "left",
            "completion queue of {} operations was forgotten in a scope: leaked are the buffers in flight, {}",
            this.depth,
            this.ops.in_flight()
        );
        for endpoint_slot in this.endpoint_slots() {
            endpoint_slot.take_bonds().forget();
        }
        DomainInner::after_scope(domain, scope);
    }

    /// How closing went, for the log.
    fn note_closed(&self, closed: Result<bool, Errno>, domain: &DomainInner<T>) {
        let depth = self.depth;
        match closed {
            Ok(false) => note!(debug, "close", "completion queue of {depth} operations is closed on {domain}"),
            Ok(true) => note!(
                warn,
                "left",
                "completion queue of {depth} operations stays open on {domain}, with endpoints that the provider cannot close now: {}",
                self.endpoint_slots().iter().filter(|endpoint_slot| endpoint_slot.is_left()).count()
            ),
            Err(errno) => note!(
                warn,
                "left",
                "completion queue of {depth} operations stays open on {domain} ({errno}): leaked are the buffers in flight, {}",
                self.ops.in_flight()
            ),
        }
    }

    /// What is lent cannot be had back.
    fn failed_to_close(&self) {
        match self.on_failed_close {
            OnFailedClose::Leak => {}
            OnFailedClose::Abort if self.has_bound_regions() => {
                crate::abort::abort("a memory region was forgotten that is bound to an endpoint of a scope")
            }
            OnFailedClose::Abort => {
                crate::abort::abort("a provider failed to close an endpoint or queue whose buffers are borrowed")
            }
        }
    }

    /// Whether a memory region is bound to one of the endpoints: it was forgotten, if the queue is to be closed, and so the
    /// endpoint cannot be.
    fn has_bound_regions(&self) -> bool {
        self.endpoint_slots().iter().any(|endpoint_slot| !endpoint_slot.regions().get().is_none())
    }

    /// Closes every endpoint, and tells how many are still open.
    ///
    /// # Safety
    /// No `Endpoint` uses the endpoint slots any more.
    unsafe fn close_endpoints(&self) -> Result<StillOpen, Errno> {
        let mut open = StillOpen { retired: 0, left: 0 };
        // What others receive through comes last.
        for for_others in [false, true] {
            for (index, endpoint_slot) in (0u16..).zip(self.endpoint_slots()) {
                if (endpoint_slot.receives() == Some(ReceiveMode::ForOthers)) != for_others {
                    continue;
                }
                // SAFETY: the caller's promise.
                match unsafe { self.close_endpoint(index, endpoint_slot) }? {
                    Closing::Closed => {}
                    Closing::Retired => open.retired += 1,
                    Closing::Left => open.left += 1,
                }
            }
        }
        Ok(open)
    }

    /// Whether an endpoint is open that receives through the shared receive context at this place of the queue.
    pub(crate) fn is_received_through(&self, index: u16) -> bool {
        let through_this = Some(ReceiveMode::Through(index));
        self.endpoint_slots().iter().any(|other| other.receives() == through_this)
    }

    /// Closes the endpoint at a place of the queue. A shared receive context that an open endpoint receives through is
    /// retired.
    ///
    /// # Safety
    /// The endpoint is not used after this.
    pub(crate) unsafe fn close_endpoint(&self, index: u16, endpoint_slot: &EndpointSlot<T>) -> Result<Closing, Errno> {
        if self.is_received_through(index) {
            endpoint_slot.retire();
            return Ok(Closing::Retired);
        }
        // That is what providers make of them.
        self.all_to_cancel(index).for_each(drop);
        // SAFETY: the caller's promise; the endpoint slot is one of this queue, and so of its domain.
        unsafe { endpoint_slot.close(&self.domain, self.in_flight_on(index)) }
    }

    /// Closes the endpoint at a place of the queue, after its operations in flight were cancelled if the provider wants that. One that
    /// cannot be closed is closed with the queue; so is one that failed to close, which the queue then finds out.
    ///
    /// # Safety
    /// There is no handle of the endpoint any more.
    pub(crate) unsafe fn close_one(&self, index: u16) {
        let Some(endpoint_slot) = self.endpoint_slots().get(usize::from(index)) else { return };
        if !self.is_here() {
            return;
        }
        let receives = endpoint_slot.receives();
        if endpoint_slot.consumes().get() {
            self.ops.end_used_up(index);
        }
        if endpoint_slot.settles().get() {
            endpoint_slot.cancel_all(self.all_to_cancel(index));
            self.settle(index);
        }
        let close = || {
            // SAFETY: the caller's promise.
            unsafe { self.close_endpoint(index, endpoint_slot) }
        };
        let mut closed = close();
        if let Ok(Closing::Retired) = closed {
            endpoint_slot.cancel_all(self.all_to_cancel(index));
            // What others receive through stays open as long as they do.
            if !self.is_received_through(index) {
                self.settle(index);
                closed = close();
            }
        }
        if let Ok(Closing::Closed) = closed {
            // What was over before the close is a completion like any other.
            self.collect();
            // SAFETY: the endpoint is closed (P1).
            unsafe { self.ops.abandon(index) };
            // The place can be used again, and user code runs.
            let bonds = endpoint_slot.take_bonds();
            self.domain.release();
            drop(bonds);
            // What it received through may have lost its last handle before.
            if let Some(ReceiveMode::Through(shared)) = receives
                && self.endpoint_slots().get(usize::from(shared)).is_some_and(EndpointSlot::is_retired)
                && !self.is_received_through(shared)
            {
                // SAFETY: an endpoint is retired when there is no handle of it any more.
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
        // Closing has polled the queue.
        self.wants_driver();
    }

    /// Notes that an operation is being cancelled.
    pub(crate) fn cancelling(&self, key: OpKey) {
        // Providers that keep to the buffer of a multi-receive flag its end, too.
        self.ops.cancelling(key, T::quirks(self.domain.info().raw()).multi_recv);
    }

    /// Everything that is in flight on an endpoint, to be cancelled.
    pub(crate) fn all_to_cancel(&self, endpoint: u16) -> impl Iterator<Item = Posted> + '_ {
        self.ops.posted_on(endpoint).inspect(|op| self.cancelling(op.key))
    }

    /// What is in flight on an endpoint that may keep it from being closed.
    pub(crate) fn in_flight_on(&self, endpoint: u16) -> InFlight {
        // Of what is closed nothing is in flight any more, whatever has not come back.
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

    /// Polls until the receives and reads of a retired endpoint have ended, for a bounded time.
    #[cold]
    pub(crate) fn settle(&self, endpoint: u16) {
        let mut polls = 0;
        while self.in_flight_on(endpoint) != InFlight::NOTHING
            && polls < SETTLING
            && self.keep_until_busy(&mut polls, SETTLING)
        {}
    }

    /// Polls until `so` holds, throwing peers' events away: there is no handle left to poll for them.
    #[cold]
    fn progress_until(&self, patience: u32, so: impl Fn() -> bool) -> bool {
        let mut polls = 0;
        while !so() {
            self.unmatched.borrow_mut().clear();
            if polls >= patience || !self.keep_until_busy(&mut polls, patience) {
                return false;
            }
        }
        true
    }

    /// Polls until an event was kept or `patience` polls were made; `false` if the queue cannot go on.
    fn keep_until_busy(&self, polls: &mut u32, patience: u32) -> bool {
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

    fn close_queues(&self) -> Result<(), Errno> {
        let rx = self.rx.as_ref().map_or(Ok(()), |rx| {
            // SAFETY: the endpoints bound to it are closed (C2); called once, from `close` (C3).
            unsafe { T::cq_close(rx) }
        });
        // SAFETY: as above.
        let tx = unsafe { T::cq_close(&self.tx) };
        rx.and(tx)
    }
}

// SAFETY: `place_of` returns the place that the head begins.
unsafe impl<T: Transport, B: Buffer> Object for CqInner<T, B> {
    const ONE_THREAD: bool = true;

    unsafe fn place(head: NonNull<Head>) -> NonNull<HandleBlock<Self>> {
        // SAFETY: the caller's promise.
        unsafe { Self::place_of(head) }
    }

    fn is_here(&self) -> bool {
        self.domain.is_here()
    }

    unsafe fn end(this: NonNull<Self>, _: bool) -> Ended {
        // SAFETY: the caller's promise.
        let this = unsafe { this.as_ref() };
        this.node.unregister();
        let bonds = DropBonds { endpoint_slots: this.endpoint_slots() };
        // SAFETY: called once, here; there is no handle any more, and endpoints are handles.
        let closed = unsafe { this.close(true) };
        this.note_closed(closed, &this.domain);
        let ended = match closed {
            Ok(false) => Ended::Free,
            Ok(true) => {
                this.domain.leave();
                Ended::Free
            }
            Err(_) => {
                this.failed_to_close();
                // Endpoints may still be open, and so is what they are bound to.
                let _ = ManuallyDrop::new(bonds);
                return Ended::Kept;
            }
        };
        // User code runs.
        this.domain.release();
        drop(bonds);
        ended
    }
}

/// Drops what the endpoints of a queue were bound to, which are closed or left, as the queue is: user code runs. Also when a destructor
/// unwinds.
struct DropBonds<'a, T: Transport> {
    endpoint_slots: &'a [EndpointSlot<T>],
}

impl<T: Transport> Drop for DropBonds<'_, T> {
    fn drop(&mut self) {
        while let Some((endpoint_slot, rest)) = self.endpoint_slots.split_first() {
            let others = DropBonds { endpoint_slots: rest };
            self.endpoint_slots = &[];
            drop(endpoint_slot.take_bonds());
            self.endpoint_slots = others.endpoint_slots;
            let _ = ManuallyDrop::new(others);
        }
    }
}

/// How many endpoints of a queue could not be closed.
struct StillOpen {
    retired: usize,
    left: usize,
}

/// Closes the raw queues when a buffer's destructor unwinds. The block is then leaked.
struct CloseQueues<'a, T: Transport, B: Buffer> {
    cq: &'a CqInner<T, B>,
    /// Endpoints are still bound to them.
    left_open: bool,
}

impl<T: Transport, B: Buffer> Drop for CloseQueues<'_, T, B> {
    fn drop(&mut self) {
        if self.left_open || self.cq.close_queues().is_err() {
            self.cq.domain.leave();
        }
    }
}
