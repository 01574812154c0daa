//! Sending: messages into cells, cells into inboxes, and memory straight into a peer's region.

#![allow(unsafe_code, reason = "copies from memory that was lent with a send, and to and from regions")]

use core::ptr;

use super::cell::{MessageCell, State};
use super::copy::copy_message;
use super::endpoint_state::{EndpointState, LocalState, Sending};
use super::list::NIL;
use super::network::Net;
use super::strict::end_of_write;
use crate::buffer::Lent;
use crate::exposed::{copy_in, copy_out};
use crate::sync::Ordering;
use crate::transport::{Context, Event, Refusal, RmaTarget};
use crate::vocabulary::{Access, CompletionFlags, Errno, FabricAddr, ImmediateData, Tag};

/// What to send. `context` is `None` for an injected message, whose success nobody awaits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub(super) to: u64,
    pub(super) tag: Option<u64>,
    pub(super) data: Option<ImmediateData>,
    pub(super) bytes: *const u8,
    pub(super) len: usize,
    pub(super) context: Option<u64>,
    /// After how many looks of the receiver it arrives, if that is not at once.
    pub(super) delay: Option<u32>,
}

/// What an operation tells its sender, besides counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// How it has ended.
    All,
    /// That it has failed: as an event, or by being refused where that is known at once. (`FI_SELECTIVE_COMPLETION`)
    Failure,
    /// Nothing: it was injected, and could not be refused any more.
    Nothing,
    /// Nothing, and it is not counted either: both were done before it was.
    Told,
}

impl Outgoing {
    /// A message out of one buffer.
    #[inline]
    pub(super) fn of(
        to: FabricAddr,
        (tag, data): (Option<Tag>, Option<ImmediateData>),
        lent: &Lent,
        context: Context,
    ) -> Self {
        let (bytes, len) = (lent.ptr().as_ptr(), lent.len());
        let tag = tag.map(|tag| tag.0);
        Outgoing { to: to.0, tag, data, bytes, len, context: Some(context.addr()), delay: None }
    }

    /// A message that is injected.
    #[inline]
    pub(super) fn injected(to: FabricAddr, (tag, data): (Option<Tag>, Option<ImmediateData>), bytes: &[u8]) -> Self {
        let (bytes, len) = (bytes.as_ptr(), bytes.len());
        Outgoing { to: to.0, tag: tag.map(|tag| tag.0), data, bytes, len, context: None, delay: None }
    }

    /// As it is sent when it is over with the call.
    #[inline]
    pub(super) fn at_once(self, report: Report) -> Self {
        Outgoing { context: self.context.filter(|_| report == Report::All), ..self }
    }

    const fn kind(&self) -> CompletionFlags {
        if self.tag.is_some() { CompletionFlags::TAGGED } else { CompletionFlags::MSG }
    }

    /// What the sender's completion reports.
    pub(super) const fn sent(&self) -> CompletionFlags {
        self.kind().union(CompletionFlags::SEND)
    }

    /// What the receiver's completion reports.
    const fn received(&self) -> CompletionFlags {
        let data = if self.data.is_some() { CompletionFlags::REMOTE_CQ_DATA } else { CompletionFlags::empty() };
        self.kind().union(CompletionFlags::RECV).union(data)
    }
}

impl Net {
    /// A cell of this port that is at home. Cells mostly come back in the order in which they left, so the next one in
    /// turn is the one; only when receivers keep messages is there anything to search.
    #[inline]
    pub(super) fn take_cell(&self, port: &EndpointState) -> Option<&MessageCell> {
        let own = port.own();
        let turn = own.turn.get();
        let head = self.cell_in_turn(own, turn);
        if !head.is(State::Home) {
            return self.search_cell(port);
        }
        own.turn.set(turn.wrapping_add(1));
        Some(head)
    }

    /// Looks on where the next cell in turn is away, but not at all of them at once: a sender that is refused is going to ask
    /// again soon, and each look takes a cache line from the receiver.
    #[cold]
    fn search_cell(&self, port: &EndpointState) -> Option<&MessageCell> {
        const LOOKS: u32 = 64;
        self.harvest(port);
        let own = port.own();
        let looks = LOOKS.min(self.cells_each());
        for _ in 0..looks {
            let turn = own.turn.get();
            own.turn.set(turn.wrapping_add(1));
            let head = self.cell_in_turn(own, turn);
            if head.is(State::Home) {
                return Some(head);
            }
        }
        None
    }

