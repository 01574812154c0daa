//! [`Mr`], memory that peers may reach, and [`RemoteRegion`], its description for peers.

#![allow(unsafe_code, reason = "registers memory and keeps it until it is deregistered")]

mod attr;
mod local;
mod region;
mod register;

use core::alloc::Layout;
use core::mem::{ManuallyDrop, offset_of};
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

pub use self::attr::MrAttr;
pub use self::local::LocalMr;
use self::region::{Fate, Region, close_dropped};
use self::register::is_bound_to_endpoint;
use crate::buffer::{Buffer, Descriptor};
use crate::domain::scope_registry::Node;
use crate::domain::{Domain, DomainInner};
use crate::endpoint::{Endpoint, EndpointHold, HasAddress};
use crate::error::OpenError;
use crate::exposed::Window;
use crate::storage::handle::{Handle, Object as _, Plan, Unfilled};
use crate::transport::Transport;
use crate::util::debug::debug_struct;
use crate::util::log::note;
pub use crate::vocabulary::remote_region::RemoteRegion;
use crate::vocabulary::{Access, Errno, MrMode, RemoteAddr};

/// A registered memory region with its memory. Dropping it closes the region.
///
/// While it is open, this side accesses the memory through a [`Window`] only. Once it is closed,
/// peers' operations are refused, and the memory is dropped when peers cannot reach it any more: at
/// once over the software transport. Over libfabric and strict networks, operations that have begun
/// continue, so the domain keeps the memory until its endpoints are closed.
/// [`close_finished`](Self::close_finished) returns it earlier.
///
/// Over libfabric 2's `shm` and `sockets`, which continue to use a closed region, a region dropped
/// while endpoints of its domain are open is closed with the last of them, and peers reach its
/// memory until then.
///
/// ```
/// use loom_core::{Access, Forever, Mr};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let region = Mr::open(&domain, vec![0; 64], Access::REMOTE_WRITE)?;
/// let written = cq.post(b"8 bytes.".to_vec(), Forever, |bytes| alice.write(to_bob, &region.remote(), 16, bytes))?;
/// cq.finish(written, Forever)?.result()?;
/// let mut bytes = [0; 8];
/// // The bytes may arrive after the completion, when the owner polls.
/// while &bytes != b"8 bytes." {
///     cq.progress()?;
///     region.window().copy_to(16, &mut bytes)?;
/// }
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
/// - `man fi_mr`
#[doc(alias = "fid_mr")]
pub struct Mr<'m, T: Transport, M: Buffer + Send, H = ()> {
    pub(super) region: ManuallyDrop<Handle<'m, Region<T, M>>>,
    /// Leaked if closing fails.
    pub(super) hold: ManuallyDrop<H>,
}

// SAFETY: the region's one handle moves with its memory (`M: Send`). Any thread may close its
// counter (`Counters::Counter`).
unsafe impl<'m, T: Transport, M: Buffer + Send, H: Send> Send for Mr<'m, T, M, H> where Handle<'m, DomainInner<T>>: Send {}
// SAFETY: shared references give access to the window, which is `Sync`, and to the raw region
// (`T::Mr: Sync`) only.
unsafe impl<'m, T: Transport<Mr: Sync>, M: Buffer + Send, H: Sync> Sync for Mr<'m, T, M, H> where
    Handle<'m, DomainInner<T>>: Sync
{
}

