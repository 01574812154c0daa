//! [`MrAttr`]: what is asked for of a region.

use core::ffi::c_int;
use core::fmt;

use crate::counter::Counter;
use crate::transport::{DmaBuf, Transport};
use crate::vocabulary::{Access, MemoryKey};

/// What is asked for of a region: who may access the memory, and how. An [`Access`] alone is enough.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::error::OpenError;
/// use loom_core::mr::MrAttr;
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::vocabulary::MemoryKey;
/// use loom_core::{Access, Domain, Mr};
///
/// let network = Network::new(NetworkAttr::default())?;
/// let domain = Domain::open(&network.info())?;
/// let plain = Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE)?;
/// // The software transport chooses keys itself (`FI_MR_PROV_KEY`).
/// let known = Mr::open(&domain, vec![0; 8], MrAttr::new(Access::REMOTE_WRITE).key(MemoryKey(4711)));
/// assert_eq!(known.unwrap_err(), OpenError::KeyNotAvailable);
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
/// - `man fi_mr`, `fi_mr_regattr`, `fi_mr_bind`
#[doc(alias = "fi_mr_attr")]
#[must_use = "a region is opened by `Mr::open`"]
pub struct MrAttr<'b, 'm, T: Transport> {
    pub(super) access: Access,
    /// The key, if it is not to be one that no other region has.
    pub(super) key: Option<MemoryKey>,
    /// Which of the devices of a kind the memory belongs to.
    pub(super) device: i32,
    /// What of a device's exported buffer it is.
    pub(super) dmabuf: Option<DmaBuf>,
    /// Of peers' writes.
    pub(super) counter: Option<&'b Counter<'m, T>>,
}

impl<'b, 'm, T: Transport> MrAttr<'b, 'm, T> {
    /// With this access, under a key that no other region of the domain has.
    pub const fn new(access: Access) -> Self {
        MrAttr { access, key: None, device: 0, dmabuf: None, counter: None }
    }

    /// The region has this key, where the provider leaves the choice to the application (no `FI_MR_PROV_KEY`): peers then need
    /// not be told. Without, it is one that no other region of the domain has.
    #[doc(alias = "requested_key")]
    pub const fn key(mut self, key: MemoryKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Counts what peers write to it, and their atomic operations but for reads; where the info of the domain grants
    /// [`RMA_EVENT`](crate::vocabulary::Caps::RMA_EVENT), and the provider has counters of regions: the software transport, and of
    /// libfabric's providers for software `sockets`. A write to several ranges of the region counts once for each.
    ///
    /// Where closing a region is no fence, as over libfabric, the counter stays open until no endpoint of the domain is open, as the
    /// memory does. If the provider fails to close the region, the counter stays open for good, and the domain.
    #[doc(alias = "fi_mr_bind")]
    pub const fn counter(mut self, counter: &'b Counter<'m, T>) -> Self {
        self.counter = Some(counter);
        self
    }

    /// Which device the memory belongs to, among those of its kind ([`Lent::kind`](crate::buffer::Lent::kind)); the first one, if
    /// nothing is said. The host's memory has none.
    ///
    /// # Safety
    /// The memory that the region is opened with is that device's: a provider may look the number up without a check.
    #[doc(alias = "fi_mr_regattr")]
    pub const unsafe fn device(mut self, number: i32) -> Self {
        self.device = number;
        self
    }

    /// The memory is given to the provider as a part of a buffer that the device's driver has exported under a file descriptor,
    /// from this byte on; where the provider takes that, and libfabric's headers at build time had it (from 1.20 on). The
    /// descriptor may be closed when the region is open.
    ///
    /// # Safety
    /// The buffer that the region is opened with lends exactly this memory.
    #[doc(alias = "FI_MR_DMABUF")]
    #[doc(alias = "fi_mr_dmabuf")]
    pub const unsafe fn dmabuf(mut self, fd: c_int, offset: u64) -> Self {
        self.dmabuf = Some(DmaBuf { fd, offset });
        self
    }
}

impl<T: Transport> From<Access> for MrAttr<'_, '_, T> {
    fn from(access: Access) -> Self {
        MrAttr::new(access)
    }
}

impl<T: Transport> Clone for MrAttr<'_, '_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Transport> Copy for MrAttr<'_, '_, T> {}

impl<T: Transport> fmt::Debug for MrAttr<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MrAttr").field("access", &self.access).field("key", &self.key).finish_non_exhaustive()
    }
}