    /// Takes back the cells whose offers have ended, and reports them.
    #[inline(never)]
    pub(super) fn harvest(&self, port: &EndpointState) {
        let own = port.own();
        let mut cell = port.returns.0.take();
        while cell != NIL {
            let head = self.cell(cell);
            cell = head.link.load(Ordering::Relaxed);
            if let Some(sending) = self.end_offer(own, head) {
                let event = if head.is(State::Done) {
                    Event::success(sending.context, sending.flags, sending.len)
                } else {
                    Event::failure(sending.context, sending.flags, Errno::ECONNRESET)
                };
                own.report(event, sending.report);
            }
            head.come_home();
        }
    }

    /// What was awaited of a cell, if anything; it is awaited no more.
    pub(super) fn end_offer(&self, own: &LocalState, head: &MessageCell) -> Option<Sending> {
        let sending = self.sending(head).take();
        if sending.is_some() {
            own.offers.set(own.offers.get() - 1);
        }
        sending
    }

    /// The sender of a cell wants its buffer back: `true` if it was offered and the receiver had not begun to copy.
    pub(super) fn revoke(&self, head: &MessageCell) -> bool {
        let revoked = head.revoke();
        // Whoever is in the receiver's place by now: one who came later looks in vain, once.
        if revoked
            && let Some(sending) = self.sending(head).get()
            && let Some(receiver) = self.ports().get(usize::from(sending.to))
        {
            receiver.revocations.tell();
        }
        revoked
    }

    /// Gives a cell back to the port that it belongs to. Nobody awaits the end of an eager message, so that its cell
    /// is home at once.
    #[inline]
    pub(super) fn return_cell(&self, head: &MessageCell) {
        if head.is(State::Eager) {
            head.come_home();
        } else {
            self.owner_of(head).returns.0.push(head.number, &head.link);
        }
    }

    /// Sends a message. Short ones are copied into the cell and are over at once; the receiver copies long ones from
    /// the sender's buffer.
    ///
    /// # Safety
    /// The bytes are valid for reads: during the call if they are not longer than the eager size, else until the
    /// event of the context or until the endpoint is closed.
    #[inline]
    pub(super) unsafe fn send(&self, port: &EndpointState, outgoing: Outgoing) -> Result<(), Refusal> {
        // SAFETY: the caller's promise.
        unsafe { self.send_reporting(port, outgoing, Report::All) }
    }

    /// As [`send`](Net::send), which tells so much.
    ///
    /// # Safety
    /// As [`send`](Net::send).
    #[inline(always)]
    pub(super) unsafe fn send_reporting(
        &self,
        port: &EndpointState,
        outgoing: Outgoing,
        report: Report,
    ) -> Result<(), Refusal> {
        if outgoing.len > self.eager_size {
            return self.offer(port, outgoing, report);
        }
        let outgoing = outgoing.at_once(report);
        self.send_eager(port, outgoing, |room| {
            // SAFETY: the cell is this port's, and has room for so much; the caller promises the bytes.
            unsafe { copy_message(outgoing.bytes, room, outgoing.len) };
        })
    }

    /// Sends a short message, whose bytes `fill` writes to where they go.
    #[inline(always)]
    pub(super) fn send_eager(
        &self,
        port: &EndpointState,
        outgoing: Outgoing,
        fill: impl FnOnce(*mut u8),
    ) -> Result<(), Refusal> {
        let head = self.begin_send(port, outgoing.context)?;
        let room = self.eager_room(head);
        fill(room);
        Self::write_message(head, port.own(), &outgoing, room);
        head.set(State::Eager);
        match (self.push(outgoing.to, head, outgoing.delay), outgoing.context) {
            (Ok(()), None) => {
                port.own().count_unsignaled(outgoing.sent(), outgoing.len);
                Ok(())
            }
            (Ok(()), Some(context)) => {
                port.own().end_transmit(Event::success(context, outgoing.sent(), outgoing.len));
                Ok(())
            }
            (Err(errno), context) => self.unsent(port.own(), head, context, outgoing.sent(), errno),
        }
    }

    /// Offers the bytes of a long message to the receiver.
    #[inline(never)]
    pub(super) fn offer(&self, port: &EndpointState, outgoing: Outgoing, report: Report) -> Result<(), Refusal> {
        self.offer_from(port, outgoing, report, |_| outgoing.bytes.cast_mut())
    }