impl<'m, T: Transport, M: Buffer + Send> Mr<'m, T, M> {
    /// Registers memory while the region is open. The region's own block comes from `alloc`.
    ///
    /// Borrowed memory needs a [`scope`](crate::domain::scope). The thread that closes the domain's
    /// last endpoint may drop it.
    ///
    /// # Errors
    /// - [`OpenError::Access`] for uninitialised memory, or access that requires writable memory
    /// - [`OpenError::NeedsEndpoint`], except by [`Mr::open_for_in`], which works over every
    ///   domain, for endpoints that are not scalable
    /// - [`OpenError::NoFence`] in a scope, over an untested provider, or over libfabric through a
    ///   domain that the scope did not open
    /// - [`OpenError::DeviceMemory`], [`OpenError::KeyTaken`], [`OpenError::KeyNotAvailable`],
    ///   [`OpenError::OutOfMemory`]
    /// - [`OpenError::OtherDomain`] for the counter, [`OpenError::Counters`] for one without remote
    ///   write access
    /// - [`OpenError::Errno`] of the provider, or `EOPNOTSUPP` if peers' operations are not counted
    #[doc(alias = "fi_mr_reg")]
    #[doc(alias = "fi_mr_regattr")]
    pub fn open_in<A: Allocator + Send + 'm>(
        domain: &Domain<'m, T>,
        memory: M,
        attr: impl Into<MrAttr<'m, T>>,
        alloc: A,
    ) -> Result<Self, OpenError>
    where
        M: 'm,
    {
        Self::open_held(domain, memory, &attr.into(), alloc, None, ())
    }

    /// [`Mr::open_in`] with the global allocator.
    #[cfg(feature = "std")]
    pub fn open(domain: &Domain<'m, T>, memory: M, attr: impl Into<MrAttr<'m, T>>) -> Result<Self, OpenError>
    where
        M: 'm,
    {
        Self::open_in(domain, memory, attr, allocator_api2::alloc::Global)
    }

    /// Layout of a region's block in an `A`, with the value that owns the memory.
    ///
    /// # Errors
    /// [`OpenError::Size`].
    pub fn layout<A: Allocator>() -> Result<Layout, OpenError> {
        Ok(Plan::of::<Region<T, M>, A>()?.layout())
    }
}

/// Region for one endpoint ([`Mr::open_for_in`]), on its thread.
///
/// If the domain binds regions to endpoints, a dropped endpoint stays open until the region is
/// closed.
pub type EndpointMr<'m, T, M> = Mr<'m, T, M, EndpointHold>;

impl<'m, T: Transport, M: Buffer + Send> EndpointMr<'m, T, M> {
    /// Registers memory for peers of one endpoint. If the domain binds regions to endpoints
    /// (`FI_MR_ENDPOINT`), the region is bound and enabled, and reachable through that endpoint
    /// only, otherwise through any.
    ///
    /// ```
    /// use loom_core::{Access, Forever, Mr, OpenError};
    /// # use loom_core::{Cq, Domain, soft::{Network, NetworkAttr, RequiredModes}};
    ///
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info_requiring(RequiredModes::ENDPOINT_REGIONS))?;
    /// # fixture::pair!(domain, av, cq, alice, bob, to_bob);
    /// # let _: &Cq<'_, _, Vec<u8>> = &cq;
    /// assert_eq!(Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE).unwrap_err(), OpenError::NeedsEndpoint);
    /// // This call works over every domain.
    /// let region = Mr::open_for(&domain, &bob, vec![0; 8], Access::REMOTE_WRITE)?;
    /// cq.retry(Forever, || alice.inject_write(to_bob, &region.remote(), 3, b"hello"))?;
    /// let mut bytes = [0; 8];
    /// while &bytes != b"\0\0\0hello" {
    ///     cq.progress()?;
    ///     region.window().copy_to(0, &mut bytes)?;
    /// }
    /// # Ok::<_, Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Mr::open_in`] except [`OpenError::NeedsEndpoint`], and [`OpenError::OtherDomain`]
    /// for an endpoint of another domain.
    #[doc(alias = "fi_mr_bind")]
    #[doc(alias = "fi_mr_enable")]
    pub fn open_for_in<B: Buffer, K: HasAddress, A: Allocator + Send + 'm>(
        domain: &Domain<'m, T>,
        endpoint: &Endpoint<'m, T, B, K>,
        memory: M,
        attr: impl Into<MrAttr<'m, T>>,
        alloc: A,
    ) -> Result<Self, OpenError>
    where
        M: 'm,
    {
        let attr = attr.into();
        if !endpoint.cq().domain().is(&domain.body) {
            return Err(OpenError::OtherDomain);
        }
        if !is_bound_to_endpoint(&domain.body, attr.access) {
            return Self::open_held(domain, memory, &attr, alloc, None, EndpointHold::nothing());
        }
        Self::open_held(domain, memory, &attr, alloc, Some(endpoint.raw()), endpoint.keep())
    }

    /// [`Mr::open_for_in`] with the global allocator.
    #[cfg(feature = "std")]
    pub fn open_for<B: Buffer, K: HasAddress>(
        domain: &Domain<'m, T>,
        endpoint: &Endpoint<'m, T, B, K>,
        memory: M,
        attr: impl Into<MrAttr<'m, T>>,
    ) -> Result<Self, OpenError>
    where
        M: 'm,
    {
        Self::open_for_in(domain, endpoint, memory, attr, allocator_api2::alloc::Global)
    }
}

