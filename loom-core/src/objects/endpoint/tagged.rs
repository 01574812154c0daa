//! Tagged messages: what `man fi_tagged` describes.

#![allow(unsafe_code, reason = "posts through the raw endpoint what the op table has taken")]

use super::post::needs;
use super::{Endpoint, Source};
use crate::buffer::{Buffer, SourceBuffer, TargetBuffer};
use crate::engine::op_table::OpKey;
use crate::engine::peer_table::Peer;
use crate::error::{PostError, Rejected};
use crate::transport::Transport;
use crate::vocabulary::{ImmediateData, Tag, TagMatch};

impl<T: Transport, B: Buffer> Endpoint<'_, '_, T, B> {
    /// Sends a tagged message.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[doc(alias = "fi_tsend")]
    #[inline]
    pub fn tagged_send(&self, to: Peer, tag: Tag, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.tagged_send_with(to, tag, None, buf)
    }

    /// Sends a tagged message with immediate data.
    ///
    /// # Errors
    /// As [`send_data`](Self::send_data).
    #[doc(alias = "fi_tsenddata")]
    #[inline]
    pub fn tagged_send_data(&self, to: Peer, tag: Tag, data: ImmediateData, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.tagged_send_with(to, tag, Some(data), buf)
    }

    #[inline]
    fn tagged_send_with(&self, to: Peer, tag: Tag, data: Option<ImmediateData>, buf: B) -> Result<OpKey, Rejected<B>> {
        self.transmit(needs::TAGGED_SEND, to, data, buf, |raw, to, lent, context| {
            // SAFETY: see `transmit`.
            unsafe { T::tagged_send(raw, to, lent, data, tag, context) }
        })
    }

    /// Sends a tagged copy of `bytes`, which can be reused at once. Nothing reports success.
    ///
    /// # Errors
    /// As [`inject`](Self::inject).
    #[doc(alias = "fi_tinject")]
    #[inline]
    pub fn tagged_inject(&self, to: Peer, tag: Tag, bytes: &[u8]) -> Result<(), PostError> {
        let to = self.injectable(needs::TAGGED_SEND, to, None, bytes)?;
        // SAFETY: the endpoint is open, the peer in its vector, and the length checked.
        Ok(unsafe { T::tagged_inject(self.raw(), to, bytes, None, tag) }?)
    }

    /// Sends a tagged copy of `bytes` with immediate data.
    ///
    /// # Errors
    /// As [`inject_data`](Self::inject_data).
    #[doc(alias = "fi_tinjectdata")]
    #[inline]
    pub fn tagged_inject_data(&self, to: Peer, tag: Tag, data: ImmediateData, bytes: &[u8]) -> Result<(), PostError> {
        let to = self.injectable(needs::TAGGED_SEND, to, Some(data), bytes)?;
        // SAFETY: the endpoint is open, the peer in its vector, and the length checked.
        Ok(unsafe { T::tagged_inject(self.raw(), to, bytes, Some(data), tag) }?)
    }

    /// Receives a tagged message: the oldest one that `tag` accepts.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    #[doc(alias = "fi_trecv")]
    #[inline]
    pub fn tagged_recv(&self, from: Source, tag: impl Into<TagMatch>, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        let tag = tag.into();
        self.receive(needs::TAGGED_RECV, from, buf, |raw, from, lent, context| {
            // SAFETY: see `receive`.
            unsafe { T::tagged_recv(raw, from, lent, tag, context) }
        })
    }
}
