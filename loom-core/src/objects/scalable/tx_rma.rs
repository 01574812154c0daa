//! Reading from and writing into a peer's memory through a transmit context.

use super::{RxPeer, TxContext};
use crate::buffer::{Buffer, SourceBuffer, TargetBuffer};
use crate::engine::op_table::OpKey;
use crate::error::{PostError, Rejected};
use crate::objects::mr::RemoteRegion;
use crate::objects::options::{ReadOptions, SendOptions};
use crate::transport::{RemotePart, Scalable};
use crate::vocabulary::ImmediateData;

impl<T: Scalable, B: Buffer> TxContext<'_, '_, T, B> {
    /// Reads from a peer's region, from `offset` bytes into it, as many bytes as the buffer has.
    ///
    /// # Errors
    /// As [`Endpoint::read`](crate::objects::endpoint::Endpoint::read), and those of the address of a [`send`](Self::send).
    #[doc(alias = "fi_read")]
    #[inline]
    pub fn read(
        &self,
        peer: impl Into<RxPeer>,
        region: &RemoteRegion,
        offset: u64,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.port.read(|| self.rx_addr(peer), region, offset, buf)
    }

    /// Reads parts of a peer's memory into one buffer or several.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`PostError::TooManyPieces`] of either side.
    #[doc(alias = "fi_readmsg")]
    #[doc(alias = "fi_readv")]
    pub fn readmsg(
        &self,
        peer: impl Into<RxPeer>,
        remote: &[RemotePart],
        options: ReadOptions,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.port.readmsg(|| self.rx_addr(peer), remote, options, buf)
    }

    /// Writes the buffer into a peer's region, from `offset` bytes into it.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    #[doc(alias = "fi_write")]
    #[inline]
    pub fn write(
        &self,
        peer: impl Into<RxPeer>,
        region: &RemoteRegion,
        offset: u64,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.port.write(|| self.rx_addr(peer), region, offset, None, buf)
    }

    /// Writes the buffer into a peer's region and tells the queue of the receive context, which reports a
    /// [`RemoteEvent`](crate::completion::RemoteEvent) with `data`.
    ///
    /// # Errors
    /// As [`write`](Self::write), and [`PostError::DataWidth`].
    #[doc(alias = "fi_writedata")]
    #[inline]
    pub fn write_data(
        &self,
        peer: impl Into<RxPeer>,
        region: &RemoteRegion,
        offset: u64,
        data: ImmediateData,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.port.write(|| self.rx_addr(peer), region, offset, Some(data), buf)
    }

    /// Writes one buffer or several into parts of a peer's memory.
    ///
    /// # Errors
    /// As [`write_data`](Self::write_data), and [`PostError::TooManyPieces`] of either side.
    #[doc(alias = "fi_writemsg")]
    #[doc(alias = "fi_writev")]
    pub fn writemsg(
        &self,
        peer: impl Into<RxPeer>,
        remote: &[RemotePart],
        options: SendOptions,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.port.writemsg(|| self.rx_addr(peer), remote, options, buf)
    }

    /// Writes a copy of `bytes` into a peer's region. Nothing reports success.
    ///
    /// # Errors
    /// As [`write`](Self::write); [`PostError::TooLong`] beyond the provider's `inject_size`; `EOPNOTSUPP` over `sockets`, which
    /// does not survive that a context is closed before such a write was answered, and nothing tells when that is.
    #[doc(alias = "fi_inject_write")]
    pub fn inject_write(
        &self,
        peer: impl Into<RxPeer>,
        region: &RemoteRegion,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), PostError> {
        self.may_inject_writes()?;
        self.port.inject_write(|| self.rx_addr(peer), region, offset, None, bytes)
    }

    /// Writes a copy of `bytes` into a peer's region and tells the queue of the receive context.
    ///
    /// # Errors
    /// As [`inject_write`](Self::inject_write), and [`PostError::DataWidth`].
    #[doc(alias = "fi_inject_writedata")]
    pub fn inject_write_data(
        &self,
        peer: impl Into<RxPeer>,
        region: &RemoteRegion,
        offset: u64,
        data: ImmediateData,
        bytes: &[u8],
    ) -> Result<(), PostError> {
        self.may_inject_writes()?;
        self.port.inject_write(|| self.rx_addr(peer), region, offset, Some(data), bytes)
    }
}
