//! Reading from and writing into a peer's memory: `man fi_rma`.
//!
//! Ranges are checked when the buffer is in its slot, which alone says how long it is.

#![allow(unsafe_code, reason = "posts through the raw endpoint what the op table has taken")]

use super::Port;
use super::post::{Use, needs, remote, taken};
use crate::buffer::Buffer;
use crate::engine::op_table::OpKey;
use crate::error::{PostError, Rejected};
use crate::objects::mr::RemoteRegion;
use crate::transport::Transport;
use crate::vocabulary::{FabricAddr, ImmediateData};

impl<T: Transport, B: Buffer> Port<'_, '_, T, B> {
    /// As [`send`](Self::send).
    #[inline]
    pub(crate) fn read(
        &self,
        peer: impl FnOnce() -> Result<FabricAddr, PostError>,
        region: &RemoteRegion,
        offset: u64,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        self.receive((needs::READ, Use::Read), peer, buf, |raw, peer, lent, context| {
            let target = remote(peer, region, offset, lent.len())?;
            // SAFETY: see `receive`.
            taken(unsafe { T::read(raw, target, lent, context) })
        })
    }

    /// As [`send`](Self::send).
    #[inline]
    pub(crate) fn write(
        &self,
        peer: impl FnOnce() -> Result<FabricAddr, PostError>,
        region: &RemoteRegion,
        offset: u64,
        data: Option<ImmediateData>,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        self.transmit((needs::WRITE, Use::Write), peer, data, buf, |raw, peer, lent, context| {
            let target = remote(peer, region, offset, lent.len())?;
            // SAFETY: see `transmit`.
            taken(unsafe { T::write(raw, target, lent, data, context) })
        })
    }

    /// As [`inject`](Self::inject).
    #[inline]
    pub(crate) fn inject_write(
        &self,
        peer: impl FnOnce() -> Result<FabricAddr, PostError>,
        region: &RemoteRegion,
        offset: u64,
        data: Option<ImmediateData>,
        bytes: &[u8],
    ) -> Result<(), PostError> {
        let peer = self.injectable(needs::WRITE, peer, data, bytes)?;
        let target = remote(peer, region, offset, bytes.len())?;
        // SAFETY: the endpoint is open, the address one of its vector, and the length checked.
        taken(unsafe { T::inject_write(self.raw(), target, bytes, data) })
    }
}
