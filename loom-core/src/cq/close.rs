//! Closing a queue: its endpoints, then the buffers in flight, then the raw queues.

#![allow(unsafe_code, reason = "closes raw handles and drops the buffers that were lent")]

use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use super::close_endpoint::SETTLING;
use super::{CqInner, ReceiveMode, SlotState};
use crate::buffer::Buffer;
use crate::domain::DomainInner;
use crate::domain::scope_registry::{Node, ScopeRef};
use crate::storage::handle::{Ended, HandleBlock, Head, Object, Placed};
use crate::transport::{Closing, InFlight, Transport};
use crate::util::abort::OnFailedClose;
use crate::util::log::note;
use crate::util::on_drop::{OnDrop, for_each};
use crate::vocabulary::Errno;

impl<T: Transport, B: Buffer> CqInner<T, B> {
    /// Returns `true` if endpoints, and all that they use, stay open.
    ///
    /// # Safety
    /// Called once. The queue and its endpoints are not used any more.
    unsafe fn close(&self, drops_buffers: bool) -> Result<bool, Errno> {
        if self.has_bound_regions() {
            return Err(Errno::EBUSY);
        }
        // Long if it aborts (about 0.1 s), for a peer that is not running now.
        let patience = match self.on_failed_close {
            OnFailedClose::Leak => SETTLING,
            OnFailedClose::Abort => 32 * SETTLING,
        };
        // SAFETY: the caller guarantees that no `Endpoint` uses the slots.
        let mut open = unsafe { self.close_endpoints() }?;
        if open.retired > 0 {
            for (index, endpoint_slot) in (0u16..).zip(self.endpoint_slots()) {
                endpoint_slot.cancel_all(self.all_to_cancel(index));
            }
            let quiet = self.progress_until(patience, || {
                (0u16..).zip(self.endpoint_slots()).all(|(index, _)| self.in_flight_on(index) == InFlight::NOTHING)
            });
            if quiet {
                // Closes endpoints together that only keep each other open.
                for endpoint_slot in self.endpoint_slots() {
                    endpoint_slot.leave();
                }
            }
            // SAFETY: the caller guarantees that no `Endpoint` uses the slots.
            open = unsafe { self.close_endpoints() }?;
        }
        if open.retired > 0 {
            if !self.progress_until(patience, || self.ops.in_flight() == 0) {
                return Err(Errno::EBUSY);
            }
            // SAFETY: the caller guarantees that no `Endpoint` uses the slots.
            open = unsafe { self.close_endpoints() }?;
            for endpoint_slot in self.endpoint_slots() {
                endpoint_slot.leave_for_good(&self.domain);
            }
        }
        let left_open = open.retired + open.left > 0;
        // If a buffer's destructor unwinds, the block is leaked.
        let queues = OnDrop(|| {
            if left_open || self.close_queues().is_err() {
                self.domain.leave();
            }
        });
        if drops_buffers {
            // SAFETY: every endpoint that posted is closed (P1), or has no operations in flight
            // (P3). `queues` closes the raw queues even if a destructor unwinds.
            unsafe { self.ops.drop_buffers() };
        }
        let _ = ManuallyDrop::new(queues);
        if !left_open {
            self.close_queues()?;
        }
        Ok(left_open)
    }

