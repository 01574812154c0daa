//! Sending: messages into cells, cells into inboxes, and memory straight into a peer's region.

#![allow(unsafe_code, reason = "copies from memory that was lent with a send, and to and from regions")]

use core::ptr;

use super::cell::{Kind, Message, State};
use super::list::NIL;
use super::network::Net;
use super::port::Sending;
use crate::exposed::{copy_in, copy_out};
use crate::transport::{Event, Refusal, RmaTarget};
use crate::vocabulary::{Access, CompletionFlags, Errno, ImmediateData};

/// What to send. `context` is `None` for an injected message, whose success nobody awaits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub(super) kind: Kind,
    pub(super) to: u64,
    pub(super) tag: u64,
    pub(super) data: Option<ImmediateData>,
    pub(super) bytes: *const u8,
    pub(super) len: usize,
    pub(super) context: Option<u64>,
}

impl Net {
    /// A cell of this port that is at home. Cells mostly come back in the order in which they left, so the next one in
    /// turn is the one; only when receivers keep messages is there anything to search.
    #[inline]
    fn take_cell(&self, index: u16) -> Option<u32> {
        let own = self.port(index).own();
        let cell = self.cell_in_turn(index, own.turn.get());
        if !self.is_away(cell) {
            own.turn.set(own.turn.get().wrapping_add(1));
            return Some(cell);
        }
        self.search_cell(index)
    }

    #[cold]
    fn search_cell(&self, index: u16) -> Option<u32> {
        self.harvest(index);
        let own = self.port(index).own();
        let turn = own.turn.get();
        for step in 0..self.cells_each() {
            let cell = self.cell_in_turn(index, turn.wrapping_add(step));
            if !self.is_away(cell) {
                own.turn.set(turn.wrapping_add(step).wrapping_add(1));
                return Some(cell);
            }
        }
        None
    }

    /// Takes back the cells whose offers have ended, and reports them.
    #[inline]
    pub(super) fn harvest(&self, index: u16) {
        let port = self.port(index);
        let mut cell = port.returns.0.take();
        while cell != NIL {
            let head = self.cell(cell);
            let next = head.link.load(super::sync::Ordering::Relaxed);
            if let Some(sending) = self.end_offer(index, cell) {
                let event = if head.is(State::Done) {
                    Event::success(sending.context, sending.flags, sending.len)
                } else {
                    Event::failure(sending.context, sending.flags, Errno::ECONNRESET)
                };
                port.own().tx().push(event);
            }
            self.set_home(cell);
            cell = next;
        }
    }

    /// What was awaited of a cell, if anything; it is awaited no more.
    #[inline]
    pub(super) fn end_offer(&self, index: u16, cell: u32) -> Option<Sending> {
        let sending = self.sending(cell).take();
        if sending.is_some() {
            let own = self.port(index).own();
            own.offers.set(own.offers.get() - 1);
        }
        sending
    }

    /// The sender of a cell wants its buffer back: `true` if it was offered and the receiver had not begun to copy.
    pub(super) fn revoke(&self, cell: u32) -> bool {
        let revoked = self.cell(cell).revoke();
        // Whoever is in the receiver's place by now: one who came later looks in vain, once.
        if revoked
            && let Some(sending) = self.sending(cell).get()
            && let Some(receiver) = self.ports().get(usize::from(sending.to))
        {
            receiver.revocations.tell();
        }
        revoked
    }

    /// Gives a cell back to the port that it belongs to. Nobody awaits the end of an eager message, so that its cell
    /// only has to be marked.
    #[inline]
    pub(super) fn return_cell(&self, cell: u32) {
        if self.cell(cell).is(State::Eager) {
            self.set_home(cell);
        } else {
            self.port(self.owner_of(cell)).returns.0.push(self, cell);
        }
    }

