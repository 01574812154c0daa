//! Posts on an endpoint with a plan.

#![allow(unsafe_code, reason = "passes the contract of posts on")]

use super::super::endpoint_state::EndpointState;
use super::super::handles::SoftEndpoint;
use super::super::network::Net;
use super::super::send::{Outgoing, Report};
use super::super::strict::Strict;
use super::late::{Rma, Until};
use super::strikes;
use crate::transport::{Event, Msg, Refusal, RemotePart, RmaTarget};
use crate::vocabulary::{Access, CompletionFlags, Errno, ImmediateData};

impl SoftEndpoint<'_> {
    /// What every post comes by that is looked at more closely: whether the endpoint is still there, and lets it pass.
    pub(in crate::soft) fn gate(&self) -> Result<(), Refusal> {
        let faults = self.port().own().faults();
        if faults.is_dead() {
            return Err(Refusal::Errno(Errno::ESHUTDOWN));
        }
        if strikes(&faults.kill) {
            faults.tally.killed();
            self.net.end_port(self.port());
            faults.dead.set(true);
            return Err(Refusal::Errno(Errno::ESHUTDOWN));
        }
        if faults.strikes_again(&faults.refuse, |plan| plan.refuse) {
            faults.tally.refused();
            return Err(Refusal::Again);
        }
        Ok(())
    }

    /// Sends a message that has come by the gate.
    ///
    /// # Safety
    /// As [`Net::send`].
    pub(in crate::soft) unsafe fn send_amid_faults(&self, outgoing: Outgoing) -> Result<(), Refusal> {
        if let Some(lost) = self.net.lose(self.port(), outgoing.context, outgoing.sent()) {
            return lost;
        }
        let outgoing = Outgoing { delay: self.port().own().faults().delay(), ..outgoing };
        // SAFETY: the caller's promise.
        unsafe { self.net.send(self.port(), outgoing) }
    }

    /// Writes what has come by the gate.
    ///
    /// # Safety
    /// The bytes are valid for reads: if there is no context, during the call, and there are no more than can be injected; else
    /// until the event of the context or until the endpoint is closed.
    pub(in crate::soft) unsafe fn write_amid_faults(
        &self,
        target: RmaTarget,
        (bytes, len): (*const u8, usize),
        data: Option<ImmediateData>,
        context: Option<u64>,
    ) -> Result<(), Refusal> {
        let report = Report::All;
        let rma = Rma { target, reads: false, bytes: bytes.cast_mut(), len, data, context, report };
        // SAFETY: the caller's promise.
        if let Some(taken) = unsafe { self.net.write_in_advance(self.port(), &rma) } {
            return taken;
        }
        // SAFETY: the caller's promise.
        if let Some(taken) = unsafe { self.net.do_later(self.port(), &rma) } {
            return taken;
        }
        let delay = self.port().own().faults().delay();
        // SAFETY: the caller's promise.
        unsafe { self.net.write(self.port(), &target, (bytes, len), data, (context, delay)) }
    }

    /// Reads what has come by the gate.
    ///
    /// # Safety
    /// The place is valid for writes until the event of the context or until the endpoint is closed.
    pub(in crate::soft) unsafe fn read_amid_faults(
        &self,
        target: RmaTarget,
        (bytes, len): (*mut u8, usize),
        context: u64,
    ) -> Result<(), Refusal> {
        let (data, report) = (None, Report::All);
        let rma = Rma { target, reads: true, bytes, len, data, context: Some(context), report };
        // SAFETY: the caller's promise.
        if let Some(taken) = unsafe { self.net.do_later(self.port(), &rma) } {
            return taken;
        }
        // SAFETY: the caller's promise.
        unsafe { self.net.read(self.port(), &target, bytes, len, context) }
    }
}

