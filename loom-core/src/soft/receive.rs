//! Receiving: posted receives, unexpected messages, and which go together.
//!
//! The oldest receive that accepts a message takes it, and a receive takes the oldest message that it accepts.

#![allow(unsafe_code, reason = "copies into memory that was lent with a receive")]

use core::cell::Cell;
use core::ptr;

use super::cell::{Kind, Message, State};
use super::list::NIL;
use super::network::Net;
use super::port::{Own, Port};
use crate::transport::{Event, Refusal};
use crate::vocabulary::{CompletionFlags, Errno, FabricAddr, ImmediateData, Tag, TagMatch};

/// First and last of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Ends {
    pub(super) const EMPTY: Ends = Ends { first: NIL, last: NIL };
}

/// What a posted receive takes, and where it puts it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    /// A fabric address, or `FabricAddr::UNSPEC`.
    pub(super) from: u64,
    pub(super) tag: TagMatch,
    pub(super) ptr: *mut u8,
    pub(super) len: usize,
    pub(super) context: u64,
}

impl Want {
    #[inline]
    fn accepts(&self, message: &Message) -> bool {
        (self.from == FabricAddr::UNSPEC.0 || self.from == message.from) && self.tag.accepts(Tag(message.tag))
    }
}

/// A place for one posted receive.
#[derive(Debug)]
pub(super) struct Receive {
    pub(super) want: Cell<Want>,
    pub(super) next: Cell<u32>,
    pub(super) prev: Cell<u32>,
}

impl Receive {
    pub(super) fn new(next: u32) -> Self {
        let want = Want { from: 0, tag: TagMatch::any(), ptr: ptr::null_mut(), len: 0, context: 0 };
        Receive { want: Cell::new(want), next: Cell::new(next), prev: Cell::new(NIL) }
    }

    /// What a receive of this kind reports.
    pub(super) const fn flags(kind: Kind) -> CompletionFlags {
        CompletionFlags::RECV.union(match kind {
            Kind::Tagged => CompletionFlags::TAGGED,
            Kind::Message | Kind::Written => CompletionFlags::MSG,
        })
    }
}

const fn list_of(kind: Kind) -> usize {
    match kind {
        Kind::Message | Kind::Written => 0,
        Kind::Tagged => 1,
    }
}

impl Net {
    /// Posts a receive: it takes the oldest unexpected message that it accepts, or waits for one.
    ///
    /// # Safety
    /// `want` is valid for writes until the event of its context, or until the endpoint is closed.
    #[inline]
    pub(super) unsafe fn post_receive(&self, index: u16, kind: Kind, want: Want) -> Result<(), Refusal> {
        let own = self.port(index).own();
        if !own.rx().reserve() {
            return Err(Refusal::Again);
        }
        let unexpected = &own.unexpected[list_of(kind)];
        let mut at = unexpected.get().first;
        while at != NIL {
            let cell = self.cell(at);
            let next = cell.next.get();
            let message = cell.message.get();
            if want.accepts(&message) {
                self.unlink_unexpected(unexpected, at);
                // SAFETY: the caller's promise.
                if unsafe { self.hand_over(own, at, &message, &want) } {
                    return Ok(());
                }
            }
            at = next;
        }

        let free = own.receives.get();
        if free == NIL {
            own.rx().release();
            return Err(Refusal::Again);
        }
        let receive = own.receive(free);
        own.receives.set(receive.next.get());
        receive.want.set(want);
        let posted = &own.posted[list_of(kind)];
        let ends = posted.get();
        receive.next.set(NIL);
        receive.prev.set(ends.last);
        if ends.last == NIL {
            posted.set(Ends { first: free, last: free });
        } else {
            own.receive(ends.last).next.set(free);
            posted.set(Ends { first: ends.first, last: free });
        }
        Ok(())
    }

