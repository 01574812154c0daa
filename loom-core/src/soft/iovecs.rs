//! Operations with several buffers: messages gathered and scattered, and RMA between several ranges on both sides.
//!
//! A short message is gathered into its cell. A long one is offered with the list of its ranges, which lies in the cell, where
//! a short one's bytes would be. A receive into several buffers has a place for each of them behind its own.

#![allow(unsafe_code, reason = "copies between ranges of memory that were lent")]

use core::ptr;

use super::cell::{Message, MessageCell};
use super::endpoint_state::{EndpointState, LocalState};
use super::list::NIL;
use super::network::Net;
use super::receive::RecvBuffer;
use super::send::{Outgoing, Report};
use crate::engine::tag_matcher::Want;
use crate::exposed::{copy_in, copy_out};
use crate::transport::{Msg, Refusal, RemotePart, RmaTarget};
use crate::vocabulary::{Access, CompletionFlags, Errno, OpFlags, RemoteAddr, Tag};

/// The most buffers of one operation.
pub(super) const LIMIT: usize = 4;

/// A range of memory.
type Range = (*mut u8, usize);

/// The ranges of an offered message, in its cell; those which it does not have are empty. They are only read from.
type List = [Range; LIMIT];

/// No bytes.
const NOTHING: Range = (ptr::null_mut(), 0);

/// How many buffers a message can be sent out of, from cells of this eager size.
pub(super) const fn send_limit(eager_size: usize) -> usize {
    if eager_size >= size_of::<List>() { LIMIT } else { 1 }
}

/// How many buffers a message can be received into, with so many places for receives.
pub(super) const fn receive_limit(rx_depth: u32) -> usize {
    match rx_depth {
        0..=2 => 1,
        3 => 2,
        4 => 3,
        _ => LIMIT,
    }
}

/// Copies from ranges to ranges, until one side is used up.
///
/// # Safety
/// The ranges are valid, for reads and for writes, and do not overlap.
unsafe fn copy_ranges(mut from: impl Iterator<Item = Range>, mut into: impl Iterator<Item = Range>) {
    let (mut source, mut target) = (NOTHING, NOTHING);
    loop {
        while source.1 == 0 {
            let Some(next) = from.next() else { return };
            source = next;
        }
        while target.1 == 0 {
            let Some(next) = into.next() else { return };
            target = next;
        }
        let len = source.1.min(target.1);
        // SAFETY: the caller's promise.
        unsafe { ptr::copy_nonoverlapping(source.0.cast_const(), target.0, len) };
        source = advanced(source, len);
        target = advanced(target, len);
    }
}

/// What is left of a range behind so many bytes.
fn advanced((ptr, len): Range, by: usize) -> Range {
    (ptr.wrapping_add(by), len - by)
}

/// What was lent with an operation.
fn ranges<'m>(msg: &'m Msg<'_>) -> impl Iterator<Item = Range> + 'm {
    msg.pieces.iter().map(|lent| (lent.ptr().as_ptr(), lent.len()))
}

/// How many bytes that is; the objects have seen to it that it is a number.
fn total(msg: &Msg<'_>) -> usize {
    msg.pieces.iter().map(crate::buffer::Lent::len).sum()
}

/// Whether there are too many buffers: the objects have seen to it that there are not.
fn at_most(limit: usize, count: usize) -> Result<(), Refusal> {
    if count <= limit { Ok(()) } else { Err(Refusal::Errno(Errno::EINVAL)) }
}

impl Net {
    /// Sends one message out of several buffers.
    ///
    /// # Safety
    /// As [`send`](Net::send), for each of them; as if the message were long if its delivery is awaited.
    #[inline(never)]
    pub(super) unsafe fn send_pieces(
        &self,
        port: &EndpointState,
        msg: &Msg<'_>,
        tag: Option<Tag>,
        report: Report,
    ) -> Result<(), Refusal> {
        at_most(send_limit(self.eager_size), msg.pieces.len())?;
        let outgoing = Outgoing {
            to: msg.address.0,
            tag: tag.map(|tag| tag.0),
            data: msg.data,
            bytes: ptr::null(),
            len: total(msg),
            context: Some(msg.context.addr()),
            delay: port.own().faults().delay(),
        };
        let reported = outgoing.context.filter(|_| report == Report::All);
        if let Some(lost) = self.lose(port, reported, outgoing.sent()) {
            return lost;
        }
        if outgoing.len > self.eager_size || msg.flags.contains(OpFlags::DELIVERY_COMPLETE) {
            return self.offer_from(port, outgoing, report, |room| {
                let mut list: List = [NOTHING; LIMIT];
                list.iter_mut().zip(ranges(msg)).for_each(|(to, from)| *to = from);
                // SAFETY: `send_limit` says that the cell has room for a list; it is aligned as cells are.
                unsafe { room.cast::<List>().write(list) };
                room
            });
        }
        let gather = |room| {
            // SAFETY: the cell has room for so much; the caller promises the bytes.
            unsafe { copy_ranges(ranges(msg), core::iter::once((room, outgoing.len))) };
        };
        self.send_eager(port, outgoing.at_once(report), gather)
    }

