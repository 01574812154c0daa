//! Operations with several buffers and with options: the calls of libfabric that end in `msg`.
//!
//! An array of buffers is one message out of, or into, all of them in order, up to the endpoint's
//! `iov_limit` ([`Info::attributes`](crate::objects::info::Info::attributes)); any other buffer is a message of
//! one piece.

use super::{Endpoint, Source};
use crate::buffer::{Buffer, SourceBuffer, TargetBuffer};
use crate::engine::op_table::OpKey;
use crate::engine::peer_table::Peer;
use crate::error::Rejected;
use crate::objects::options::{ReadOptions, RecvOptions, SendOptions};
use crate::transport::{RemotePart, Transport};
use crate::vocabulary::{Tag, TagMatch};

impl<T: Transport, B: Buffer> Endpoint<'_, '_, T, B> {
    /// Sends a message out of one buffer or several.
    ///
    /// # Errors
    /// As [`send_data`](Self::send_data); [`PostError::TooManyPieces`](crate::error::PostError::TooManyPieces), and
    /// [`PostError::NotGranted`](crate::error::PostError::NotGranted) for a fence where the provider has none.
    #[doc(alias = "fi_sendmsg")]
    #[doc(alias = "fi_sendv")]
    pub fn sendmsg(&self, to: Peer, options: SendOptions, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.port.sendmsg(|| self.peer(to), options, buf)
    }

    /// Sends a tagged message out of one buffer or several.
    ///
    /// # Errors
    /// As [`sendmsg`](Self::sendmsg).
    #[doc(alias = "fi_tsendmsg")]
    #[doc(alias = "fi_tsendv")]
    pub fn tagged_sendmsg(&self, to: Peer, tag: Tag, options: SendOptions, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.port.tagged_sendmsg(|| self.peer(to), tag, options, buf)
    }

    /// Receives a message into one buffer or several, each filled before the next.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), and [`PostError::TooManyPieces`](crate::error::PostError::TooManyPieces).
    #[doc(alias = "fi_recvmsg")]
    #[doc(alias = "fi_recvv")]
    pub fn recvmsg(&self, from: Source, options: RecvOptions, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.port.recvmsg(|| self.plain_source(from), options, buf)
    }

    /// Receives a tagged message into one buffer or several: the oldest one that `tag` accepts.
    ///
    /// # Errors
    /// As [`recvmsg`](Self::recvmsg).
    #[doc(alias = "fi_trecvmsg")]
    #[doc(alias = "fi_trecvv")]
    pub fn tagged_recvmsg(
        &self,
        from: Source,
        tag: impl Into<TagMatch>,
        options: RecvOptions,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.port.tagged_recvmsg(|| self.source(from), tag.into(), options, buf)
    }

    /// Reads parts of a peer's memory into one buffer or several. The parts
    /// ([`RemoteRegion::part`](crate::objects::mr::RemoteRegion::part)) and the buffers are taken as one range each, of the
    /// same length.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`PostError::TooManyPieces`](crate::error::PostError::TooManyPieces) of either side.
    #[doc(alias = "fi_readmsg")]
    #[doc(alias = "fi_readv")]
    pub fn readmsg(&self, peer: Peer, remote: &[RemotePart], options: ReadOptions, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.port.readmsg(|| self.peer(peer), remote, options, buf)
    }

    /// Writes one buffer or several into parts of a peer's memory, as [`readmsg`](Self::readmsg) reads.
    ///
    /// # Errors
    /// As [`write_data`](Self::write_data), and [`PostError::TooManyPieces`](crate::error::PostError::TooManyPieces) of either
    /// side.
    #[doc(alias = "fi_writemsg")]
    #[doc(alias = "fi_writev")]
    pub fn writemsg(
        &self,
        peer: Peer,
        remote: &[RemotePart],
        options: SendOptions,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.port.writemsg(|| self.peer(peer), remote, options, buf)
    }
}
