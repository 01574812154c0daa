//! [`MrBuilder`]: what is asked for besides a region's access.

#![allow(unsafe_code, reason = "registers memory that stays in its place until the region is closed")]

use core::ffi::c_int;
use core::fmt;
use core::ptr;

use allocator_api2::alloc::Allocator;

use super::Mr;
use super::owner::{MrOwner, Reached};
use super::register::{Registration, Terms, is_bound_to_endpoint};
use super::scope::scoped;
use super::through::{Bound, EndpointMr, Through};
use crate::buffer::Buffer;
use crate::error::OpenError;
use crate::objects::counter::Counter;
use crate::objects::domain::Domain;
use crate::objects::lingering::Kept;
use crate::transport::{DmaBuf, Transport};
use crate::vocabulary::{Access, MemoryKey};

/// Opens a region: what it is bound to is named before it is enabled.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::error::OpenError;
/// use loom_core::objects::{av::Av, cq::{self, CqAttr}, domain::Domain, mr::Mr};
/// use loom_core::soft::{Asks, Network, NetworkAttr};
/// use loom_core::vocabulary::Access;
///
/// let network = Network::new(NetworkAttr::default())?;
/// // As over some hardware: what peers reach belongs to an endpoint.
/// let domain = Domain::open(&network.info_that_asks(Asks::nothing().for_regions_of_endpoints()))?;
/// let av = Av::open(&domain, 2)?;
/// assert_eq!(Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE).unwrap_err(), OpenError::NeedsEndpoint);
/// cq::scope(&domain, CqAttr::<16>::new(), |cq: &cq::Cq<'_, _, &[u8]>| {
///     let [alice, bob] = [cq.endpoint(&av).enable()?, cq.endpoint(&av).enable()?];
///     let to_bob = av.insert(&bob.address()?)?;
///     // The same over every domain.
///     let region = Mr::builder(&domain, Access::REMOTE_WRITE).open_for(&bob, vec![0; 8])?;
///     alice.inject_write(to_bob, &region.remote(), 3, b"hello")?;
///     assert_eq!(region.close().map_err(|error| error.to_string())?, b"\0\0\0hello");
///     Ok::<_, Box<dyn std::error::Error>>(())
/// })??;
/// # }
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
///
/// # References
/// - `man fi_mr`, `fi_mr_regattr`, `fi_mr_bind`, `fi_mr_enable`
#[must_use = "a region is opened by `open`, `open_for` or `scope`"]
pub struct MrBuilder<'d, T: Transport> {
    domain: &'d Domain<T>,
    registration: Registration,
    counter: Option<&'d Counter<'d, T>>,
}

impl<'d, T: Transport> MrBuilder<'d, T> {
    pub(super) const fn new(domain: &'d Domain<T>, access: Access) -> Self {
        MrBuilder { domain, registration: Registration::new(access), counter: None }
    }

    /// Opens it under this key, where the provider leaves the choice to the application (no `FI_MR_PROV_KEY`): peers then need
    /// not be told. Without, it is one that no other region of the domain has.
    #[doc(alias = "requested_key")]
    pub const fn key(mut self, key: MemoryKey) -> Self {
        self.registration.key = Some(key);
        self
    }

    /// Counts what peers write to it; where the info of the domain grants
    /// [`RMA_EVENT`](crate::vocabulary::Caps::RMA_EVENT), and the provider has counters of regions (of libfabric's for software,
    /// `sockets` has).
    ///
    /// Where closing a region is no fence, as over libfabric, the counter stays open for good, and the domain, if the region is
    /// closed while an endpoint of the domain is open: endpoints are to be closed first.
    #[doc(alias = "fi_mr_bind")]
    pub const fn counter(mut self, counter: &'d Counter<'d, T>) -> Self {
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
        self.registration.device = number;
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
        self.registration.dmabuf = Some(DmaBuf { fd, offset });
        self
    }

