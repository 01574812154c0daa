//! Operations with flags. The software transport takes one piece, as its attributes say.

use super::network::Net;
use super::port::Port;
use super::send::Outgoing;
use crate::buffer::Lent;
use crate::transport::{Msg, Refusal, RemotePart, RmaTarget};
use crate::vocabulary::{Errno, OpFlags, Tag};

/// The only piece.
pub(super) fn piece<'a>(msg: &Msg<'a>) -> Result<&'a Lent, Refusal> {
    match msg.pieces {
        [only] => Ok(only),
        _ => Err(Refusal::Errno(Errno::EINVAL)),
    }
}

/// The only part of the peer's memory.
pub(super) fn part(msg: &Msg<'_>, remote: &[RemotePart]) -> Result<RmaTarget, Refusal> {
    match remote {
        [only] => Ok(RmaTarget { to: msg.address, addr: only.addr, key: only.key }),
        _ => Err(Refusal::Errno(Errno::EINVAL)),
    }
}

impl Net {
    /// Sends a message with flags. One whose delivery is awaited is offered, however short it is: the offer ends when the
    /// receiver has it. All others are over as soon as the levels that are left ask for.
    ///
    /// # Safety
    /// As [`send`](Net::send), and as if the message were long if its delivery is awaited.
    #[allow(unsafe_code, reason = "passes its contract on")]
    pub(super) unsafe fn send_msg(&self, port: &Port, msg: &Msg<'_>, tag: Option<Tag>) -> Result<(), Refusal> {
        let lent = piece(msg)?;
        let outgoing = Outgoing {
            to: msg.address.0,
            tag: tag.map(|tag| tag.0),
            data: msg.data,
            bytes: lent.ptr().as_ptr(),
            len: lent.len(),
            context: Some(msg.context.addr()),
        };
        if msg.flags.contains(OpFlags::DELIVERY_COMPLETE) {
            return self.offer(port, outgoing);
        }
        // SAFETY: the caller's promise.
        unsafe { self.send(port, outgoing) }
    }
}