    /// Looks at a cell from the backlog: gives it to a posted receive, or keeps it. `false` if it has to wait,
    /// because the queue has no place for an event of a peer.
    #[inline]
    pub(super) fn deliver(&self, own: &Own, cell: u32) -> bool {
        let message = self.cell(cell).message.get();
        if message.kind == Kind::Written {
            return self.report_written(own, cell, &message);
        }
        let posted = &own.posted[list_of(message.kind)];
        let mut at = posted.get().first;
        while at != NIL {
            let receive = own.receive(at);
            let want = receive.want.get();
            if want.accepts(&message) {
                // SAFETY: the receive is posted, so its memory is still lent.
                if unsafe { self.hand_over(own, cell, &message, &want) } {
                    own.unlink_receive(posted, at);
                    own.free_receive(at);
                }
                // Else the message was revoked, and the receive waits on.
                return true;
            }
            at = receive.next.get();
        }

        let head = self.cell(cell);
        if head.is(State::Revoked) {
            // The word of it may have been read before the cell came here, and nobody would look again.
            self.return_cell(cell);
            return true;
        }
        let unexpected = &own.unexpected[list_of(message.kind)];
        let ends = unexpected.get();
        head.next.set(NIL);
        head.prev.set(ends.last);
        if ends.last == NIL {
            unexpected.set(Ends { first: cell, last: cell });
        } else {
            self.cell(ends.last).next.set(cell);
            unexpected.set(Ends { first: ends.first, last: cell });
        }
        true
    }

    /// Returns the unexpected messages that their senders have revoked.
    #[cold]
    pub(super) fn return_revoked(&self, port: &Port) {
        for unexpected in &port.own().unexpected {
            let mut at = unexpected.get().first;
            while at != NIL {
                let cell = self.cell(at);
                let next = cell.next.get();
                if cell.is(State::Revoked) {
                    self.unlink_unexpected(unexpected, at);
                    self.return_cell(at);
                }
                at = next;
            }
        }
    }

    /// Copies a message to where a receive wants it, reports it and returns the cell. `false` if its sender had
    /// revoked it; the cell is returned all the same.
    ///
    /// # Safety
    /// `want` is valid for writes.
    #[inline]
    unsafe fn hand_over(&self, own: &Own, cell: u32, message: &Message, want: &Want) -> bool {
        let head = self.cell(cell);
        let offered = !head.is(State::Eager);
        if offered && !head.claim(State::Copying) {
            self.return_cell(cell);
            return false;
        }
        let len = message.len.min(want.len);
        // SAFETY: the bytes are in the cell, which is the receiver's, or in the sender's buffer, which stays lent while
        // the state is `Copying`; the caller promises the other side, and that nobody else has it.
        unsafe { ptr::copy_nonoverlapping(message.bytes, want.ptr, len) };
        if offered {
            head.finish();
        }
        self.return_cell(cell);

        let mut flags = Receive::flags(message.kind);
        if message.has_data {
            flags |= CompletionFlags::REMOTE_CQ_DATA;
        }
        let mut event = Event::success(want.context, flags, len);
        event.tag = Tag(message.tag);
        event.data = ImmediateData(message.data);
        event.source = FabricAddr(message.from);
        if message.len > want.len {
            event.errno = Errno::ETRUNC;
            event.provider_errno = Errno::ETRUNC.as_raw();
            event.overflow = message.len - want.len;
        }
        own.rx().push(event);
        true
    }

    /// Reports that a peer has written to memory of this side.
    fn report_written(&self, own: &Own, cell: u32, message: &Message) -> bool {
        let queue = own.rx();
        if !queue.reserve() {
            return false;
        }
        let flags = CompletionFlags::RMA | CompletionFlags::REMOTE_WRITE | CompletionFlags::REMOTE_CQ_DATA;
        let mut event = Event::success(0, flags, message.len);
        event.data = ImmediateData(message.data);
        event.source = FabricAddr(message.from);
        self.return_cell(cell);
        queue.push(event);
        true
    }

    #[inline]
    fn unlink_unexpected(&self, list: &Cell<Ends>, at: u32) {
        let cell = self.cell(at);
        let (prev, next) = (cell.prev.get(), cell.next.get());
        let mut ends = list.get();
        match prev {
            NIL => ends.first = next,
            _ => self.cell(prev).next.set(next),
        }
        match next {
            NIL => ends.last = prev,
            _ => self.cell(next).prev.set(prev),
        }
        list.set(ends);
    }
}

impl Own {
    #[inline]
    pub(super) fn unlink_receive(&self, list: &Cell<Ends>, at: u32) {
        let receive = self.receive(at);
        let (prev, next) = (receive.prev.get(), receive.next.get());
        let mut ends = list.get();
        match prev {
            NIL => ends.first = next,
            _ => self.receive(prev).next.set(next),
        }
        match next {
            NIL => ends.last = prev,
            _ => self.receive(next).prev.set(prev),
        }
        list.set(ends);
    }

    #[inline]
    pub(super) fn free_receive(&self, at: u32) {
        self.receive(at).next.set(self.receives.replace(at));
    }
}