    /// Copies a message, which may be a list, to where a receive wants it, which may be several buffers.
    ///
    /// # Safety
    /// As [`hand_over`](Net::hand_over), and the message may be copied from.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn copy_pieces(&self, own: &LocalState, message: &Message, room: &RecvBuffer, list: bool) {
        let bytes = message.bytes.get();
        let mut from: List = [NOTHING; LIMIT];
        if list {
            // SAFETY: the sender has written a list there, and leaves it while the message is copied.
            from = unsafe { bytes.cast::<List>().read() };
        } else {
            from[0] = (bytes.cast_mut(), message.len.get());
        }
        let one = (!room.is_scattered()).then_some((room.ptr, room.len));
        let several = IoVecRanges { own, at: room.first_piece() };
        // SAFETY: the caller's promise; ranges which are not used have no bytes.
        unsafe { copy_ranges(from.into_iter(), one.into_iter().chain(several)) };
    }

    /// Whether what is offered are several ranges: then the bytes are said to be in the cell, where no sender's buffer is. (A
    /// cell without room has none to be there, and its end may be another's begin.)
    #[inline]
    pub(super) fn is_list(&self, head: &MessageCell) -> bool {
        send_limit(self.eager_size) > 1
            && head.message.len.get() > 0
            && ptr::eq(head.message.bytes.get(), self.eager_room(head))
    }

    /// Posts a receive of one of the [`KINDS`](super::receive::KINDS) into several buffers.
    ///
    /// # Safety
    /// As [`post_receive`](Net::post_receive), for each of them.
    #[inline(never)]
    pub(super) unsafe fn post_scattered(
        &self,
        port: &EndpointState,
        kind: CompletionFlags,
        (want, room): (Want, RecvBuffer),
        msg: &Msg<'_>,
    ) -> Result<(), Refusal> {
        at_most(receive_limit(self.attr.rx_depth), msg.pieces.len())?;
        let own = port.own();
        if !own.rx().reserve() {
            return Err(Refusal::Again);
        }
        let Some(first) = own.take_places(msg.pieces.len()) else {
            own.rx().release();
            return Err(Refusal::Again);
        };
        for (place, (ptr, len)) in own.chain_from(first).zip(ranges(msg)) {
            own.receive(place).set_room(RecvBuffer { ptr, len, ..room });
        }
        let room = RecvBuffer { len: total(msg), ..room.scattered_over(first) };
        // SAFETY: the caller's promise, and the places were just written.
        if unsafe { self.place_receive(own, kind, want, room) } {
            return Ok(());
        }
        own.free_pieces(room);
        own.rx().release();
        Err(Refusal::Again)
    }

    /// Writes to, or reads from, several ranges of a peer's memory.
    ///
    /// # Safety
    /// What was lent is valid during the call: for reads, or for writes.
    pub(super) unsafe fn rma_pieces(
        &self,
        port: &EndpointState,
        msg: &Msg<'_>,
        remote: &[RemotePart],
        access: Access,
        report: Report,
    ) -> Result<(), Refusal> {
        at_most(LIMIT, msg.pieces.len().max(remote.len()))?;
        // SAFETY: the caller's promise, which is the same as for a plain write or read if the operation has a context.
        if let Some(taken) = unsafe { self.rma_amid_faults(port, msg, remote, access, report) } {
            return taken;
        }
        let target = |part: &RemotePart, offset: usize| {
            let addr = part.addr.0.checked_add(offset as u64).ok_or(Errno::EFAULT)?;
            Ok::<_, Errno>(RmaTarget { to: msg.address, addr: RemoteAddr(addr), key: part.key })
        };
        let reads = access == Access::REMOTE_READ;
        let copy = || {
            // All of them are looked at before anything is moved.
            if remote.len() > 1 {
                for part in remote {
                    self.at_region(&target(part, 0)?, part.len, access, |_| {})?;
                }
            }
            let mut local = ranges(msg);
            let mut here = (ptr::null_mut(), 0);
            for part in remote {
                let mut done = 0;
                while done < part.len {
                    while here.1 == 0 {
                        here = local.next().ok_or(Errno::EINVAL)?;
                    }
                    let len = here.1.min(part.len - done);
                    self.at_region(&target(part, done)?, len, access, |place| {
                        if reads {
                            // SAFETY: the region is held open and the range lies within; the caller promises the place.
                            unsafe { copy_out(place, here.0, len) };
                        } else {
                            // SAFETY: as above; the caller promises the bytes.
                            unsafe { copy_in(here.0, place, len) };
                        }
                    })?;
                    here = advanced(here, len);
                    done += len;
                }
            }
            Ok(())
        };
        let (len, context) = (total(msg), (report == Report::All).then(|| msg.context.addr()));
        if reads {
            self.read_by(port, len, context, copy)
        } else {
            self.write_by(port, (msg.address.0, len), msg.data, (context, port.own().faults().delay()), copy)
        }
    }
}

/// The ranges of a receive into several buffers.
struct IoVecRanges<'o> {
    own: &'o LocalState,
    at: u32,
}

impl Iterator for IoVecRanges<'_> {
    type Item = Range;

    fn next(&mut self) -> Option<Range> {
        if self.at == NIL {
            return None;
        }
        let place = self.own.receive(self.at);
        self.at = place.next.get();
        let room = place.room();
        Some((room.ptr, room.len))
    }
}

impl LocalState {
    /// Takes so many places for receives, linked; `None` if there are not so many.
    fn take_places(&self, count: usize) -> Option<u32> {
        let first = self.receives.get();
        let mut last = first;
        for _ in 1..count {
            last = if last == NIL { return None } else { self.receive(last).next.get() };
        }
        let last = self.receive((last != NIL).then_some(last)?);
        self.receives.set(last.next.replace(NIL));
        Some(first)
    }

    /// The places from one on.
    fn chain_from(&self, first: u32) -> impl Iterator<Item = u32> {
        core::iter::successors(Some(first), |at| Some(self.receive(*at).next.get()).filter(|next| *next != NIL))
    }

    /// Gives the places of a receive's pieces back, if it has any.
    pub(super) fn free_pieces(&self, room: RecvBuffer) {
        let mut at = room.first_piece();
        while at != NIL {
            let next = self.receive(at).next.get();
            self.free_receive(at);
            at = next;
        }
    }
}
