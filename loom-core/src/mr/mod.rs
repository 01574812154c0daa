//! [`Mr`]: memory that peers may reach, and [`RemoteRegion`], what they need for it.

#![allow(unsafe_code, reason = "registers memory and keeps it until it is deregistered")]

mod attr;
mod local;
mod region;
mod register;

use core::alloc::Layout;
use core::fmt;
use core::mem::{ManuallyDrop, offset_of};
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

pub use self::attr::MrAttr;
pub use self::local::LocalMr;
pub use self::region::CloseError;
use self::region::{Fate, Region, close_dropped};
use self::register::is_bound_to_endpoint;
use crate::buffer::{Buffer, Descriptor};
use crate::domain::{Domain, DomainInner};
use crate::endpoint::{Endpoint, HasAddress, Kept};
use crate::error::OpenError;
use crate::exposed::Window;
use crate::handle::{Handle, Object as _, Plan, Unfilled};
use crate::notes::note;
pub use crate::remote_region::RemoteRegion;
use crate::scope_registry::Node;
use crate::transport::Transport;
use crate::vocabulary::{Access, Errno, MemoryKey, MrMode, RemoteAddr};

/// A registered memory region, and the memory: dropping it closes the region.
///
/// While it is open, this side sees the memory through a [`Window`] only. Peers' operations on it are refused from then on when it
/// is closed. The memory is dropped as soon as no peer can reach it. Over the software transport that is at once. Over libfabric, and over a strict network, an
/// operation that began before goes on, so the domain keeps the memory until none of its endpoints is open, and drops it then. A
/// program that closes regions while endpoints stay open for long, and knows from its protocol when its peers have finished, gets
/// the memory back with [`close_finished`](Self::close_finished).
///
/// Some providers go on looking at a region that is closed in the middle of a peer's operation (libfabric 2's `shm`, `sockets`).
/// There a region that is dropped while endpoints of its domain are open is closed with the last of these, and peers reach
/// the memory, which stays, until then. [`close_finished`](Self::close_finished) closes it at once. A thread that opens an endpoint of the
/// domain meanwhile waits until the last of these regions is closed.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::{Access, Av, Cq, Domain, Forever, Mr};
///
/// let network = Network::new(NetworkAttr::default())?;
/// let domain = Domain::open(&network.info())?;
/// let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// let [owner, writer] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// let to_owner = av.insert(&owner.address()?)?;
/// let region = Mr::open(&domain, vec![0; 64], Access::REMOTE_WRITE)?;
/// let bytes = b"8 bytes.".to_vec();
/// let written = cq.post(bytes, Forever, |bytes| writer.write(to_owner, &region.remote(), 16, bytes))?;
/// cq.finish(written, Forever)?.result()?;
/// let mut bytes = [0; 8];
/// // The write may be there only when the owner has polled, also after it has ended at the writer.
/// while &bytes != b"8 bytes." {
///     cq.progress()?;
///     region.window().copy_to(16, &mut bytes)?;
/// }
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
/// - `man fi_mr`
#[doc(alias = "fid_mr")]
pub struct Mr<'m, T: Transport, M: Buffer + Send, H = ()> {
    pub(super) region: ManuallyDrop<Handle<'m, Region<T, M>>>,
    /// What the region keeps open. Dropped when it is closed, and never if that fails.
    pub(super) hold: ManuallyDrop<H>,
}

// SAFETY: the region is moved to the other thread, with its memory; a region has one handle. The counter that it keeps open may be
// closed by any thread (`Counters::Counter`).
unsafe impl<'m, T: Transport, M: Buffer + Send, H: Send> Send for Mr<'m, T, M, H> where Handle<'m, DomainInner<T>>: Send {}
// SAFETY: shared, it shows the window, which is `Sync`, and the raw region.
unsafe impl<'m, T: Transport<Mr: Sync>, M: Buffer + Send, H: Sync> Sync for Mr<'m, T, M, H> where
    Handle<'m, DomainInner<T>>: Sync
{
}

