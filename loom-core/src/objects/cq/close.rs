//! Closing a queue: endpoints first, forgotten ones too, then the buffers in flight, then the raw queues.

#![allow(unsafe_code, reason = "closes raw handles and drops the buffers that were lent")]

use core::mem::ManuallyDrop;

use super::Cq;
use crate::abort::OnFailedClose;
use crate::buffer::Buffer;
use crate::engine::op_table::{Kind, OpKey, Posted};
use crate::objects::endpoint::{Receiving, Record};
use crate::transport::{Closing, InFlight, Transport};
use crate::vocabulary::Errno;

/// How many polls an endpoint is given to end what cannot be interrupted, before it is left to its queue.
const SETTLING: u32 = 1 << 17;

impl<T: Transport, B: Buffer> Cq<'_, T, B> {
    /// Closes endpoints, forgotten ones too, then drops the buffers, then closes the queues.
    ///
    /// # Safety
    /// Called once, by the owner, whom nobody borrows any more.
    pub(super) unsafe fn close(&self, on_failed_close: OnFailedClose) -> Result<(), Errno> {
        if self.has_bound_regions() {
            return Err(Errno::EBUSY);
        }
        // Polls: milliseconds where giving up leaks; a tenth of a second, so that a peer which is not running at the
        // moment can answer, where it ends the process.
        let patience = match on_failed_close {
            OnFailedClose::Leak => SETTLING,
            OnFailedClose::Abort => 32 * SETTLING,
        };
        // SAFETY: the owner is being dropped, so no `Endpoint` uses the records.
        let mut open = unsafe { self.close_endpoints() }?;
        if open.retired > 0 {
            for (index, record) in (0u16..).zip(self.records()) {
                record.cancel_all(self.all_to_cancel(index));
            }
            let quiet = self.progress_until(patience, || {
                (0u16..).zip(self.records()).all(|(index, _)| self.in_flight_on(index) == InFlight::NOTHING)
            });
            if quiet {
                // Together, if they keep each other open only.
                for record in self.records() {
                    record.leave();
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
            for record in self.records() {
                record.leave_for_good(self.domain);
            }
        }
        // From here on nobody reaches memory through this queue's endpoints.
        self.domain.lingering().queue_closed();
        let left_open = open.retired + open.left > 0;
        let queues = CloseQueues { cq: self, left_open };
        // SAFETY: every endpoint that posted is closed, or has nothing in flight. A destructor that unwinds still gets the
        // queues closed.
        unsafe { self.ops.drop_buffers() };
        let _ = ManuallyDrop::new(queues);
        // Queues of endpoints that stay open stay open too, and so does the domain, which has a child more then.
        if left_open { Ok(()) } else { self.close_queues() }
    }

    /// Whether a memory region is bound to one of the endpoints: it was forgotten, if the queue is to be closed, and so the
    /// endpoint cannot be.
    pub(super) fn has_bound_regions(&self) -> bool {
        self.records().iter().any(|record| !record.regions().get().is_none())
    }

    /// Closes every endpoint, and tells how many are still open.
    ///
    /// # Safety
    /// No `Endpoint` uses the records any more.
    unsafe fn close_endpoints(&self) -> Result<StillOpen, Errno> {
        let mut open = StillOpen { retired: 0, left: 0 };
        // What others receive through comes last.
        for for_others in [false, true] {
            for (index, record) in (0u16..).zip(self.records()) {
                if (record.receives() == Some(Receiving::ForOthers)) != for_others {
                    continue;
                }
                // SAFETY: the caller's promise.
                match unsafe { self.close_endpoint(index, record) }? {
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
        let through_this = Some(Receiving::Through(index));
        self.records().iter().any(|other| other.receives() == through_this)
    }

    /// Closes the endpoint at a place of the queue. A shared receive context that an open endpoint receives through is
    /// retired.
    ///
    /// # Safety
    /// Nobody uses the endpoint after this.
    pub(crate) unsafe fn close_endpoint(&self, index: u16, record: &Record<'_, T>) -> Result<Closing, Errno> {
        if self.is_received_through(index) {
            record.retire();
            return Ok(Closing::Retired);
        }
        // That is what providers make of them.
        self.all_to_cancel(index).for_each(drop);
        // SAFETY: the caller's promise; the record is one of this queue, and so of its domain.
        unsafe { record.close(self.domain, self.in_flight_on(index)) }
    }

    /// Notes that an operation is being cancelled.
    pub(crate) fn cancelling(&self, key: OpKey) {
        // Providers that keep to the buffer of a multi-receive flag its end, too.
        self.ops.cancelling(key, T::conduct(self.domain.info().raw()).multi_recv);
    }

    /// Everything that is in flight on an endpoint, to be cancelled.
    pub(crate) fn all_to_cancel(&self, endpoint: u16) -> impl Iterator<Item = Posted> + '_ {
        self.ops.posted_on(endpoint).inspect(|op| self.cancelling(op.key))
    }

    /// What is in flight on an endpoint that may keep it from being closed.
    pub(crate) fn in_flight_on(&self, endpoint: u16) -> InFlight {
        // Of what is closed nothing is in flight any more, whatever has not come back.
        let record = self.records().get(usize::from(endpoint));
        let Some(receives) = record.and_then(Record::receives) else { return InFlight::NOTHING };
        let with_transmits = receives == Receiving::Nowhere || !T::conduct(self.domain.info().raw()).close_with_sends;
        self.ops.posted_on(endpoint).fold(InFlight::NOTHING, |in_flight, op| match op.kind {
            Kind::Receive | Kind::TaggedReceive | Kind::MultiReceive | Kind::Spare => {
                InFlight { receives: in_flight.receives + 1, ..in_flight }
            }
            Kind::Send | Kind::Read if with_transmits => InFlight { transmits: in_flight.transmits + 1, ..in_flight },
            Kind::Read => InFlight { longest_read: in_flight.longest_read.max(op.len), ..in_flight },
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

    /// Polls until something is so, throwing peers' events away: nobody will ask for them any more.
    #[cold]
    fn progress_until(&self, patience: u32, so: impl Fn() -> bool) -> bool {
        let mut polls = 0;
        while !so() {
            self.bystanders.borrow_mut().clear();
            if polls >= patience || !self.keep_until_busy(&mut polls, patience) {
                return false;
            }
        }
        true
    }

    /// Polls until an event was kept or so many polls were made; `false` if the queue cannot go on.
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
            // SAFETY: the endpoints bound to it are closed; called once, from `close`.
            unsafe { T::cq_close(rx) }
        });
        // SAFETY: as above.
        let tx = unsafe { T::cq_close(&self.tx) };
        rx.and(tx)?;
        self.domain.child_closed();
        Ok(())
    }
}

/// How many endpoints of a queue could not be closed.
struct StillOpen {
    retired: usize,
    left: usize,
}

/// Closes the raw queues when a buffer's destructor unwinds. The block is then leaked by `CqOwner::drop`.
struct CloseQueues<'a, 'd, T: Transport, B: Buffer> {
    cq: &'a Cq<'d, T, B>,
    /// Endpoints are still bound to them.
    left_open: bool,
}

impl<T: Transport, B: Buffer> Drop for CloseQueues<'_, '_, T, B> {
    fn drop(&mut self) {
        if !self.left_open {
            let _ = self.cq.close_queues();
        }
    }
}
