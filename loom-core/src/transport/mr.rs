//! [`MemoryRegions`]: memory that is registered.

use core::ffi::c_int;
use core::ptr::NonNull;

use super::{Counters, Endpoints};
use crate::buffer::Lent;
use crate::vocabulary::{Access, Errno, MemoryKey, MrFlags};

/// How memory is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "fi_mr_attr")]
pub struct MrAttr {
    /// What it is used for.
    pub access: Access,
    /// The wanted key, where the provider does not choose.
    pub key: MemoryKey,
    /// Which of the devices of its kind it belongs to, if it is not the host's.
    pub device: i32,
    /// What is special about it.
    pub flags: MrFlags,
    /// The buffer of a device that it is, if it is given as one.
    pub dmabuf: Option<DmaBuf>,
}

impl MrAttr {
    /// The host's memory, with nothing special.
    #[must_use]
    pub const fn new(access: Access, key: MemoryKey) -> Self {
        MrAttr { access, key, device: 0, flags: MrFlags::empty(), dmabuf: None }
    }
}

/// Where memory lies in a buffer that a device's driver has exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "fi_mr_dmabuf")]
pub struct DmaBuf {
    /// The file descriptor of the buffer.
    pub fd: c_int,
    /// Where the memory begins, in bytes.
    pub offset: u64,
}

/// Memory that providers know, for local use or for peers.
///
/// # Safety
/// As [`Transport`](super::Transport).
pub unsafe trait MemoryRegions: Endpoints + Counters {
    /// `fid_mr`. Whichever thread closes the last endpoint of a domain may close it.
    type Mr: Send;

    /// Whether `mr_close` returns only when peers do not use the memory any more. The objects rely on it where
    /// [`ProviderQuirks::mr_close`](super::ProviderQuirks::mr_close) says that regions can be closed at any time.
    ///
    /// libfabric does not promise it ("active or queued operations that reference a memory region being closed may [...]
    /// result in accesses to invalid memory"), and its `tcp` provider checks a key once and fills the region over many polls.
    const MR_CLOSE_FENCES: bool;

    /// `fi_mr_regattr`. Where the domain asks for regions that are bound (`FI_MR_ENDPOINT`, `FI_MR_RMA_EVENT`), no peer reaches the
    /// memory before [`mr_enable`](Self::mr_enable).
    ///
    /// # Errors
    /// `ENOKEY` if another region of the domain has the key.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn mr_open(domain: &Self::Domain, memory: &Lent, attr: MrAttr) -> Result<Self::Mr, Errno>;
    /// `fi_mr_bind` to an endpoint, where the domain asks for `FI_MR_ENDPOINT`.
    ///
    /// # Safety
    /// The contract of callers; both are of one domain, and the region is not enabled.
    unsafe fn mr_bind_endpoint(mr: &mut Self::Mr, endpoint: &Self::Endpoint) -> Result<(), Errno>;
    /// `fi_mr_bind` to a counter of what peers write (`FI_REMOTE_WRITE`).
    ///
    /// # Errors
    /// `ENOSYS` if there are no counters of regions.
    ///
    /// # Safety
    /// The contract of callers; both are of one domain, and the region is not enabled.
    unsafe fn mr_bind_counter(mr: &mut Self::Mr, counter: &Self::Counter) -> Result<(), Errno>;
    /// `fi_mr_enable`; the region's key may be another afterwards.
    ///
    /// # Safety
    /// The contract of callers; the domain asks for it, and the region is bound to what it needs.
    unsafe fn mr_enable(mr: &mut Self::Mr) -> Result<(), Errno>;
    /// `fi_mr_refresh` of a range.
    ///
    /// # Safety
    /// The contract of callers; the range lies within the region.
    unsafe fn mr_refresh(mr: &Self::Mr, first: NonNull<u8>, len: usize) -> Result<(), Errno>;
    /// `fi_mr_key`
    fn mr_key(mr: &Self::Mr) -> MemoryKey;
    /// `fi_mr_desc`, as a number.
    fn mr_descriptor(mr: &Self::Mr) -> usize;
    /// `fi_close` of a region: its key is not valid any more. See [`MR_CLOSE_FENCES`](Self::MR_CLOSE_FENCES).
    ///
    /// Unless closing is a fence, the objects may hold a lock that opening an endpoint of the domain takes, so that this does not wait
    /// for a thread that opens one.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn mr_close(mr: &Self::Mr) -> Result<(), Errno>;
}
