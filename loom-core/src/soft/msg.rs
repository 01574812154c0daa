//! Operations with flags.

use core::ptr;

use super::endpoint_state::EndpointState;
use super::network::Net;
use super::receive::RecvBuffer;
use super::send::{Outgoing, Report};
use crate::buffer::Lent;
use crate::engine::tag_matcher::Want;
use crate::transport::{Msg, Refusal};
use crate::vocabulary::{CompletionFlags, Errno, OpFlags, Tag, TagMatch};

/// The only piece.
pub(super) fn piece<'a>(msg: &Msg<'a>) -> Result<&'a Lent, Refusal> {
    match msg.pieces {
        [only] => Ok(only),
        _ => Err(Refusal::Errno(Errno::EINVAL)),
    }
}

/// What a receive wants.
pub(super) fn wanted(msg: &Msg<'_>, tag: TagMatch) -> Want {
    Want { tag, source: msg.address }
}

/// The room for it in the first piece, or none; `min_left` as [`RecvBuffer`] has it.
pub(super) fn room_of(msg: &Msg<'_>, min_left: usize) -> RecvBuffer {
    let (ptr, len) = msg.pieces.first().map_or((ptr::null_mut(), 0), |lent| (lent.ptr().as_ptr(), lent.len()));
    RecvBuffer { ptr, len, context: msg.context.addr(), min_left }
}

impl Net {
    /// Sends a message with flags. One whose delivery is awaited is offered, however short it is: the offer ends when the
    /// receiver has it. All others are over as soon as the levels that are left ask for.
    ///
    /// # Safety
    /// As [`send`](Net::send), and as if the message were long if its delivery is awaited.
    #[allow(unsafe_code, reason = "passes its contract on")]
    pub(super) unsafe fn send_msg(
        &self,
        port: &EndpointState,
        msg: &Msg<'_>,
        tag: Option<Tag>,
        report: Report,
    ) -> Result<(), Refusal> {
        if msg.pieces.len() > 1 {
            // SAFETY: the caller's promise.
            return unsafe { self.send_pieces(port, msg, tag, report) };
        }
        let lent = piece(msg)?;
        let outgoing = Outgoing {
            to: msg.address.0,
            tag: tag.map(|tag| tag.0),
            data: msg.data,
            bytes: lent.ptr().as_ptr(),
            len: lent.len(),
            context: Some(msg.context.addr()),
            delay: port.own().faults().delay(),
        };
        let reported = outgoing.context.filter(|_| report == Report::All);
        if let Some(lost) = self.lose(port, reported, outgoing.sent()) {
            return lost;
        }
        if msg.flags.contains(OpFlags::DELIVERY_COMPLETE) {
            return self.offer(port, outgoing, report);
        }
        // SAFETY: the caller's promise.
        unsafe { self.send_reporting(port, outgoing, report) }
    }

    /// Posts a receive of one of the [`KINDS`](super::receive::KINDS), into one buffer or several; a multi-receive, if some
    /// bytes are to be left.
    ///
    /// # Safety
    /// As [`post_receive`](Net::post_receive), for each of the buffers.
    #[allow(unsafe_code, reason = "passes its contract on")]
    pub(super) unsafe fn receive_msg(
        &self,
        port: &EndpointState,
        kind: CompletionFlags,
        msg: &Msg<'_>,
        tag: TagMatch,
        min_left: usize,
    ) -> Result<(), Refusal> {
        let (want, room) = (wanted(msg, tag), room_of(msg, min_left));
        if msg.pieces.len() > 1 {
            // SAFETY: the caller's promise.
            return unsafe { self.post_scattered(port, kind, (want, room), msg) };
        }
        piece(msg)?;
        if room.is_multi() {
            // SAFETY: the caller's promise.
            return unsafe { self.post_multi_receive(port.own(), want, room) };
        }
        // SAFETY: as above.
        unsafe { self.post_receive(port, kind, want, room) }
    }
}