    /// Registers memory for as long as the region is open, as [`Mr::open_in`] does.
    ///
    /// # Errors
    /// As [`Mr::open_in`], and
    /// - [`OpenError::KeyTaken`] if another region of the domain has the key
    /// - [`OpenError::KeyNotAvailable`] if the provider chooses keys itself, or has none that long
    /// - [`OpenError::OtherDomain`] if the counter belongs to another domain, [`OpenError::Counters`] if there is nothing to
    ///   count because peers may not write, or [`OpenError::Errno`] with `EOPNOTSUPP` if what peers do is not counted
    #[doc(alias = "fi_mr_regattr")]
    pub fn open_in<M: Buffer + Send + 'static, A: Allocator + Send + 'static>(
        self,
        memory: M,
        alloc: A,
    ) -> Result<MrOwner<'d, T, M, A>, OpenError> {
        self.open_held(memory, alloc, None, ())
    }

    /// [`MrBuilder::open_in`] with the global allocator.
    ///
    /// # Errors
    /// As [`MrBuilder::open_in`].
    #[cfg(feature = "std")]
    pub fn open<M: Buffer + Send + 'static>(
        self,
        memory: M,
    ) -> Result<MrOwner<'d, T, M, allocator_api2::alloc::Global>, OpenError> {
        self.open_in(memory, allocator_api2::alloc::Global)
    }

    /// Registers memory that peers reach through one endpoint. Where the domain binds regions to endpoints
    /// (`FI_MR_ENDPOINT`), through no other, and the region is bound and enabled; elsewhere through any.
    ///
    /// # Errors
    /// As [`MrBuilder::open_in`] but for [`OpenError::NeedsEndpoint`], and [`OpenError::OtherDomain`] if the endpoint belongs to
    /// another domain.
    #[doc(alias = "fi_mr_bind")]
    #[doc(alias = "fi_mr_enable")]
    pub fn open_for_in<'e, M: Buffer + Send + 'static, A: Allocator + Send + 'static>(
        self,
        endpoint: impl Into<Through<'e, 'd, T>>,
        memory: M,
        alloc: A,
    ) -> Result<EndpointMr<'e, 'd, T, M, A>, OpenError>
    where
        T: 'e,
        'd: 'e,
    {
        let Through { record, domain } = endpoint.into();
        if !ptr::eq(domain, self.domain) {
            return Err(OpenError::OtherDomain);
        }
        if !is_bound_to_endpoint(domain, self.registration.access) {
            return self.open_held(memory, alloc, None, Bound::to(None));
        }
        // SAFETY: the endpoint is borrowed, so it is open.
        let endpoint = unsafe { record.raw() };
        self.open_held(memory, alloc, Some(endpoint), Bound::to(Some(record.regions())))
    }

    /// [`MrBuilder::open_for_in`] with the global allocator.
    ///
    /// # Errors
    /// As [`MrBuilder::open_for_in`].
    #[cfg(feature = "std")]
    pub fn open_for<'e, M: Buffer + Send + 'static>(
        self,
        endpoint: impl Into<Through<'e, 'd, T>>,
        memory: M,
    ) -> Result<EndpointMr<'e, 'd, T, M, allocator_api2::alloc::Global>, OpenError>
    where
        T: 'e,
        'd: 'e,
    {
        self.open_for_in(endpoint, memory, allocator_api2::alloc::Global)
    }

    /// Registers memory of any lifetime for the time of a call, as [`scope`](super::scope) does.
    ///
    /// # Errors
    /// As [`scope`](super::scope), and [`MrBuilder::open_in`].
    pub fn scope<M: Buffer, R>(self, memory: M, f: impl FnOnce(&Mr<'d, T>) -> R) -> Result<R, OpenError> {
        let terms = Terms { registration: self.registration, counter: self.counter, endpoint: None };
        scoped(self.domain, memory, &terms, f)
    }

    /// Opens the region. `hold` is what the region keeps open: the endpoint, if it is bound to one.
    fn open_held<M: Buffer + Send + 'static, A: Allocator + Send + 'static, H>(
        self,
        memory: M,
        alloc: A,
        endpoint: Option<&T::Endpoint>,
        hold: H,
    ) -> Result<MrOwner<'d, T, M, A, H>, OpenError> {
        let terms = Terms { registration: self.registration, counter: self.counter, endpoint };
        let mut memory = Kept::new(Reached::new(memory), alloc)?;
        let lent = memory.value().memory().lend();
        // SAFETY: the memory stays in its place until the region is closed and no endpoint can reach it: `MrOwner`.
        let mr = unsafe { Mr::register(self.domain, &lent, &terms) }?;
        let mut owner = MrOwner::new(mr, memory, hold);
        // SAFETY: registered just now; the owner keeps the endpoint open until the region is closed. After an error it closes
        // the region.
        unsafe { owner.mr.enable(&terms) }?;
        Ok(owner)
    }
}

impl<T: Transport> fmt::Debug for MrBuilder<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MrBuilder").field("registration", &self.registration).finish_non_exhaustive()
    }
}
