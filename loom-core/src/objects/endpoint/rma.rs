//! Reading from and writing into a peer's memory: what `man fi_rma` describes.

#![allow(unsafe_code, reason = "posts through the raw endpoint what the op table has taken")]

use super::Endpoint;
use super::post::{Use, needs};
use crate::buffer::{Buffer, SourceBuffer, TargetBuffer};
use crate::engine::op_table::{Kind, OpKey};
use crate::engine::peer_table::Peer;
use crate::error::{PostError, Rejected};
use crate::objects::mr::RemoteRegion;
use crate::transport::Transport;
use crate::vocabulary::ImmediateData;

impl<T: Transport, B: Buffer> Endpoint<'_, '_, T, B> {
    /// Reads from a peer's region, from `offset` bytes into it, as many bytes as the buffer has.
    ///
    /// # Errors
    /// [`PostError::OutOfBounds`] if the region is shorter, or any other [`PostError`]; the buffer comes back. What the
    /// peer refuses is an error completion.
    #[doc(alias = "fi_read")]
    #[inline]
    pub fn read(&self, peer: Peer, region: &RemoteRegion, offset: u64, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        let to = match self.granted(needs::READ).and_then(|()| self.peer(peer)) {
            Ok(to) => to,
            Err(error) => return Err(Rejected { buf, error }),
        };
        self.cq.ops().post(self.index, Kind::Read, buf, |lent, context| {
            self.lendable(lent, Use::Receive)?;
            let target = self.remote(to, region, offset, lent.len())?;
            // SAFETY: the endpoint is open and the peer in its vector; `lent` is in a slot of the op table, writable,
            // and stays there until its event or the endpoint's close.
            Ok(unsafe { T::read(self.raw(), target, lent, context) }?)
        })
    }

    /// Writes the buffer into a peer's region, from `offset` bytes into it.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    #[doc(alias = "fi_write")]
    #[inline]
    pub fn write(&self, peer: Peer, region: &RemoteRegion, offset: u64, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.write_with(peer, region, offset, None, buf)
    }

    /// Writes the buffer into a peer's region and tells the peer, whose queue reports a
    /// [`RemoteEvent`](crate::completion::RemoteEvent) with `data`.
    ///
    /// # Errors
    /// As [`write`](Self::write), and [`PostError::DataWidth`].
    #[doc(alias = "fi_writedata")]
    #[inline]
    pub fn write_data(
        &self,
        peer: Peer,
        region: &RemoteRegion,
        offset: u64,
        data: ImmediateData,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.write_with(peer, region, offset, Some(data), buf)
    }

    #[inline]
    fn write_with(
        &self,
        peer: Peer,
        region: &RemoteRegion,
        offset: u64,
        data: Option<ImmediateData>,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        // The range is checked inside: only the buffer in its slot says how long it is.
        let to = match self.reachable(needs::WRITE, peer, data) {
            Ok(to) => to,
            Err(error) => return Err(Rejected { buf, error }),
        };
        self.cq.ops().post(self.index, Kind::Send, buf, |lent, context| {
            self.lendable(lent, Use::Send)?;
            let target = self.remote(to, region, offset, lent.len())?;
            // SAFETY: the endpoint is open and the peer in its vector; `lent` is in a slot of the op table, readable,
            // and stays there until its event or the endpoint's close.
            Ok(unsafe { T::write(self.raw(), target, lent, data, context) }?)
        })
    }

    /// Writes a copy of `bytes` into a peer's region. Nothing reports success.
    ///
    /// # Errors
    /// [`PostError::TooLong`] beyond the provider's `inject_size`, or any other [`PostError`] of a write.
    #[doc(alias = "fi_inject_write")]
    #[inline]
    pub fn inject_write(&self, peer: Peer, region: &RemoteRegion, offset: u64, bytes: &[u8]) -> Result<(), PostError> {
        let to = self.injectable(needs::WRITE, peer, None, bytes)?;
        let target = self.remote(to, region, offset, bytes.len())?;
        // SAFETY: the endpoint is open, the peer in its vector, and the length checked.
        Ok(unsafe { T::inject_write(self.raw(), target, bytes, None) }?)
    }

    /// Writes a copy of `bytes` into a peer's region and tells the peer.
    ///
    /// # Errors
    /// As [`inject_write`](Self::inject_write), and [`PostError::DataWidth`].
    #[doc(alias = "fi_inject_writedata")]
    #[inline]
    pub fn inject_write_data(
        &self,
        peer: Peer,
        region: &RemoteRegion,
        offset: u64,
        data: ImmediateData,
        bytes: &[u8],
    ) -> Result<(), PostError> {
        let to = self.injectable(needs::WRITE, peer, Some(data), bytes)?;
        let target = self.remote(to, region, offset, bytes.len())?;
        // SAFETY: the endpoint is open, the peer in its vector, and the length checked.
        Ok(unsafe { T::inject_write(self.raw(), target, bytes, Some(data)) }?)
    }
}
