//! Tagged messages: `man fi_tagged`.

#![allow(unsafe_code, reason = "posts through the raw endpoint what the op table has taken")]

use super::Port;
use super::post::{Use, needs, taken};
use crate::buffer::Buffer;
use crate::engine::op_table::OpKey;
use crate::error::{PostError, Rejected};
use crate::transport::Transport;
use crate::vocabulary::{FabricAddr, ImmediateData, Tag, TagMatch};

impl<T: Transport, B: Buffer> Port<'_, '_, T, B> {
    /// As [`send`](Self::send).
    #[inline]
    pub(crate) fn tagged_send(
        &self,
        to: impl FnOnce() -> Result<FabricAddr, PostError>,
        tag: Tag,
        data: Option<ImmediateData>,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        self.transmit((needs::TAGGED_SEND, Use::Send), to, data, buf, |raw, to, lent, context| {
            // SAFETY: see `transmit`.
            taken(unsafe { T::tagged_send(raw, to, lent, data, tag, context) })
        })
    }

    /// As [`inject`](Self::inject).
    #[inline]
    pub(crate) fn tagged_inject(
        &self,
        to: impl FnOnce() -> Result<FabricAddr, PostError>,
        tag: Tag,
        data: Option<ImmediateData>,
        bytes: &[u8],
    ) -> Result<(), PostError> {
        self.inject_message(needs::TAGGED_SEND, to, data, bytes, |to, bytes| {
            // SAFETY: see `inject_message`.
            taken(unsafe { T::tagged_inject(self.raw(), to, bytes, data, tag) })
        })
    }

    /// As [`recv`](Self::recv).
    #[inline]
    pub(crate) fn tagged_recv(
        &self,
        from: impl FnOnce() -> Result<FabricAddr, PostError>,
        tag: TagMatch,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        self.receive((needs::TAGGED_RECV, Use::TaggedReceive), from, buf, |raw, from, lent, context| {
            // SAFETY: see `receive`.
            taken(unsafe { T::tagged_recv(raw, from, lent, tag, context) })
        })
    }
}