    /// Leaks the queue's buffers and bonds, which may belong to another thread or hold handles of
    /// the scope.
    ///
    /// # Safety
    /// The node lies in a queue, which is not used any more.
    pub(super) unsafe fn close_scoped(node: NonNull<Node>, scope: ScopeRef) {
        // SAFETY: the caller guarantees a node of a queue.
        let prefix = unsafe { node.byte_sub(Self::NODE_AT) };
        // SAFETY: `prefix` is the begin of the queue's place.
        let place = unsafe { Self::place_of(prefix.cast()) };
        // SAFETY: the caller guarantees a node of a queue, which has this place.
        let this = unsafe { HandleBlock::value(place) };
        // SAFETY: the caller guarantees a node of an open queue.
        let this = unsafe { this.as_ref() };
        if !this.is_here() {
            return;
        }
        // SAFETY: the queue gives up its own handle here. Its block stays, because forgotten
        // objects may refer to it.
        let domain = unsafe { core::ptr::read(&raw const this.domain) };
        // SAFETY: called once, and the caller guarantees that the queue is not used any more.
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

    fn note_closed(&self, closed: Result<bool, Errno>, domain: &DomainInner<T>) {
        let depth = self.depth;
        match closed {
            Ok(false) => note!(debug, "close", "completion queue of {depth} operations is closed on {domain}"),
            Ok(true) => note!(
                warn,
                "left",
                "completion queue of {depth} operations stays open on {domain}, with endpoints that the provider cannot close now: {}",
                self.endpoint_slots().iter().filter(|endpoint_slot| endpoint_slot.is(SlotState::Left)).count()
            ),
            Err(errno) => note!(
                warn,
                "left",
                "completion queue of {depth} operations stays open on {domain} ({errno}): leaked are the buffers in flight, {}",
                self.ops.in_flight()
            ),
        }
    }

    fn failed_to_close(&self) {
        match self.on_failed_close {
            OnFailedClose::Leak => {}
            OnFailedClose::Abort if self.has_bound_regions() => {
                crate::util::abort::abort("a memory region was forgotten that is bound to an endpoint of a scope")
            }
            OnFailedClose::Abort => {
                crate::util::abort::abort("a provider failed to close an endpoint or queue whose buffers are borrowed")
            }
        }
    }

    /// On closing, a bound region was forgotten, and its endpoint cannot be closed.
    fn has_bound_regions(&self) -> bool {
        self.endpoint_slots().iter().any(|endpoint_slot| !endpoint_slot.regions.get().is_none())
    }

    /// # Safety
    /// No `Endpoint` uses the endpoint slots any more.
    unsafe fn close_endpoints(&self) -> Result<StillOpen, Errno> {
        let mut open = StillOpen { retired: 0, left: 0 };
        // Shared receive contexts close last.
        for for_others in [false, true] {
            for (index, endpoint_slot) in (0u16..).zip(self.endpoint_slots()) {
                if (endpoint_slot.receives() == Some(ReceiveMode::ForOthers)) != for_others {
                    continue;
                }
                // SAFETY: the caller guarantees that no `Endpoint` uses the slots.
                match unsafe { self.close_endpoint(index, endpoint_slot) }? {
                    Closing::Closed => {}
                    Closing::Retired => open.retired += 1,
                    Closing::Left => open.left += 1,
                }
            }
        }
        Ok(open)
    }

    /// Discards peers' events, which no handle is left to read.
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

    fn close_queues(&self) -> Result<(), Errno> {
        let rx = self.rx.as_ref().map_or(Ok(()), |rx| {
            // SAFETY: its endpoints are closed (H2), and `close` calls this once (H3).
            unsafe { T::cq_close(rx) }
        });
        // SAFETY: its endpoints are closed (H2), and `close` calls this once (H3).
        let tx = unsafe { T::cq_close(&self.tx) };
        rx.and(tx)
    }
}

// SAFETY: a place begins with its head, and `place_of` adds the number of slots.
unsafe impl<T: Transport, B: Buffer> Placed for CqInner<T, B> {
    unsafe fn place(head: NonNull<Head>) -> NonNull<HandleBlock<Self>> {
        // SAFETY: the caller guarantees a head of this type.
        unsafe { Self::place_of(head) }
    }
}

impl<T: Transport, B: Buffer> Object for CqInner<T, B> {
    const ONE_THREAD: bool = true;

    fn is_here(&self) -> bool {
        self.domain.is_here()
    }

    unsafe fn end(this: NonNull<Self>, _: bool) -> Ended {
        // SAFETY: the caller guarantees a valid object.
        let this = unsafe { this.as_ref() };
        this.node.unregister();
        let bonds = OnDrop(|| for_each(this.endpoint_slots().iter(), |endpoint_slot| drop(endpoint_slot.take_bonds())));
        // SAFETY: called once, without any handles. Endpoints are handles.
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
                let _ = ManuallyDrop::new(bonds);
                return Ended::Kept;
            }
        };
        this.domain.release();
        drop(bonds);
        ended
    }
}

struct StillOpen {
    retired: usize,
    left: usize,
}