impl<'m, T: Transport, M: Buffer + Send> Mr<'m, T, M> {
    /// Registers memory for as long as the region is open. What the region itself needs, it takes from `alloc`.
    ///
    /// The memory lives for `'m`, because the region may be forgotten: borrowed memory needs a
    /// [`scope`](crate::scope::scope). `Send`, because the memory is dropped by whichever thread closes the domain's last
    /// endpoint, if that comes after the region.
    ///
    /// # Errors
    /// - [`OpenError::Access`] if the memory is not initialised, or peers may write and it may not be written
    /// - [`OpenError::NeedsEndpoint`] if peers may reach the memory and the domain binds regions to endpoints
    ///   (`FI_MR_ENDPOINT`): [`Mr::open_for_in`] works over every domain, for endpoints that are not scalable
    /// - [`OpenError::DeviceMemory`] if it is a device's, and the info of the domain does not grant `FI_HMEM`
    /// - [`OpenError::NoFence`] in a scope, where the end of that does not end what peers do with the memory: over a provider that
    ///   the tests have not run over, or over libfabric by way of a domain that the scope did not open
    /// - [`OpenError::KeyTaken`] if another region of the domain has the key
    /// - [`OpenError::KeyNotAvailable`] if the provider chooses keys itself, or has none that long
    /// - [`OpenError::OtherDomain`] if the counter belongs to another domain, [`OpenError::Counters`] if there is nothing to
    ///   count because peers may not write, or [`OpenError::Errno`] with `EOPNOTSUPP` if what peers do is not counted
    /// - [`OpenError::OutOfMemory`] if the allocator has no room
    /// - [`OpenError::Errno`] if the provider refuses
    #[doc(alias = "fi_mr_reg")]
    #[doc(alias = "fi_mr_regattr")]
    pub fn open_in<'b, A: Allocator + Send + 'm>(
        domain: &Domain<'m, T>,
        memory: M,
        attr: impl Into<MrAttr<'b, 'm, T>>,
        alloc: A,
    ) -> Result<Self, OpenError>
    where
        M: 'm,
        T: 'b,
        'm: 'b,
    {
        Self::open_held(domain, memory, &attr.into(), alloc, None, ())
    }

    /// [`Mr::open_in`] with the global allocator.
    ///
    /// # Errors
    /// As [`Mr::open_in`].
    #[cfg(feature = "std")]
    pub fn open<'b>(domain: &Domain<'m, T>, memory: M, attr: impl Into<MrAttr<'b, 'm, T>>) -> Result<Self, OpenError>
    where
        M: 'm,
        T: 'b,
        'm: 'b,
    {
        Self::open_in(domain, memory, attr, allocator_api2::alloc::Global)
    }

    /// The memory that a region takes from an allocator of type `A`, in one block: the value that owns the registered memory, and
    /// what closes it.
    ///
    /// # Errors
    /// [`OpenError::Size`] if it is more than an address space holds.
    pub fn layout<A: Allocator>() -> Result<Layout, OpenError> {
        Ok(Plan::of::<Region<T, M>, A>()?.layout())
    }
}

/// A region that peers reach through one endpoint ([`Mr::open_for_in`]). It stays on the endpoint's thread.
///
/// Where the domain binds regions to endpoints, the endpoint is not closed before the region: if it is dropped, or its queue is, it
/// stays open until the region is closed.
pub type EndpointMr<'m, T, M> = Mr<'m, T, M, Kept>;

impl<'m, T: Transport, M: Buffer + Send> EndpointMr<'m, T, M> {
    /// Registers memory that peers reach through one endpoint. Where the domain binds regions to endpoints
    /// (`FI_MR_ENDPOINT`), through no other, and the region is bound and enabled; elsewhere through any.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::error::OpenError;
    /// use loom_core::soft::{Network, NetworkAttr, RequiredModes};
    /// use loom_core::{Access, Av, Cq, Domain, Forever, Mr};
    ///
    /// let network = Network::new(NetworkAttr::default())?;
    /// // As over some hardware: what peers reach belongs to an endpoint.
    /// let domain = Domain::open(&network.info_requiring(RequiredModes::none().endpoint_regions()))?;
    /// let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
    /// assert_eq!(Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE).unwrap_err(), OpenError::NeedsEndpoint);
    /// let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// let to_bob = av.insert(&bob.address()?)?;
    /// // The same over every domain.
    /// let region = Mr::open_for(&domain, &bob, vec![0; 8], Access::REMOTE_WRITE)?;
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
    /// # Errors
    /// As [`Mr::open_in`] but for [`OpenError::NeedsEndpoint`], and [`OpenError::OtherDomain`] if the endpoint belongs to
    /// another domain.
    #[doc(alias = "fi_mr_bind")]
    #[doc(alias = "fi_mr_enable")]
    pub fn open_for_in<'b, B: Buffer, K: HasAddress, A: Allocator + Send + 'm>(
        domain: &Domain<'m, T>,
        endpoint: &Endpoint<'m, T, B, K>,
        memory: M,
        attr: impl Into<MrAttr<'b, 'm, T>>,
        alloc: A,
    ) -> Result<Self, OpenError>
    where
        M: 'm,
        T: 'b,
        'm: 'b,
    {
        let attr = attr.into();
        if !endpoint.cq().domain().is(&domain.body) {
            return Err(OpenError::OtherDomain);
        }
        if !is_bound_to_endpoint(&domain.body, attr.access) {
            return Self::open_held(domain, memory, &attr, alloc, None, Kept::nothing());
        }
        Self::open_held(domain, memory, &attr, alloc, Some(endpoint.raw()), endpoint.keep())
    }