impl<'m, T: Transport, M: Buffer + Send, H> Mr<'m, T, M, H> {
    fn open_held<A: Allocator + Send + 'm>(
        domain: &Domain<'m, T>,
        memory: M,
        attr: &MrAttr<'m, T>,
        alloc: A,
        endpoint: Option<&T::Endpoint>,
        hold: H,
    ) -> Result<Self, OpenError>
    where
        M: 'm,
    {
        let Domain { body: domain, scope, .. } = domain;
        let quirks = T::quirks(domain.info().raw());
        let fenced = T::MR_CLOSE_FENCES && quirks.mr_close || !is_remote(attr.access);
        if scope.is_some() && !fenced && !(domain.is_of(*scope) && quirks.ends_with_queue) {
            return Err(OpenError::NoFence);
        }
        let block = Unfilled::new(Plan::of::<Region<T, M>, A>()?, alloc)?;
        // SAFETY: the region's handle lives for `'m`.
        let mut region = block.fill(Region::new(unsafe { domain.for_child() }, memory, fenced));
        // SAFETY: the region is new and has no other handle.
        unsafe { region.as_mut().register(attr, endpoint.is_some()) }?;
        let mr = Mr { region: ManuallyDrop::new(region), hold: ManuallyDrop::new(hold) };
        // SAFETY: the offset of `node` lies within the region.
        let node = unsafe { mr.region.value_ptr().byte_add(offset_of!(Region<T, M>, node)) }.cast::<Node>();
        // SAFETY: the region does not move, and the pointer covers the whole region.
        unsafe { Node::register(node, *scope) };
        // SAFETY: registered above. `mr` keeps the endpoint open until it closes the region (H2),
        // also after an error.
        unsafe { mr.region.enable(attr, endpoint) }?;
        note!(debug, "open", "region of {} bytes is open on {}: {}", mr.region.range.1, **domain, attr.access);
        Ok(mr)
    }
}

