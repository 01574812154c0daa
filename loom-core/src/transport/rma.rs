//! [`Rma`]: remote memory access.

use super::{Context, Endpoints, Msg, Refusal};
use crate::buffer::Lent;
use crate::vocabulary::{FabricAddr, ImmediateData, MemoryKey, RemoteAddr};

/// Where an RMA operation goes in the peer's memory; libfabric's `fi_rma_iov` without the length.
#[derive(Clone, Copy, Debug)]
#[doc(alias = "fi_rma_iov")]
pub struct RmaTarget {
    /// The peer.
    pub to: FabricAddr,
    /// Virtual address or offset in the region, as the peer's domain asks for.
    pub addr: RemoteAddr,
    /// The region's key.
    pub key: MemoryKey,
}

/// A part of a peer's memory: one of several that an RMA operation goes to.
#[derive(Clone, Copy, Debug)]
#[doc(alias = "fi_rma_iov")]
pub struct RemotePart {
    /// Virtual address or offset in the region, as the peer's domain asks for.
    pub addr: RemoteAddr,
    /// Bytes.
    pub len: usize,
    /// The region's key.
    pub key: MemoryKey,
}

/// Reads from and writes to memory of peers: `struct fi_ops_rma`.
///
/// # Safety
/// As [`Transport`](super::Transport).
#[doc(alias = "fi_ops_rma")]
pub unsafe trait Rma: Endpoints {
    /// `fi_read`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn read(endpoint: &Self::Endpoint, from: RmaTarget, lent: &Lent, context: Context) -> Result<(), Refusal>;
    /// `fi_write`, or `fi_writedata` with immediate data.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn write(
        endpoint: &Self::Endpoint,
        to: RmaTarget,
        lent: &Lent,
        data: Option<ImmediateData>,
        context: Context,
    ) -> Result<(), Refusal>;
    /// `fi_inject_write`, or `fi_inject_writedata`.
    ///
    /// # Safety
    /// The contract of callers; `bytes` is not longer than `inject_size`.
    unsafe fn inject_write(
        endpoint: &Self::Endpoint,
        to: RmaTarget,
        bytes: &[u8],
        data: Option<ImmediateData>,
    ) -> Result<(), Refusal>;
    /// `fi_readmsg`: the parts are as long together as the pieces.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn readmsg(endpoint: &Self::Endpoint, msg: &Msg<'_>, remote: &[RemotePart]) -> Result<(), Refusal>;
    /// `fi_writemsg`: the parts are as long together as the pieces.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn writemsg(endpoint: &Self::Endpoint, msg: &Msg<'_>, remote: &[RemotePart]) -> Result<(), Refusal>;
}
