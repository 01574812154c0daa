//! [`MrBuilder`]: what is asked for besides a region's access.

#![allow(unsafe_code, reason = "registers memory that stays in its place until the region is closed")]

use core::ffi::c_int;
use core::fmt;
use core::mem::{ManuallyDrop, offset_of};

use allocator_api2::alloc::Allocator;

use super::region::Region;
use super::register::{Registration, Terms, is_bound_to_endpoint};
use super::through::{EndpointMr, Through};
use super::{Mr, is_fenced};
use crate::buffer::Buffer;
use crate::error::OpenError;
use crate::handle::{Plan, Unfilled};
use crate::objects::counter::Counter;
use crate::objects::domain::Domain;
use crate::objects::endpoint::Kept;
use crate::objects::left_open::Node;
use crate::transport::{DmaBuf, Transport};
use crate::vocabulary::{Access, MemoryKey};

/// Opens a region: what it is bound to is named before it is enabled.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::error::OpenError;
/// use loom_core::objects::{av::Av, cq::{Cq, CqAttr}, deadline::Forever, domain::Domain, mr::{Mr, MrBuilder}};
/// use loom_core::soft::{RequiredModes, Network, NetworkAttr};
/// use loom_core::vocabulary::Access;
///
/// let network = Network::new(NetworkAttr::default())?;
/// // As over some hardware: what peers reach belongs to an endpoint.
/// let domain = Domain::open(&network.info_requiring(RequiredModes::none().endpoint_regions()))?;
/// let av = Av::open(&domain, 2)?;
/// assert_eq!(Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE).unwrap_err(), OpenError::NeedsEndpoint);
/// let cq = Cq::<_, Vec<u8>>::open(&domain, CqAttr::new(16))?;
/// let [alice, bob] = [cq.endpoint(&av).open()?, cq.endpoint(&av).open()?];
/// let to_bob = av.insert(&bob.address()?)?;
/// // The same over every domain.
/// let region = MrBuilder::new(&domain, Access::REMOTE_WRITE).open_for(&bob, vec![0; 8])?;
/// cq.retry(Forever, || alice.inject_write(to_bob, &region.remote(), 3, b"hello"))?;
/// let mut bytes = [0; 8];
/// while &bytes != b"\0\0\0hello" {
///     // The bytes arrive while both sides poll.
///     cq.progress()?;
///     region.window().copy_to(0, &mut bytes)?;
/// }
/// # }
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
///
/// # References
/// - `man fi_mr`, `fi_mr_regattr`, `fi_mr_bind`, `fi_mr_enable`
#[must_use = "a region is opened by `open` or `open_for`"]
pub struct MrBuilder<'b, 'm, T: Transport> {
    domain: &'b Domain<'m, T>,
    registration: Registration,
    counter: Option<&'b Counter<'m, T>>,
}

impl<'b, 'm, T: Transport> MrBuilder<'b, 'm, T> {
    /// Begins to open a region.
    pub const fn new(domain: &'b Domain<'m, T>, access: Access) -> Self {
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
    pub fn open_in<M: Buffer + Send + 'm, A: Allocator + Send + 'm>(
        self,
        memory: M,
        alloc: A,
    ) -> Result<Mr<'m, T, M>, OpenError> {
        self.open_held(memory, alloc, None, ())
    }

    /// [`MrBuilder::open_in`] with the global allocator.
    ///
    /// # Errors
    /// As [`MrBuilder::open_in`].
    #[cfg(feature = "std")]
    pub fn open<M: Buffer + Send + 'm>(self, memory: M) -> Result<Mr<'m, T, M>, OpenError> {
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
    pub fn open_for_in<'e, M: Buffer + Send + 'm, A: Allocator + Send + 'm>(
        self,
        endpoint: impl Into<Through<'e, 'm, T>>,
        memory: M,
        alloc: A,
    ) -> Result<EndpointMr<'m, T, M>, OpenError>
    where
        T: 'e,
        'm: 'e,
    {
        let Through { endpoint_slot, domain, keep, lives: _ } = endpoint.into();
        if !domain.is(&self.domain.body) {
            return Err(OpenError::OtherDomain);
        }
        if !is_bound_to_endpoint(domain, self.registration.access) {
            return self.open_held(memory, alloc, None, Kept::nothing());
        }
        // SAFETY: the endpoint is borrowed, so it is open.
        let endpoint = unsafe { endpoint_slot.raw() };
        self.open_held(memory, alloc, Some(endpoint), keep)
    }

    /// [`MrBuilder::open_for_in`] with the global allocator.
    ///
    /// # Errors
    /// As [`MrBuilder::open_for_in`].
    #[cfg(feature = "std")]
    pub fn open_for<'e, M: Buffer + Send + 'm>(
        self,
        endpoint: impl Into<Through<'e, 'm, T>>,
        memory: M,
    ) -> Result<EndpointMr<'m, T, M>, OpenError>
    where
        T: 'e,
        'm: 'e,
    {
        self.open_for_in(endpoint, memory, allocator_api2::alloc::Global)
    }

    /// Opens the region. `hold` is what the region keeps open: the endpoint, if it is bound to one.
    fn open_held<M: Buffer + Send + 'm, A: Allocator + Send + 'm, H>(
        self,
        memory: M,
        alloc: A,
        endpoint: Option<&T::Endpoint>,
        hold: H,
    ) -> Result<Mr<'m, T, M, H>, OpenError> {
        let Domain { body: domain, scope, .. } = self.domain;
        let fenced = is_fenced::<T>(self.registration.access, domain.info().raw());
        // What a scope ends by itself are the endpoints of its own domains.
        if scope.is_some() && !fenced && !(domain.is_of(*scope) && T::quirks(domain.info().raw()).ends_with_queue) {
            return Err(OpenError::NoFence);
        }
        let terms = Terms { registration: self.registration, counter: self.counter, endpoint };
        let block = Unfilled::new(Plan::of::<Region<T, M>, A>()?, alloc)?;
        // SAFETY: the region's handle lives for 'm.
        let mut region = block.fill(Region::new(unsafe { domain.for_child() }, memory, fenced));
        // SAFETY: made just now: there is no other handle.
        unsafe { region.as_mut().register(&terms) }?;
        let mr = Mr { region: ManuallyDrop::new(region), hold: ManuallyDrop::new(hold) };
        // SAFETY: a region has a node, there.
        let node = unsafe { mr.region.value_ptr().byte_add(offset_of!(Region<T, M>, node)) }.cast::<Node>();
        // SAFETY: the region stays where it is. The pointer is that of its place.
        unsafe { Node::register(node, *scope) };
        // SAFETY: registered just now; what is returned keeps the endpoint open until the region is closed. After an error it is
        // closed here.
        unsafe { mr.region.enable(&terms) }?;
        Ok(mr)
    }
}

impl<T: Transport> fmt::Debug for MrBuilder<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MrBuilder").field("registration", &self.registration).finish_non_exhaustive()
    }
}