impl<T: Transport, M: Buffer + Send, H> Mr<'_, T, M, H> {
    /// This side's view of the memory, empty for device memory.
    ///
    /// ```
    /// use loom_core::{Access, Forever, Mr};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// let region = Mr::open(&domain, vec![0; 64], Access::REMOTE_WRITE)?;
    /// let written = cq.post(vec![7; 4], Forever, |bytes| alice.write(to_bob, &region.remote(), 8, bytes))?;
    /// cq.finish(written, Forever)?.result()?;
    /// // Peers may write at any time, so a program copies what it reads.
    /// let mut bytes = [0; 4];
    /// while bytes != [7; 4] {
    ///     cq.progress()?;
    ///     region.window().copy_to(8, &mut bytes)?;
    /// }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn window(&self) -> Window<'_> {
        self.region.window
    }

    /// Description with which a peer reaches the memory.
    ///
    /// ```
    /// use loom_core::{Access, Forever, Mr, RemoteRegion, Source};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// let region = Mr::open(&domain, vec![7; 64], Access::REMOTE_READ)?;
    /// // Bob tells his region in a message, and alice reads it.
    /// let told = alice.recv(Source::Any, vec![0; RemoteRegion::WIRE_LEN])?;
    /// let to_alice = av.insert(&alice.address()?)?;
    /// cq.post(region.remote().to_bytes().to_vec(), Forever, |message| bob.send(to_alice, message))?;
    /// let bytes = cq.finish(told, Forever)?.into_buf();
    /// let remote = RemoteRegion::from_bytes(bytes.as_slice().try_into().expect("32 bytes"));
    /// let read = cq.post(vec![0; 64], Forever, |room| alice.read(to_bob, &remote, 0, room))?;
    /// assert_eq!(cq.finish(read, Forever)?.into_buf(), [7; 64]);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "fi_mr_key")]
    #[must_use]
    pub fn remote(&self) -> RemoteRegion {
        let (start, len) = self.region.range;
        let mode = self.region.domain.attributes().domain.mr_mode;
        let base = if mode.intersects(MrMode::VIRT_ADDR | MrMode::BASIC) { start } else { 0 };
        RemoteRegion { base: RemoteAddr(base), len, key: T::mr_key(self.raw()), access: self.region.access & REMOTE }
    }

    /// Raw handle.
    #[must_use]
    pub fn raw(&self) -> &T::Mr {
        self.region.raw()
    }

    /// Local descriptor of the region.
    #[doc(alias = "fi_mr_desc")]
    #[must_use]
    pub fn descriptor(&self) -> Descriptor {
        Descriptor { raw: T::mr_descriptor(self.raw()), domain: self.region.domain.identity() }
    }

    /// Notifies a provider that requires it (`FI_MR_MMU_NOTIFY`) of changed pages behind a range.
    /// Meanwhile peers' operations on the region may fail.
    ///
    /// ```
    /// use loom_core::{Access, Errno, Mr};
    ///
    /// # fixture::domain!(network, domain);
    /// let region = Mr::open(&domain, vec![0; 8192], Access::REMOTE_READ)?;
    /// // After the program has moved the pages of the second half.
    /// region.refresh(4096, 4096)?;
    /// assert_eq!(region.refresh(4096, 4097), Err(Errno::EINVAL), "the range ends behind the region");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// `EINVAL` for a range beyond the region, or an error of the provider.
    #[doc(alias = "fi_mr_refresh")]
    pub fn refresh(&self, offset: usize, len: usize) -> Result<(), Errno> {
        let (start, whole) = self.region.range;
        let end = offset.checked_add(len).ok_or(Errno::EINVAL)?;
        if end as u64 > whole {
            return Err(Errno::EINVAL);
        }
        if !self.region.domain.attributes().domain.mr_mode.contains(MrMode::MMU_NOTIFY) {
            return Ok(());
        }
        let start = usize::try_from(start).map_err(|_| Errno::EINVAL)?;
        let first = core::ptr::without_provenance_mut(start.checked_add(offset).ok_or(Errno::EINVAL)?);
        let first = NonNull::new(first).ok_or(Errno::EINVAL)?;
        // SAFETY: open (H1), and the range lies within the region.
        unsafe { T::mr_refresh(self.raw(), first, len) }
    }
}

impl<T: Transport, M: Buffer + Send, H> Drop for Mr<'_, T, M, H> {
    fn drop(&mut self) {
        let Mr { region, hold } = self;
        if !region.domain.is_here() {
            // Leaked in a forked child (rule 6 of `handle`).
            return;
        }
        let len = region.range.1;
        let fate = close_dropped(region, || {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(hold) };
        });
        match fate {
            Fate::Over => note!(debug, "close", "region of {len} bytes is closed"),
            Fate::Failed(errno) => {
                note!(warn, "left", "region of {len} bytes stays open, and its memory is leaked: {errno}")
            }
            Fate::Kept => note!(
                debug,
                "quirk",
                "memory of a region of {len} bytes is kept until no endpoint of its domain is open"
            ),
        }
        if !matches!(fate, Fate::Kept) {
            // SAFETY: dropped once, here. If `Kept`, a list of the domain owns it.
            unsafe { ManuallyDrop::drop(region) };
        }
    }
}

const REMOTE: Access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);

const fn is_remote(access: Access) -> bool {
    access.intersects(REMOTE)
}

debug_struct!([T: Transport, M: Buffer + Send, H] Mr['_, T, M, H], |it| len: it.region.range.1, key: it.remote().key);
