use core::ffi::c_int;
use core::ptr::NonNull;

use super::{Counters, Endpoints};
use crate::buffer::Lent;
use crate::vocabulary::{Access, Errno, MemoryKey, MrFlags};

/// Attributes of a registration, by default of host memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "fi_mr_attr")]
pub struct RegionAttr {
    /// Permitted uses of the memory.
    pub access: Access,
    /// Requested key, if the provider does not choose keys.
    pub key: MemoryKey,
    /// Number of the device among those of its kind.
    pub device: i32,
    /// Special properties.
    pub flags: MrFlags,
    /// Position in an exported device buffer, if the memory is given as one.
    pub dmabuf: Option<DmaBuf>,
}

/// Position of memory in a buffer that a device's driver exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "fi_mr_dmabuf")]
pub struct DmaBuf {
    /// File descriptor of the buffer.
    pub fd: c_int,
    /// Start of the memory, in bytes.
    pub offset: u64,
}

/// Memory registered with providers, for local use or for peers.
///
/// # Safety
/// The promises of [`Transport`](super::Transport).
pub unsafe trait MemoryRegions: Endpoints + Counters {
    /// `fid_mr`. The thread that closes the last endpoint of a domain may close it.
    type Mr: Send;

    /// `true` if `mr_close` returns only after peers have stopped using the memory. Objects rely on
    /// it if [`ProviderQuirks::mr_close`](super::ProviderQuirks::mr_close) permits closing regions
    /// at any time.
    ///
    /// libfabric does not promise it: its `tcp` provider checks a key once and fills the region
    /// over many polls.
    const MR_CLOSE_FENCES: bool;

    /// `fi_mr_regattr`. If the domain requires bound regions (`FI_MR_ENDPOINT`, `FI_MR_RMA_EVENT`),
    /// peers cannot reach the memory before [`mr_enable`](Self::mr_enable).
    ///
    /// # Errors
    /// `ENOKEY` if another region of the domain has the key.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn mr_open(domain: &Self::Domain, memory: &Lent, attr: RegionAttr) -> Result<Self::Mr, Errno>;
    /// `fi_mr_bind` to an endpoint, if the domain requires `FI_MR_ENDPOINT`.
    ///
    /// # Safety
    /// Contract of callers. Both objects belong to one domain, and the region is not enabled.
    unsafe fn mr_bind_endpoint(mr: &mut Self::Mr, endpoint: &Self::Endpoint) -> Result<(), Errno>;
    /// `fi_mr_bind` to a counter of writes by peers (`FI_REMOTE_WRITE`).
    ///
    /// # Errors
    /// `ENOSYS` if the transport has no counters of regions.
    ///
    /// # Safety
    /// Contract of callers. Both objects belong to one domain, and the region is not enabled.
    unsafe fn mr_bind_counter(mr: &mut Self::Mr, counter: &Self::Counter) -> Result<(), Errno>;
    /// `fi_mr_enable`. It may change the region's key.
    ///
    /// # Safety
    /// Contract of callers. The domain requires it, and the region is bound to all required
    /// objects.
    unsafe fn mr_enable(mr: &mut Self::Mr) -> Result<(), Errno>;
    /// `fi_mr_refresh` of a range.
    ///
    /// # Safety
    /// Contract of callers. The range lies within the region.
    unsafe fn mr_refresh(mr: &Self::Mr, first: NonNull<u8>, len: usize) -> Result<(), Errno>;
    /// `fi_mr_key`
    fn mr_key(mr: &Self::Mr) -> MemoryKey;
    /// `fi_mr_desc`, as a number.
    fn mr_descriptor(mr: &Self::Mr) -> usize;
    /// `fi_close` of a region, which invalidates its key. See
    /// [`MR_CLOSE_FENCES`](Self::MR_CLOSE_FENCES).
    ///
    /// Unless closing is a fence, this must not wait for a thread that opens an endpoint.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn mr_close(mr: &Self::Mr) -> Result<(), Errno>;
}
