use core::ffi::c_int;

use crate::counter::Counter;
use crate::transport::{DmaBuf, Transport};
use crate::util::clone::clone_struct;
use crate::util::debug::debug_struct;
use crate::vocabulary::{Access, MemoryKey};

/// Access and other attributes of a region. An [`Access`] converts into one.
///
/// ```
/// use loom_core::{Access, Mr, MrAttr, OpenError, vocabulary::MemoryKey};
///
/// # fixture::domain!(network, domain);
/// let plain = Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE)?;
/// // The software transport chooses keys itself (`FI_MR_PROV_KEY`).
/// let known = Mr::open(&domain, vec![0; 8], MrAttr::new(Access::REMOTE_WRITE).key(MemoryKey(4711)));
/// assert_eq!(known.unwrap_err(), OpenError::KeyNotAvailable);
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
/// - `man fi_mr`, `fi_mr_regattr`, `fi_mr_bind`
#[doc(alias = "fi_mr_attr")]
#[must_use = "a region is opened by `Mr::open`"]
pub struct MrAttr<'m, T: Transport> {
    pub(super) access: Access,
    pub(super) key: Option<MemoryKey>,
    pub(super) device: i32,
    pub(super) dmabuf: Option<DmaBuf>,
    pub(super) counter: Option<Counter<'m, T>>,
}

impl<'m, T: Transport> MrAttr<'m, T> {
    /// Attributes with this access and a key unique in the domain.
    pub const fn new(access: Access) -> Self {
        MrAttr { access, key: None, device: 0, dmabuf: None, counter: None }
    }

    /// Requests this key. Requires a provider without `FI_MR_PROV_KEY`.
    #[doc(alias = "requested_key")]
    pub const fn key(mut self, key: MemoryKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Counts peers' writes to the region, once for each range, and atomic operations other than
    /// reads. Requires [`RMA_EVENT`](crate::vocabulary::Caps::RMA_EVENT) in the domain's info and a
    /// provider with region counters (the software transport, and `sockets` of libfabric's software
    /// providers).
    ///
    /// Over libfabric, the counter stays open until no endpoint of the domain is open.
    #[doc(alias = "fi_mr_bind")]
    pub fn counter(mut self, counter: &Counter<'m, T>) -> Self {
        self.counter = Some(counter.clone());
        self
    }

    /// Number of the memory's device among those of its kind
    /// ([`Lent::kind`](crate::buffer::Lent::kind)), by default the first. Host memory has none.
    ///
    /// # Safety
    /// The region's memory belongs to that device: a provider may use the number unchecked.
    #[doc(alias = "fi_mr_regattr")]
    pub const unsafe fn device(mut self, number: i32) -> Self {
        self.device = number;
        self
    }

    /// Registers the memory as part of a device buffer, from byte `offset`, that the driver has
    /// exported as a file descriptor. Requires libfabric 1.20 or later. The
    /// descriptor may be closed once the region is open.
    ///
    /// # Safety
    /// The region's buffer lends exactly this memory.
    #[doc(alias = "FI_MR_DMABUF")]
    #[doc(alias = "fi_mr_dmabuf")]
    pub const unsafe fn dmabuf(mut self, fd: c_int, offset: u64) -> Self {
        self.dmabuf = Some(DmaBuf { fd, offset });
        self
    }
}

impl<T: Transport> From<Access> for MrAttr<'_, T> {
    fn from(access: Access) -> Self {
        MrAttr::new(access)
    }
}

clone_struct!([T: Transport] MrAttr['_, T], access, key, device, dmabuf, counter);

debug_struct!([T: Transport] MrAttr['_, T], |it| access: it.access, key: it.key);