    /// Sends a message. Short ones are copied into the cell and are over at once; the receiver copies long ones from
    /// the sender's buffer.
    ///
    /// # Safety
    /// The bytes are valid for reads: during the call if they are not longer than the eager size, else until the
    /// event of the context or until the endpoint is closed.
    #[inline]
    pub(super) unsafe fn send(&self, index: u16, outgoing: &Outgoing) -> Result<(), Refusal> {
        let own = self.port(index).own();
        let flags = CompletionFlags::SEND
            | match outgoing.kind {
                Kind::Tagged => CompletionFlags::TAGGED,
                Kind::Message | Kind::Written => CompletionFlags::MSG,
            };
        let eager = outgoing.len <= self.eager_size;
        if !eager && outgoing.context.is_none() {
            // The bytes of an injected message are the caller's again when the call returns: never an offer.
            return Err(Refusal::Errno(Errno::EMSGSIZE));
        }
        if outgoing.context.is_some() && !own.tx().reserve() {
            return Err(Refusal::Again);
        }
        let Some(cell) = self.take_cell(index) else {
            if outgoing.context.is_some() {
                own.tx().release();
            }
            return Err(Refusal::Again);
        };
        let head = self.cell(cell);
        let bytes = if eager {
            let room = self.eager_room(cell);
            // SAFETY: the cell is this port's, and has room for so much; the caller promises the bytes.
            unsafe { ptr::copy_nonoverlapping(outgoing.bytes, room, outgoing.len) };
            room.cast_const()
        } else {
            outgoing.bytes
        };
        head.message.set(Message {
            kind: outgoing.kind,
            has_data: outgoing.data.is_some(),
            from: self.addr_of(index),
            tag: outgoing.tag,
            data: outgoing.data.map_or(0, |data| data.0),
            len: outgoing.len,
            bytes,
        });
        head.set(if eager { State::Eager } else { State::Offered });
        self.set_away(cell);
        if let (Some(context), false) = (outgoing.context, eager) {
            self.sending(cell).set(Some(Sending {
                context,
                to: super::addr_parts(outgoing.to).0,
                len: outgoing.len,
                flags,
            }));
            own.offers.set(own.offers.get() + 1);
        }
        match (self.push(outgoing.to, cell), outgoing.context) {
            (Ok(()), Some(context)) if eager => own.tx().push(Event::success(context, flags, outgoing.len)),
            (Ok(()), _) => {}
            (Err(errno), context) => {
                self.end_offer(index, cell);
                self.set_home(cell);
                match context {
                    Some(context) => own.tx().push(Event::failure(context, flags, errno)),
                    None => return Err(Refusal::Errno(errno)),
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn push(&self, to: u64, cell: u32) -> Result<(), Errno> {
        let (index, generation) = super::addr_parts(to);
        let port = self.ports().get(usize::from(index)).ok_or(Errno::EHOSTUNREACH)?;
        if port.inbox.push(self, generation, cell) { Ok(()) } else { Err(Errno::EHOSTUNREACH) }
    }

    /// Writes into a peer's region, and with immediate data tells the peer. What the peer does not allow is an error
    /// event of the context, or without one a refusal.
    ///
    /// # Safety
    /// The bytes are valid for reads during the call.
    #[inline]
    pub(super) unsafe fn write(
        &self,
        index: u16,
        target: &RmaTarget,
        bytes: *const u8,
        len: usize,
        data: Option<ImmediateData>,
        context: Option<u64>,
    ) -> Result<(), Refusal> {
        let own = self.port(index).own();
        if context.is_some() && !own.tx().reserve() {
            return Err(Refusal::Again);
        }
        // The cell for the news comes first: once the bytes are written, nothing may be refused for lack of room.
        let cell = match data {
            None => None,
            Some(_) => match self.take_cell(index) {
                Some(cell) => Some(cell),
                None => {
                    if context.is_some() {
                        own.tx().release();
                    }
                    return Err(Refusal::Again);
                }
            },
        };
        let written = self.at_region(target, len, Access::REMOTE_WRITE, |place| {
            // SAFETY: the region is held open and the range lies within; the caller promises the bytes.
            unsafe { copy_in(bytes, place, len) };
        });
        let result = match (written, cell, data) {
            (Ok(()), Some(cell), Some(data)) => {
                let head = self.cell(cell);
                head.message.set(Message {
                    kind: Kind::Written,
                    has_data: true,
                    from: self.addr_of(index),
                    tag: 0,
                    data: data.0,
                    len,
                    bytes: ptr::null(),
                });
                head.set(State::Eager);
                self.set_away(cell);
                let pushed = self.push(target.to.0, cell);
                if pushed.is_err() {
                    self.set_home(cell);
                }
                pushed
            }
            (result, ..) => result,
        };
        self.end_rma(index, CompletionFlags::RMA | CompletionFlags::WRITE, len, context, result)
    }

    /// Reads from a peer's region.
    ///
    /// # Safety
    /// The place for the bytes is valid for writes during the call.
    #[inline]
    pub(super) unsafe fn read(
        &self,
        index: u16,
        target: &RmaTarget,
        bytes: *mut u8,
        len: usize,
        context: u64,
    ) -> Result<(), Refusal> {
        if !self.port(index).own().tx().reserve() {
            return Err(Refusal::Again);
        }
        let result = self.at_region(target, len, Access::REMOTE_READ, |place| {
            // SAFETY: the region is held open and the range lies within; the caller promises the place.
            unsafe { copy_out(place, bytes, len) };
        });
        self.end_rma(index, CompletionFlags::RMA | CompletionFlags::READ, len, Some(context), result)
    }

    /// Finds the range that an RMA operation means, and holds its region open while `copy` runs.
    #[inline]
    fn at_region(
        &self,
        target: &RmaTarget,
        len: usize,
        access: Access,
        copy: impl FnOnce(*mut u8),
    ) -> Result<(), Errno> {
        let peer = self.reach(target.to.0)?;
        let domain = peer.domain.load(super::sync::Ordering::Relaxed);
        let region = self.region(target.key).ok_or(Errno::ENOKEY)?.enter(target.key)?;
        copy(region.range(target.addr.0, len, access, domain)?.as_ptr());
        Ok(())
    }

    #[inline]
    fn end_rma(
        &self,
        index: u16,
        flags: CompletionFlags,
        len: usize,
        context: Option<u64>,
        result: Result<(), Errno>,
    ) -> Result<(), Refusal> {
        match (context, result) {
            (Some(context), Ok(())) => {
                self.port(index).own().tx().push(Event::success(context, flags, len));
                Ok(())
            }
            (Some(context), Err(errno)) => {
                self.port(index).own().tx().push(Event::failure(context, flags, errno));
                Ok(())
            }
            (None, result) => result.map_err(Refusal::Errno),
        }
    }
}
