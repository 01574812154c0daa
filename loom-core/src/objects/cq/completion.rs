//! [`Completion`]: what a completion queue reports.

use core::fmt;

use super::Piece;
use crate::engine::op_table::{Done, OpError, Peek};
use crate::transport::Event;
use crate::vocabulary::{CompletionFlags, FabricAddr, ImmediateData};

/// A peer's operation on this side's memory that reports itself: an RMA write with immediate data.
#[derive(Clone, Copy)]
pub struct RemoteEvent {
    flags: CompletionFlags,
    len: usize,
    // Means something if the flags say so.
    data: ImmediateData,
    source: FabricAddr,
}

impl RemoteEvent {
    pub(crate) const fn of(event: &Event) -> Self {
        RemoteEvent { flags: event.flags, len: event.len, data: event.data, source: event.source }
    }

    /// Bytes written, where the provider says so; else zero.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a length of a transfer, not a collection")]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// What kind of operation it was.
    #[must_use]
    pub const fn flags(&self) -> CompletionFlags {
        self.flags
    }

    /// The peer's immediate data.
    #[must_use]
    pub fn data(&self) -> Option<ImmediateData> {
        self.flags.contains(CompletionFlags::REMOTE_CQ_DATA).then_some(self.data)
    }

    /// The peer, where the provider grants `SOURCE`.
    #[must_use]
    pub fn source(&self) -> Option<FabricAddr> {
        (self.source != FabricAddr::UNSPEC).then_some(self.source)
    }
}

impl fmt::Debug for RemoteEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteEvent")
            .field("flags", &self.flags)
            .field("len", &self.len)
            .field("data", &self.data())
            .field("source", &self.source())
            .finish()
    }
}

/// What a completion queue reports.
#[derive(Debug)]
#[must_use = "it may hold a buffer"]
#[non_exhaustive]
pub enum Completion<'m, B> {
    /// An operation of this side is over.
    Op(Done<B>),
    /// A message has come into the buffer of a multi-receive
    /// ([`Endpoint::multi_recv`](crate::objects::endpoint::Endpoint::multi_recv)).
    Piece(Piece<'m, B>),
    /// A peek is answered ([`Endpoint::tagged_peek`](crate::objects::endpoint::Endpoint::tagged_peek)).
    Peek(Peek),
    /// A peer wrote to this side's memory and said so.
    Remote(RemoteEvent),
    /// An operation without a key failed: an injected message that could not be delivered, an operation that reports nothing
    /// else ([`Endpoint::send_unsignaled`](crate::objects::endpoint::Endpoint::send_unsignaled)), or a write of a peer that
    /// has gone in the middle of it, where the provider tells of that.
    Unclaimed(OpError),
}