    /// Offers what `place` says, which is given the room in the cell.
    #[inline(always)]
    pub(super) fn offer_from(
        &self,
        port: &EndpointState,
        outgoing: Outgoing,
        report: Report,
        place: impl FnOnce(*mut u8) -> *mut u8,
    ) -> Result<(), Refusal> {
        // The bytes of an injected message are the caller's again when the call returns: never an offer.
        let context = outgoing.context.ok_or(Refusal::Errno(Errno::EMSGSIZE))?;
        let own = port.own();
        let head = self.begin_send(port, outgoing.context)?;
        let bytes = place(self.eager_room(head));
        Self::write_message(head, own, &outgoing, bytes);
        head.set(State::Offered);
        let (to, flags) = (super::addr_parts(outgoing.to).0, outgoing.sent());
        self.sending(head).set(Some(Sending { context, to, report, len: outgoing.len, flags }));
        own.offers.set(own.offers.get() + 1);
        match self.push(outgoing.to, head, outgoing.delay) {
            Ok(()) => Ok(()),
            Err(errno) => {
                self.end_offer(own, head);
                self.unsent(own, head, outgoing.context, flags, errno)
            }
        }
    }

    /// Takes what a message needs: a cell and, if it will have an event, a place for that.
    #[inline]
    fn begin_send(&self, port: &EndpointState, context: Option<u64>) -> Result<&MessageCell, Refusal> {
        let tx = port.own().tx();
        if context.is_some() && !tx.reserve() {
            return Err(Refusal::Again);
        }
        let cell = self.take_cell(port);
        if cell.is_none() && context.is_some() {
            tx.release();
        }
        cell.ok_or(Refusal::Again)
    }

    #[inline]
    fn write_message(head: &MessageCell, own: &LocalState, outgoing: &Outgoing, bytes: *const u8) {
        let message = &head.message;
        message.flags.set(outgoing.received());
        message.from.set(own.addr.get());
        message.tag.set(outgoing.tag.unwrap_or(0));
        message.data.set(outgoing.data.map_or(0, |data| data.0));
        message.len.set(outgoing.len);
        message.bytes.set(bytes);
    }

    /// Ends a send whose peer is not there.
    #[cold]
    fn unsent(
        &self,
        own: &LocalState,
        head: &MessageCell,
        context: Option<u64>,
        flags: CompletionFlags,
        errno: Errno,
    ) -> Result<(), Refusal> {
        head.come_home();
        match context {
            Some(context) => {
                own.end_transmit(Event::failure(context, flags, errno));
                Ok(())
            }
            None => Err(Refusal::Errno(errno)),
        }
    }

    #[inline]
    fn push(&self, to: u64, head: &MessageCell, delay: Option<u32>) -> Result<(), Errno> {
        let (index, generation) = super::addr_parts(to);
        let port = self.ports().get(usize::from(index)).ok_or(Errno::EHOSTUNREACH)?;
        if let Some(looks) = delay {
            return self.push_late((port, generation), head, looks);
        }
        if port.inbox.push(generation, head.number, &head.link) { Ok(()) } else { Err(Errno::EHOSTUNREACH) }
    }

    /// Writes into a peer's region, and with immediate data tells the peer. What the peer does not allow is an error
    /// event of the context, or without one a refusal.
    ///
    /// # Safety
    /// The bytes are valid for reads during the call.
    #[inline]
    pub(super) unsafe fn write(
        &self,
        port: &EndpointState,
        target: &RmaTarget,
        (bytes, len): (*const u8, usize),
        data: Option<ImmediateData>,
        how: (Option<u64>, Option<u32>),
    ) -> Result<(), Refusal> {
        let copy = || {
            self.at_region(target, len, Access::REMOTE_WRITE, |place| {
                // SAFETY: the region is held open and the range lies within; the caller promises the bytes.
                unsafe { copy_in(bytes, place, len) };
            })
        };
        self.write_by(port, (target.to.0, len), data, how, copy)
    }

