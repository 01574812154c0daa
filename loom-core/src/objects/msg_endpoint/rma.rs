//! Reading from and writing into the peer's memory: what `man fi_rma` describes.

use super::{Established, MsgEndpoint, the_peer};
use crate::buffer::{Buffer, SourceBuffer, TargetBuffer};
use crate::engine::op_table::OpKey;
use crate::error::{PostError, Rejected};
use crate::objects::mr::RemoteRegion;
use crate::transport::Connected;
use crate::vocabulary::ImmediateData;

impl<T: Connected, B: Buffer> MsgEndpoint<'_, '_, T, B, Established> {
    /// Reads from the peer's region, from `offset` bytes into it, as many bytes as the buffer has.
    ///
    /// # Errors
    /// [`PostError::OutOfBounds`] if the region is shorter, or any other [`PostError`]; the buffer comes back. What the
    /// peer refuses is an error completion.
    #[doc(alias = "fi_read")]
    #[inline]
    pub fn read(&self, region: &RemoteRegion, offset: u64, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.port.read(the_peer, region, offset, buf)
    }

    /// Writes the buffer into the peer's region, from `offset` bytes into it.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    #[doc(alias = "fi_write")]
    #[inline]
    pub fn write(&self, region: &RemoteRegion, offset: u64, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.port.write(the_peer, region, offset, None, buf)
    }

    /// Writes the buffer into the peer's region and tells the peer, whose queue reports a
    /// [`RemoteEvent`](crate::completion::RemoteEvent) with `data`.
    ///
    /// # Errors
    /// As [`write`](Self::write), and [`PostError::DataWidth`].
    #[doc(alias = "fi_writedata")]
    #[inline]
    pub fn write_data(
        &self,
        region: &RemoteRegion,
        offset: u64,
        data: ImmediateData,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.port.write(the_peer, region, offset, Some(data), buf)
    }

    /// Writes a copy of `bytes` into the peer's region. Nothing reports success.
    ///
    /// # Errors
    /// [`PostError::TooLong`] beyond the provider's `inject_size`, or any other [`PostError`] of a write.
    #[doc(alias = "fi_inject_write")]
    #[inline]
    pub fn inject_write(&self, region: &RemoteRegion, offset: u64, bytes: &[u8]) -> Result<(), PostError> {
        self.port.inject_write(the_peer, region, offset, None, bytes)
    }

    /// Writes a copy of `bytes` into the peer's region and tells the peer.
    ///
    /// # Errors
    /// As [`inject_write`](Self::inject_write), and [`PostError::DataWidth`].
    #[doc(alias = "fi_inject_writedata")]
    #[inline]
    pub fn inject_write_data(
        &self,
        region: &RemoteRegion,
        offset: u64,
        data: ImmediateData,
        bytes: &[u8],
    ) -> Result<(), PostError> {
        self.port.inject_write(the_peer, region, offset, Some(data), bytes)
    }
}