    /// [`Mr::open_for_in`] with the global allocator.
    ///
    /// # Errors
    /// As [`Mr::open_for_in`].
    #[cfg(feature = "std")]
    pub fn open_for<'b, B: Buffer, K: HasAddress>(
        domain: &Domain<'m, T>,
        endpoint: &Endpoint<'m, T, B, K>,
        memory: M,
        attr: impl Into<MrAttr<'b, 'm, T>>,
    ) -> Result<Self, OpenError>
    where
        M: 'm,
        T: 'b,
        'm: 'b,
    {
        Self::open_for_in(domain, endpoint, memory, attr, allocator_api2::alloc::Global)
    }
}

impl<'m, T: Transport, M: Buffer + Send, H> Mr<'m, T, M, H> {
    /// Opens the region. `hold` is what the region keeps open: the endpoint, if it is bound to one.
    fn open_held<A: Allocator + Send + 'm>(
        domain: &Domain<'m, T>,
        memory: M,
        attr: &MrAttr<'_, 'm, T>,
        alloc: A,
        endpoint: Option<&T::Endpoint>,
        hold: H,
    ) -> Result<Self, OpenError>
    where
        M: 'm,
    {
        let Domain { body: domain, scope, .. } = domain;
        let fenced = is_fenced::<T>(attr.access, domain.info().raw());
        // What a scope ends by itself are the endpoints of its own domains.
        if scope.is_some() && !fenced && !(domain.is_of(*scope) && T::quirks(domain.info().raw()).ends_with_queue) {
            return Err(OpenError::NoFence);
        }
        let block = Unfilled::new(Plan::of::<Region<T, M>, A>()?, alloc)?;
        // SAFETY: the region's handle lives for 'm.
        let mut region = block.fill(Region::new(unsafe { domain.for_child() }, memory, fenced));
        // SAFETY: made just now: there is no other handle.
        unsafe { region.as_mut().register(attr, endpoint.is_some()) }?;
        let mr = Mr { region: ManuallyDrop::new(region), hold: ManuallyDrop::new(hold) };
        // SAFETY: a region has a node, there.
        let node = unsafe { mr.region.value_ptr().byte_add(offset_of!(Region<T, M>, node)) }.cast::<Node>();
        // SAFETY: the region stays where it is. The pointer is that of its place.
        unsafe { Node::register(node, *scope) };
        // SAFETY: registered just now; `mr` keeps the endpoint open until the region is closed (C2). After an error it is closed
        // here.
        unsafe { mr.region.enable(attr, endpoint) }?;
        note!(debug, "open", "region of {} bytes is open on {}: {}", mr.region.range.1, **domain, attr.access);
        Ok(mr)
    }
}

/// Whether closing a region with this access ends all use of its memory: by what the transport does, or because no peer
/// can reach it.
fn is_fenced<T: Transport>(access: Access, info: &T::Info) -> bool {
    T::MR_CLOSE_FENCES && T::quirks(info).mr_close || !is_remote(access)
}