    /// A write of so many bytes to an endpoint, which `copy` does.
    #[inline(always)]
    pub(super) fn write_by(
        &self,
        port: &EndpointState,
        (to, len): (u64, usize),
        data: Option<ImmediateData>,
        (context, delay): (Option<u64>, Option<u32>),
        copy: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Refusal> {
        let own = port.own();
        // The cell for the news comes first: once the bytes are written, nothing may be refused for lack of room.
        let head = match data {
            None if context.is_some() && !own.tx().reserve() => return Err(Refusal::Again),
            None => None,
            Some(_) => Some(self.begin_send(port, context)?),
        };
        let result = match (copy(), head, data) {
            (Ok(()), Some(head), Some(data)) => self.announce(own, head, (to, len, data), delay),
            (result, ..) => result,
        };
        self.end_rma(own, CompletionFlags::RMA | CompletionFlags::WRITE, len, context, result)
    }

    /// Tells an endpoint that so many bytes were written there, with a cell that is given up.
    #[inline(always)]
    pub(super) fn announce(
        &self,
        own: &LocalState,
        head: &MessageCell,
        (to, len, data): (u64, usize, ImmediateData),
        delay: Option<u32>,
    ) -> Result<(), Errno> {
        let message = &head.message;
        let remote = CompletionFlags::REMOTE_WRITE.union(CompletionFlags::REMOTE_CQ_DATA);
        message.flags.set(CompletionFlags::RMA.union(remote));
        message.from.set(own.addr.get());
        message.tag.set(0);
        message.data.set(data.0);
        message.len.set(len);
        message.bytes.set(ptr::null());
        head.set(State::Eager);
        let pushed = self.push(to, head, delay);
        if pushed.is_err() {
            head.come_home();
        }
        pushed
    }

    /// Reads from a peer's region.
    ///
    /// # Safety
    /// The place for the bytes is valid for writes during the call.
    #[inline]
    pub(super) unsafe fn read(
        &self,
        port: &EndpointState,
        target: &RmaTarget,
        bytes: *mut u8,
        len: usize,
        context: u64,
    ) -> Result<(), Refusal> {
        self.read_by(port, len, Some(context), || {
            self.at_region(target, len, Access::REMOTE_READ, |place| {
                // SAFETY: the region is held open and the range lies within; the caller promises the place.
                unsafe { copy_out(place, bytes, len) };
            })
        })
    }

    /// A read of so many bytes, which `copy` does.
    #[inline(always)]
    pub(super) fn read_by(
        &self,
        port: &EndpointState,
        len: usize,
        context: Option<u64>,
        copy: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Refusal> {
        let own = port.own();
        if context.is_some() && !own.tx().reserve() {
            return Err(Refusal::Again);
        }
        self.end_rma(own, CompletionFlags::RMA | CompletionFlags::READ, len, context, copy())
    }

    /// Finds the range that an RMA operation means, and holds its region open while `copy` runs.
    #[inline]
    pub(super) fn at_region(
        &self,
        target: &RmaTarget,
        len: usize,
        access: Access,
        copy: impl FnOnce(*mut u8),
    ) -> Result<(), Errno> {
        let domain = self.reach(target.to.0)?;
        let region = self.region(target.key).ok_or(Errno::ENOKEY)?.enter(target.key)?;
        copy(region.remote_range(target.addr.0, len, access, domain, target.to.0)?.as_ptr());
        Ok(())
    }

    #[inline]
    fn end_rma(
        &self,
        own: &LocalState,
        flags: CompletionFlags,
        len: usize,
        context: Option<u64>,
        result: Result<(), Errno>,
    ) -> Result<(), Refusal> {
        let result = match result {
            Err(_) if flags.contains(CompletionFlags::WRITE) => end_of_write(own, result),
            other => other,
        };
        match (context, result) {
            (Some(context), Ok(())) => {
                own.end_transmit(Event::success(context, flags, len));
                Ok(())
            }
            (Some(context), Err(errno)) => {
                own.end_transmit(Event::failure(context, flags, errno));
                Ok(())
            }
            (None, Ok(())) => {
                own.count_unsignaled(flags, len);
                Ok(())
            }
            (None, Err(errno)) => Err(Refusal::Errno(errno)),
        }
    }
}

impl LocalState {
    /// Reports the end of an operation as far as it is to be told, for which a place was reserved unless nothing is.
    pub(super) fn report(&self, event: Event, report: Report) {
        match report {
            Report::Failure if !event.is_error() => {
                self.counters.count(&event);
                self.tx().release();
            }
            Report::All | Report::Failure => self.end_transmit(event),
            Report::Nothing => self.counters.count(&event),
            Report::Told => {}
        }
    }
}
