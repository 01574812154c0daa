//! Operations with several buffers and with options: the calls of libfabric that end in `msg`.
//!
//! As those of a connectionless [`Endpoint`](crate::objects::endpoint::Endpoint), without an address.

use super::{Established, MsgEndpoint, the_peer};
use crate::buffer::{Buffer, SourceBuffer, TargetBuffer};
use crate::engine::op_table::OpKey;
use crate::error::Rejected;
use crate::objects::options::{ReadOptions, RecvOptions, SendOptions};
use crate::transport::{Connected, RemotePart};
use crate::vocabulary::{Tag, TagMatch};

impl<T: Connected, B: Buffer> MsgEndpoint<'_, '_, T, B, Established> {
    /// Sends a message out of one buffer or several.
    ///
    /// # Errors
    /// As [`send_data`](Self::send_data); [`PostError::TooManyPieces`](crate::error::PostError::TooManyPieces), and
    /// [`PostError::NotGranted`](crate::error::PostError::NotGranted) for a fence where the provider has none.
    #[doc(alias = "fi_sendmsg")]
    #[doc(alias = "fi_sendv")]
    pub fn sendmsg(&self, options: SendOptions, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.port.sendmsg(the_peer, options, buf)
    }

    /// Sends a tagged message out of one buffer or several.
    ///
    /// # Errors
    /// As [`sendmsg`](Self::sendmsg).
    #[doc(alias = "fi_tsendmsg")]
    #[doc(alias = "fi_tsendv")]
    pub fn tagged_sendmsg(&self, tag: Tag, options: SendOptions, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.port.tagged_sendmsg(the_peer, tag, options, buf)
    }

    /// Reads parts of the peer's memory into one buffer or several. The parts
    /// ([`RemoteRegion::part`](crate::objects::mr::RemoteRegion::part)) and the buffers are taken as one range each, of the
    /// same length.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`PostError::TooManyPieces`](crate::error::PostError::TooManyPieces) of either side.
    #[doc(alias = "fi_readmsg")]
    #[doc(alias = "fi_readv")]
    pub fn readmsg(&self, remote: &[RemotePart], options: ReadOptions, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.port.readmsg(the_peer, remote, options, buf)
    }

    /// Writes one buffer or several into parts of the peer's memory, as [`readmsg`](Self::readmsg) reads.
    ///
    /// # Errors
    /// As [`write_data`](Self::write_data), and [`PostError::TooManyPieces`](crate::error::PostError::TooManyPieces) of either
    /// side.
    #[doc(alias = "fi_writemsg")]
    #[doc(alias = "fi_writev")]
    pub fn writemsg(&self, remote: &[RemotePart], options: SendOptions, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.port.writemsg(the_peer, remote, options, buf)
    }
}

impl<T: Connected, B: Buffer, S> MsgEndpoint<'_, '_, T, B, S> {
    /// Receives a message into one buffer or several, each filled before the next.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), and [`PostError::TooManyPieces`](crate::error::PostError::TooManyPieces).
    #[doc(alias = "fi_recvmsg")]
    #[doc(alias = "fi_recvv")]
    pub fn recvmsg(&self, options: RecvOptions, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.port.recvmsg(the_peer, options, buf)
    }

    /// Receives messages into one buffer, one behind the other: see
    /// [`Endpoint::multi_recv`](crate::objects::endpoint::Endpoint::multi_recv).
    ///
    /// # Errors
    /// As [`Endpoint::multi_recv`](crate::objects::endpoint::Endpoint::multi_recv): `NotGranted` over `tcp`, `NotSafe` over
    /// `sockets`.
    #[doc(alias = "FI_MULTI_RECV")]
    pub fn multi_recv(&self, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.port.multi_recv(the_peer, buf)
    }

    /// [`multi_recv`](Self::multi_recv) over any provider that grants it.
    ///
    /// # Errors
    /// As [`multi_recv`](Self::multi_recv), but for `NotSafe`.
    ///
    /// # Safety
    /// That of [`Endpoint::multi_recv_trusting`](crate::objects::endpoint::Endpoint::multi_recv_trusting).
    #[doc(alias = "FI_MULTI_RECV")]
    #[allow(unsafe_code, reason = "passes its contract on")]
    pub unsafe fn multi_recv_trusting(&self, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        // SAFETY: the caller's promise.
        unsafe { self.port.multi_recv_trusting(the_peer, buf) }
    }

    /// Receives a tagged message into one buffer or several: the oldest one that `tag` accepts.
    ///
    /// # Errors
    /// As [`recvmsg`](Self::recvmsg).
    #[doc(alias = "fi_trecvmsg")]
    #[doc(alias = "fi_trecvv")]
    pub fn tagged_recvmsg(&self, tag: impl Into<TagMatch>, options: RecvOptions, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.port.tagged_recvmsg(the_peer, tag.into(), options, buf)
    }
}
