//! Tagged messages between connected endpoints: what `man fi_tagged` describes.

use super::{Established, MsgEndpoint, the_peer};
use crate::buffer::{Buffer, SourceBuffer, TargetBuffer};
use crate::engine::op_table::OpKey;
use crate::error::{PostError, Rejected};
use crate::transport::Connected;
use crate::vocabulary::{ImmediateData, Tag, TagMatch};

impl<T: Connected, B: Buffer> MsgEndpoint<'_, '_, T, B, Established> {
    /// Sends a tagged message.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[doc(alias = "fi_tsend")]
    #[inline]
    pub fn tagged_send(&self, tag: Tag, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.port.tagged_send(the_peer, tag, None, buf)
    }

    /// Sends a tagged message with immediate data.
    ///
    /// # Errors
    /// As [`send_data`](Self::send_data).
    #[doc(alias = "fi_tsenddata")]
    #[inline]
    pub fn tagged_send_data(&self, tag: Tag, data: ImmediateData, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.port.tagged_send(the_peer, tag, Some(data), buf)
    }

    /// Sends a tagged copy of `bytes`, which can be reused at once. Nothing reports success.
    ///
    /// # Errors
    /// As [`inject`](Self::inject).
    #[doc(alias = "fi_tinject")]
    #[inline]
    pub fn tagged_inject(&self, tag: Tag, bytes: &[u8]) -> Result<(), PostError> {
        self.port.tagged_inject(the_peer, tag, None, bytes)
    }

    /// Sends a tagged copy of `bytes` with immediate data.
    ///
    /// # Errors
    /// As [`inject_data`](Self::inject_data).
    #[doc(alias = "fi_tinjectdata")]
    #[inline]
    pub fn tagged_inject_data(&self, tag: Tag, data: ImmediateData, bytes: &[u8]) -> Result<(), PostError> {
        self.port.tagged_inject(the_peer, tag, Some(data), bytes)
    }
}

impl<T: Connected, B: Buffer, S> MsgEndpoint<'_, '_, T, B, S> {
    /// Receives a tagged message: the oldest one that `tag` accepts.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    #[doc(alias = "fi_trecv")]
    #[inline]
    pub fn tagged_recv(&self, tag: impl Into<TagMatch>, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.port.tagged_recv(the_peer, tag.into(), buf)
    }
}
