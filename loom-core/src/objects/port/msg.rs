//! Operations with several pieces and with options: the calls of libfabric that end in `msg`.

#![allow(unsafe_code, reason = "posts through the raw endpoint what the op table has taken")]

use heapless::Vec;

use super::Port;
use super::post::{Use, needs, taken};
use crate::buffer::{Buffer, Lent, Pieces};
use crate::engine::op_table::OpKey;
use crate::error::{PostError, Rejected};
use crate::objects::options::{CompletionLevel, ReadOptions, RecvOptions, SendOptions};
use crate::transport::{Msg, RemotePart, Transport};
use crate::vocabulary::{Caps, FabricAddr, HmemIface, ImmediateData, OpFlags, Tag, TagMatch};

/// The parts of peers' memory that one operation names.
type Parts = Vec<RemotePart, { Pieces::MOST }>;

impl<T: Transport, B: Buffer> Port<'_, '_, T, B> {
    /// What a provider has to grant besides the operation itself.
    pub(super) const fn with_fence(caps: Caps, flags: OpFlags) -> Caps {
        if flags.contains(OpFlags::FENCE) { caps.union(Caps::FENCE) } else { caps }
    }

    /// Posts an operation. `submit` may rely on what `transmit` and `receive` promise theirs, for each piece.
    fn post_msg(
        &self,
        (caps, purpose, iov_limit): (Caps, Use, usize),
        address: impl FnOnce() -> Result<FabricAddr, PostError>,
        (data, flags): (Option<ImmediateData>, OpFlags),
        buf: B,
        submit: impl FnOnce(&T::Endpoint, &Msg<'_>, usize) -> Result<(), PostError>,
    ) -> Result<OpKey, Rejected<B>> {
        let caps = Self::with_fence(caps, flags);
        // Rule 7 of the op table.
        let flags = flags | OpFlags::COMPLETION;
        let address = match self.granted(caps).and_then(|()| self.carries(data)).and_then(|()| address()) {
            Ok(address) => address,
            Err(error) => return Err(Rejected { buf, error }),
        };
        self.cq().ops().post_pieces(self.index, purpose.kind(), buf, |pieces, context| {
            let too_many = PostError::TooManyPieces { limit: iov_limit.min(Pieces::MOST) };
            let pieces_of = pieces.get().ok_or(too_many)?;
            let nothing = [().lend()];
            let pieces_of: &[Lent] = if pieces_of.is_empty() { &nothing } else { pieces_of };
            if pieces_of.len() > iov_limit {
                return Err(too_many);
            }
            for piece in pieces_of {
                self.lendable(piece, purpose)?;
            }
            let too_long = PostError::TooLong { limit: self.limits.max_msg_size };
            let total = pieces.total().ok_or(too_long)?;
            if purpose.is_out() && total > self.limits.max_msg_size {
                return Err(too_long);
            }
            let mut insisted = Vec::<Lent, { Pieces::MOST }>::new();
            if self.limits.insists {
                for (at, piece) in pieces_of.iter().enumerate() {
                    // There is room: there are not more than that.
                    let _ = insisted.push(self.insist(*piece, purpose, (at == 0).then_some((context, address)))?);
                }
            }
            let pieces = if self.limits.insists { &insisted } else { pieces_of };
            submit(self.raw(), &Msg { address, pieces, data, context, flags }, total)
        })
    }

    /// With what the endpoint does by default, which flags of a call would override; but for the level of completion, if
    /// another is asked for.
    pub(super) fn with_default(&self, flags: OpFlags) -> OpFlags {
        let other = flags.intersects(CompletionLevel::ALL);
        flags | if other { self.limits.tx_flags.difference(CompletionLevel::ALL) } else { self.limits.tx_flags }
    }

    /// `to` gives an address that the endpoint may send to: one in its vector.
    pub(crate) fn sendmsg(
        &self,
        to: impl FnOnce() -> Result<FabricAddr, PostError>,
        options: SendOptions,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        let how = (needs::SEND, Use::Send, self.limits.tx_iov_limit);
        self.post_msg(how, to, (options.data, self.with_default(options.flags)), buf, |raw, msg, _| {
            // SAFETY: see `post_msg`.
            taken(unsafe { T::sendmsg(raw, msg) })
        })
    }

    /// As [`sendmsg`](Self::sendmsg).
    pub(crate) fn tagged_sendmsg(
        &self,
        to: impl FnOnce() -> Result<FabricAddr, PostError>,
        tag: Tag,
        options: SendOptions,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        let how = (needs::TAGGED_SEND, Use::Send, self.limits.tx_iov_limit);
        self.post_msg(how, to, (options.data, self.with_default(options.flags)), buf, |raw, msg, _| {
            // SAFETY: see `post_msg`.
            taken(unsafe { T::tagged_sendmsg(raw, msg, tag) })
        })
    }

    /// `from` gives an address in the endpoint's vector, or none in particular.
    pub(crate) fn recvmsg(
        &self,
        from: impl FnOnce() -> Result<FabricAddr, PostError>,
        options: RecvOptions,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        let how = (needs::RECV, Use::Receive, self.limits.rx_iov_limit);
        self.post_msg(how, from, (None, options.flags), buf, |raw, msg, _| {
            // SAFETY: see `post_msg`.
            taken(unsafe { T::recvmsg(raw, msg) })
        })
    }

    /// As [`recvmsg`](Self::recvmsg), of messages until the buffer is used up.
    pub(crate) fn multi_recv(
        &self,
        from: impl FnOnce() -> Result<FabricAddr, PostError>,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        if !self.limits.conduct.multi_recv && self.granted(needs::MULTI_RECV).is_ok() {
            return Err(Rejected { buf, error: PostError::NotSafe });
        }
        // SAFETY: the transport keeps to the buffer.
        unsafe { self.multi_recv_trusting(from, buf) }
    }

    /// As [`multi_recv`](Self::multi_recv), over any transport.
    ///
    /// # Safety
    /// The caller sees to it that the transport keeps to the buffer.
    pub(crate) unsafe fn multi_recv_trusting(
        &self,
        from: impl FnOnce() -> Result<FabricAddr, PostError>,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        let address = match self.granted(needs::MULTI_RECV).and_then(|()| from()) {
            Ok(address) => address,
            Err(error) => return Err(Rejected { buf, error }),
        };
        self.cq().ops().post_multi(self.index, buf, |lent, context| {
            // Its messages are shown where they lie.
            if lent.kind() != HmemIface::SYSTEM {
                return Err(PostError::DeviceMemory);
            }
            // No prefix: these are not granted where one is asked for.
            self.hand_in(lent, Use::Receive, (context, address), |lent| {
                let pieces = core::slice::from_ref(lent);
                let msg =
                    Msg { address, pieces, data: None, context, flags: OpFlags::MULTI_RECV | OpFlags::COMPLETION };
                // SAFETY: the endpoint is open, the address is what `from` gave, and what is lent is writable and stays in the
                // op table until the event that releases it or the endpoint's close.
                taken(unsafe { T::recvmsg(self.raw(), &msg) })
            })
        })
    }

    /// As [`recvmsg`](Self::recvmsg).
    pub(crate) fn tagged_recvmsg(
        &self,
        from: impl FnOnce() -> Result<FabricAddr, PostError>,
        tag: TagMatch,
        options: RecvOptions,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        let how = (needs::TAGGED_RECV, Use::TaggedReceive, self.limits.rx_iov_limit);
        self.post_msg(how, from, (None, options.flags), buf, |raw, msg, _| {
            // SAFETY: see `post_msg`.
            taken(unsafe { T::tagged_recvmsg(raw, msg, tag) })
        })
    }

    /// Takes the parts, of which there may be so many.
    fn parts(&self, remote: &[RemotePart]) -> Result<Parts, PostError> {
        let limit = self.limits.rma_iov_limit.min(Pieces::MOST);
        let parts = Parts::from_slice(remote).ok().filter(|parts| parts.len() <= limit && !parts.is_empty());
        parts.ok_or(PostError::TooManyPieces { limit })
    }

    /// As [`sendmsg`](Self::sendmsg).
    pub(crate) fn readmsg(
        &self,
        peer: impl FnOnce() -> Result<FabricAddr, PostError>,
        remote: &[RemotePart],
        options: ReadOptions,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        let how = (needs::READ, Use::Read, self.limits.tx_iov_limit);
        let flags = options.flags | self.limits.tx_flags.intersection(OpFlags::FENCE);
        self.post_msg(how, peer, (None, flags), buf, |raw, msg, total| {
            let parts = self.parts(remote)?;
            as_long(&parts, total)?;
            // SAFETY: see `post_msg`.
            taken(unsafe { T::readmsg(raw, msg, &parts) })
        })
    }

    /// As [`sendmsg`](Self::sendmsg).
    pub(crate) fn writemsg(
        &self,
        peer: impl FnOnce() -> Result<FabricAddr, PostError>,
        remote: &[RemotePart],
        options: SendOptions,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        let how = (needs::WRITE, Use::Write, self.limits.tx_iov_limit);
        self.post_msg(how, peer, (options.data, self.with_default(options.flags)), buf, |raw, msg, total| {
            let parts = self.parts(remote)?;
            as_long(&parts, total)?;
            // SAFETY: see `post_msg`.
            taken(unsafe { T::writemsg(raw, msg, &parts) })
        })
    }
}

/// Whether the parts are as long together as the buffer.
fn as_long(parts: &Parts, total: usize) -> Result<(), PostError> {
    let sum = parts.iter().try_fold(0_usize, |sum, part| sum.checked_add(part.len));
    if sum == Some(total) { Ok(()) } else { Err(PostError::OutOfBounds) }
}