impl Net {
    /// Loses an operation that goes out, if it is its turn.
    pub(in crate::soft) fn lose(
        &self,
        port: &EndpointState,
        context: Option<u64>,
        flags: CompletionFlags,
    ) -> Option<Result<(), Refusal>> {
        let own = port.own();
        let faults = own.faults();
        let context = context.filter(|_| faults.strikes_again(&faults.lose, |plan| plan.lose))?;
        if !own.tx().reserve() {
            return Some(Err(Refusal::Again));
        }
        faults.tally.lost();
        own.end_transmit(Event::failure(context, flags, Errno::ECONNABORTED));
        Some(Ok(()))
    }

    /// [`do_later`](Net::do_later) of an operation with flags; one with several ranges is done now.
    ///
    /// # Safety
    /// What was lent is valid until the event of the context or until the endpoint is closed: for reads, or for writes.
    pub(in crate::soft) unsafe fn rma_amid_faults(
        &self,
        port: &EndpointState,
        msg: &Msg<'_>,
        remote: &[RemotePart],
        access: Access,
        report: Report,
    ) -> Option<Result<(), Refusal>> {
        if !port.own().faults().plan.get().strikes() {
            return None;
        }
        let (reads, context) = (access == Access::REMOTE_READ, Some(msg.context.addr()));
        let ([lent], [part]) = (msg.pieces, remote) else { return None };
        let target = RmaTarget { to: msg.address, addr: part.addr, key: part.key };
        let (bytes, len) = (lent.ptr().as_ptr(), lent.len());
        // SAFETY: the caller's promise.
        unsafe { self.do_later(port, &Rma { target, reads, bytes, len, data: msg.data, context, report }) }
    }

    /// Takes a short write that is reported before it is done, in a strict network; `None` if it is not to be.
    ///
    /// # Safety
    /// The bytes are valid for reads during the call.
    unsafe fn write_in_advance(&self, port: &EndpointState, rma: &Rma) -> Option<Result<(), Refusal>> {
        let own = port.own();
        let context = rma.context?;
        let held = own.faults().strict().is_some_and(Strict::holds_rma);
        if !held || rma.len > self.eager_size {
            return None;
        }
        if !own.tx().reserve() {
            return Some(Err(Refusal::Again));
        }
        let told = Rma { context: None, report: Report::Told, ..*rma };
        // SAFETY: the caller's promise, and the cell has room for them.
        match unsafe { self.hold(port, &told, Until::PeerLooks) } {
            Ok(true) => {
                own.end_transmit(Event::success(context, rma.flags(), rma.len));
                Some(Ok(()))
            }
            other => {
                own.tx().release();
                other.err().map(Err)
            }
        }
    }

    /// Takes a write or a read that is lost, or done later; `None` if it is to be done now.
    ///
    /// # Safety
    /// As [`hold`](Net::hold).
    unsafe fn do_later(&self, port: &EndpointState, rma: &Rma) -> Option<Result<(), Refusal>> {
        let reported = rma.context.filter(|_| rma.report == Report::All);
        if let Some(lost) = self.lose(port, reported, rma.flags()) {
            return Some(lost);
        }
        let faults = port.own().faults();
        let plan = faults.plan.get();
        let until = match (plan.strict, plan.reorder) {
            (Some(strict), _) if strict.holds_rma() => Until::PeerLooks,
            (Some(_), _) | (None, 0) => return None,
            (None, most) => match faults.draw(|random| random.up_to(most)) {
                0 => return None,
                looks => Until::Looks(looks),
            },
        };
        if rma.context.is_none() && plan.strict.is_none() {
            // It could not be refused later, when nobody is told how it has ended.
            let target = &rma.target;
            if let Err(errno) = self.at_region(target, rma.len, Access::REMOTE_WRITE, |_| {}) {
                return Some(Err(Refusal::Errno(errno)));
            }
        }
        // SAFETY: the caller's promise.
        match unsafe { self.hold(port, rma, until) } {
            Ok(true) => Some(Ok(())),
            Ok(false) => None,
            Err(refusal) => Some(Err(refusal)),
        }
    }
}
