//! Tagged messages: what `man fi_tagged` describes.

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
        self.port.tagged_send(|| self.peer(to), tag, None, buf)
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
        self.port.tagged_send(|| self.peer(to), tag, Some(data), buf)
    }

    /// Sends a tagged copy of `bytes`, which can be reused at once. Nothing reports success.
    ///
    /// # Errors
    /// As [`inject`](Self::inject).
    #[doc(alias = "fi_tinject")]
    #[inline]
    pub fn tagged_inject(&self, to: Peer, tag: Tag, bytes: &[u8]) -> Result<(), PostError> {
        self.port.tagged_inject(|| self.peer(to), tag, None, bytes)
    }

    /// Sends a tagged copy of `bytes` with immediate data.
    ///
    /// # Errors
    /// As [`inject_data`](Self::inject_data).
    #[doc(alias = "fi_tinjectdata")]
    #[inline]
    pub fn tagged_inject_data(&self, to: Peer, tag: Tag, data: ImmediateData, bytes: &[u8]) -> Result<(), PostError> {
        self.port.tagged_inject(|| self.peer(to), tag, Some(data), bytes)
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
        self.port.tagged_recv(|| self.source(from), tag.into(), buf)
    }
}