impl<T: Transport, M: Buffer + Send, H> Mr<'_, T, M, H> {
    /// This side's view of the memory. Of a device's memory it is empty: the host reaches that by the device's own means.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::{Access, Av, Cq, Domain, Forever, Mr};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// let region = Mr::open(&domain, vec![0; 64], Access::REMOTE_WRITE)?;
    /// let written = cq.post(vec![7; 4], Forever, |bytes| alice.write(to_bob, &region.remote(), 8, bytes))?;
    /// cq.finish(written, Forever)?.result()?;
    /// // Peers may write at any time, so a program copies what it reads.
    /// let mut bytes = [0; 4];
    /// while bytes != [7; 4] {
    ///     cq.progress()?;
    ///     region.window().copy_to(8, &mut bytes)?;
    /// }
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn window(&self) -> Window<'_> {
        self.region.window
    }

    /// What a peer needs to reach the memory.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::{Access, Av, Cq, Domain, Forever, Mr, RemoteRegion, Source};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// let region = Mr::open(&domain, vec![7; 64], Access::REMOTE_READ)?;
    /// // Bob tells his region in a message, and alice reads it.
    /// let told = alice.recv(Source::Any, vec![0; RemoteRegion::WIRE_LEN])?;
    /// let to_alice = av.insert(&alice.address()?)?;
    /// cq.post(region.remote().to_bytes().to_vec(), Forever, |message| bob.send(to_alice, message))?;
    /// let bytes = cq.finish(told, Forever)?.into_buf();
    /// let remote = RemoteRegion::from_bytes(bytes.as_slice().try_into().expect("32 bytes"));
    /// let read = cq.post(vec![0; 64], Forever, |room| alice.read(to_bob, &remote, 0, room))?;
    /// assert_eq!(cq.finish(read, Forever)?.into_buf(), [7; 64]);
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn remote(&self) -> RemoteRegion {
        let (start, len) = self.region.range;
        let mode = self.region.domain.attributes().domain.mr_mode;
        let base = if mode.intersects(MrMode::VIRT_ADDR | MrMode::BASIC) { start } else { 0 };
        RemoteRegion::new(RemoteAddr(base), len, self.key(), self.region.access & REMOTE)
    }

    /// The raw handle, for calls that loom does not wrap.
    #[must_use]
    pub fn raw(&self) -> &T::Mr {
        self.region.raw()
    }

    /// The region's key.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::vocabulary::RemoteAddr;
    /// use loom_core::{Access, Domain, Mr, RemoteRegion};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// let region = Mr::open(&domain, vec![0; 64], Access::REMOTE_READ)?;
    /// // A peer gets these, and makes the region that it reads from of them.
    /// let remote = region.remote();
    /// let (RemoteAddr(base), len, key, access) = (remote.base(), remote.len(), region.key(), remote.access());
    /// assert_eq!(RemoteRegion::new(RemoteAddr(base), len, key, access), remote);
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "fi_mr_key")]
    #[must_use]
    pub fn key(&self) -> MemoryKey {
        T::mr_key(self.raw())
    }

    /// The region's local descriptor.
    #[doc(alias = "fi_mr_desc")]
    #[must_use]
    pub fn descriptor(&self) -> Descriptor {
        Descriptor { raw: T::mr_descriptor(self.raw()), domain: self.region.domain.identity() }
    }

    /// Tells the provider that other pages may lie behind a range of the memory than before, where it wants to be told
    /// (`FI_MR_MMU_NOTIFY`); elsewhere there is nothing to do. Meanwhile peers' operations on the region may fail.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::{Access, Domain, Errno, Mr};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// let region = Mr::open(&domain, vec![0; 8192], Access::REMOTE_READ)?;
    /// // After the program has moved the pages of the second half.
    /// region.refresh(4096, 4096)?;
    /// assert_eq!(region.refresh(4096, 4097), Err(Errno::EINVAL), "the range ends behind the region");
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// `EINVAL` if the range does not lie within the region, or what the provider says.
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
        // SAFETY: the region is open (C1), and the range lies within it.
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
            // SAFETY: as above. Otherwise a list of the domain has it.
            unsafe { ManuallyDrop::drop(region) };
        }
    }
}

/// Access of peers.
const REMOTE: Access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);

/// Whether peers reach a region with this access.
const fn is_remote(access: Access) -> bool {
    access.intersects(REMOTE)
}

impl<T: Transport, M: Buffer + Send, H> fmt::Debug for Mr<'_, T, M, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mr").field("len", &self.region.range.1).field("key", &self.key()).finish_non_exhaustive()
    }
}
