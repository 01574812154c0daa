//! [`RegionSlab`]: buffers of one size in a region that peers reach.

#![allow(unsafe_code, reason = "cuts up memory that peers reach")]

use core::fmt;
use core::mem::transmute;

use allocator_api2::alloc::Allocator;
use loom_core::buffer::{Buffer, Descriptor, Lent};
use loom_core::domain::Domain;
use loom_core::error::{OpenError, Rejected};
use loom_core::exposed::Window;
use loom_core::mr::{Mr, RemoteRegion};
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, MemoryKey};

use super::attr::SlabAttr;
use super::buffers::{Buffers, Exposed};
use super::lease::Lease;
use super::parts::NotJoined;
use super::zeroed::Zeroed;
use crate::sharing::{Owner, Shared, Sharing};

/// Buffers of one size in one region that peers reach: [`ExposedSlab`] and [`SharedExposedSlab`].
///
/// Peers are told the [`RemoteRegion`] of a buffer and read and write it when they like, so that this side sees a buffer through
/// its [`Window`] only; see [`ExposedLease`].
///
/// The slab owns the region. When it is dropped, the region is closed, and its memory stays for as long as peers may reach it
/// ([`Mr`]). That it stays open while leases are out, their borrow of the slab ensures.
#[doc(alias = "fi_mr_reg")]
pub struct RegionSlab<'d, T: Transport, M, A, L: Sharing, H = ()>
where
    M: Buffer + Send,
    A: Allocator,
{
    buffers: Buffers<L>,
    /// Of what is free; taken last, so that it is given back first.
    _table: Zeroed<A>,
    region: Mr<'d, T, M, H>,
}

/// A slab that peers reach, whose leases stay on this side's thread.
///
/// ```
/// use loom_alloc::registered::{ExposedSlab, SlabAttr};
/// use loom_alloc::allocator_api2::alloc::Global;
/// use loom_core::{av::Av, cq::{Cq, CqAttr}, deadline::Forever, domain::Domain};
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::vocabulary::Access;
///
/// let network = Network::new(NetworkAttr::default())?;
/// let domain = Domain::open(&network.info())?;
/// let slab = ExposedSlab::open_in(&domain, SlabAttr::new(4, 64), Access::REMOTE_WRITE, Global)?;
/// let av = Av::open(&domain, 2)?;
/// let cq = Cq::<_, &[u8]>::open(&domain, CqAttr::new(16))?;
/// let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// let to_bob = av.insert(&bob.address()?)?;
/// let mailbox = slab.lease().ok_or("none left")?;
/// // What bob tells alice about his mailbox.
/// let wire = mailbox.remote().to_bytes();
/// let remote = loom_core::mr::RemoteRegion::from_bytes(&wire);
/// cq.retry(Forever, || alice.inject_write(to_bob, &remote, 0, b"hello"))?;
/// let mut hello = [0; 5];
/// while &hello != b"hello" {
///     // The bytes arrive while both sides poll.
///     cq.progress()?;
///     mailbox.window().copy_to(0, &mut hello)?;
/// }
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
pub type ExposedSlab<'d, T, M, A, H = ()> = RegionSlab<'d, T, M, A, Owner, H>;

/// A slab that peers reach, and that threads of this side share.
pub type SharedExposedSlab<'d, T, M, A, H = ()> = RegionSlab<'d, T, M, A, Shared, H>;

/// What a region has to allow for leases of it to be posted.
const POSTED: Access = Access::SEND.union(Access::RECV).union(Access::READ).union(Access::WRITE);

impl<'d, T, A, L> RegionSlab<'d, T, Zeroed<A>, A, L>
where
    T: Transport,
    A: Allocator + Clone + Send + 'd,
    L: Sharing,
{
    /// Takes memory from an allocator, and lets peers reach it as the access says. The buffers have zeros in them at first, and can be
    /// posted ([`ExposedLease::into_lease`]).
    ///
    /// # Errors
    /// As [`Mr::open_in`], and [`OpenError::Size`] if the attributes are out of range.
    pub fn open_in(domain: &Domain<'d, T>, attr: SlabAttr, access: Access, alloc: A) -> Result<Self, OpenError> {
        let memory = Zeroed::new_in(attr.memory()?, alloc.clone())?;
        let region = Mr::open_in(domain, memory, access | POSTED, alloc.clone())?;
        Self::over(region, attr, alloc).map_err(|refused| refused.error)
    }
}

impl<'d, T, M, A, L, H> RegionSlab<'d, T, M, A, L, H>
where
    T: Transport,
    M: Buffer + Send,
    A: Allocator,
    L: Sharing,
{
    /// Cuts a region up that was opened in any way: with a key of one's own, or for an endpoint, where the domain binds regions to these. It
    /// may begin anywhere; up to `attr.align - 1` bytes of it are left out. Its leases are posted for what its access says besides that of
    /// peers: [`Access::SEND`], [`Access::RECV`], [`Access::READ`] or [`Access::WRITE`], where the provider looks at that.
    ///
    /// # Errors
    /// The region comes back.
    /// - [`OpenError::Access`] if its memory may not be written, or is a device's
    /// - [`OpenError::Size`] if the attributes are out of range, or it is too short for them
    /// - [`OpenError::OutOfMemory`] if the allocator has no room for the slab's [table](SlabAttr::table)
    pub fn over(
        region: Mr<'d, T, M, H>,
        attr: SlabAttr,
        alloc: A,
    ) -> Result<Self, Rejected<Mr<'d, T, M, H>, OpenError>> {
        let opened = Self::cut(&region, &attr, alloc);
        match opened {
            Ok((buffers, table)) => Ok(RegionSlab { buffers, region, _table: table }),
            Err(error) => Err(Rejected { buf: region, error }),
        }
    }

    fn cut(region: &Mr<'d, T, M, H>, attr: &SlabAttr, alloc: A) -> Result<(Buffers<L>, Zeroed<A>), OpenError> {
        let window = region.window();
        // Of a device's memory there is no window.
        if window.is_empty() || !window.is_writable() {
            return Err(OpenError::Access);
        }
        let table = Zeroed::new_in(attr.table()?, alloc)?;
        let first = core::ptr::NonNull::new(window.as_ptr()).ok_or(OpenError::Size)?;
        let lent = Lent::both(first, window.len());
        // SAFETY: the slab keeps the region open, and is borrowed by all leases. The window is used under these borrows.
        let window = unsafe { transmute::<Window<'_>, Window<'static>>(window) };
        // SAFETY: the slab owns the region, and with it the memory, and the table; this is the only window of it on this side:
        // those borrow the region.
        let buffers = unsafe { Buffers::new(&lent, region.descriptor(), attr, table.ptr()) }?;
        // SAFETY: as above.
        let buffers = unsafe { buffers.exposed_as(window, region.remote()) }?;
        Ok((buffers, table))
    }

    /// A buffer, with whatever is in it; `None` if all are out.
    #[inline]
    pub fn lease(&self) -> Option<ExposedLease<'_, L>> {
        let number = self.buffers.take()?;
        // SAFETY: given just now.
        Some(ExposedLease(unsafe { Lease::whole(&self.buffers, number) }))
    }

    /// How many buffers there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.buffers.count as usize
    }

    /// Bytes of each buffer.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.buffers.size as usize
    }

    /// The region, to be closed: peers may still reach it.
    pub fn into_region(self) -> Mr<'d, T, M, H> {
        self.region
    }
}

/// A buffer of a slab that peers reach, or a part of one.
///
/// # Why it cannot be posted
///
/// A posted buffer is lent under a promise (that of [`Buffer`]): only the operation touches it meanwhile. Nothing on this side can make that promise
/// for peers, who have been told the key and write when they like. If both happened at once, what arrives in one message could be a mixture
/// of two; and a provider that copies out of it, and every `&[u8]` to it, would have a data race.
/// So this side sees the lease through its [`window`](Self::window), whose rule takes peers into account, and what is to be sent out of
/// it is copied; or the program's protocol keeps peers away, and says so: [`into_lease`](Self::into_lease).
///
/// ```compile_fail,E0277
/// use loom_alloc::registered::ExposedLease;
/// fn posts<B: loom_core::buffer::Buffer>(_: B) {}
/// fn case(lease: ExposedLease<'_>) {
///     posts(lease);
/// }
/// ```
///
/// ```
/// use loom_alloc::registered::Lease;
/// fn posts<B: loom_core::buffer::Buffer>(_: B) {}
/// fn case(lease: Lease<'_>) {
///     posts(lease);
/// }
/// ```
#[must_use = "the buffer goes back to the slab when the lease is dropped"]
pub struct ExposedLease<'s, L: Sharing = Owner>(Lease<'s, L>);

impl<'s, L: Sharing> ExposedLease<'s, L> {
    fn exposed(&self) -> Exposed {
        self.0.exposed().unwrap_or_else(|| unreachable!("the slab is one that peers reach"))
    }

    /// This side's view of the buffer.
    #[must_use]
    pub fn window(&self) -> Window<'_> {
        self.exposed().window
    }

    /// What a peer needs to reach the buffer, from its first byte on: to be told to it. It goes on reaching it when the lease is dropped.
    #[must_use]
    pub fn remote(&self) -> RemoteRegion {
        self.exposed().remote
    }

    /// The key of the slab's region.
    #[doc(alias = "fi_mr_key")]
    #[must_use]
    pub fn key(&self) -> MemoryKey {
        self.remote().key()
    }

    /// The local descriptor of the slab's region.
    #[doc(alias = "fi_mr_desc")]
    #[must_use]
    pub const fn descriptor(&self) -> Descriptor {
        self.0.descriptor()
    }

    /// How long it is.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Makes two of one, as [`Lease::split`].
    ///
    /// # Errors
    /// The lease comes back if one of the two would have no bytes.
    pub fn split(self, at: usize) -> Result<(Self, Self), Self> {
        let (first, second) = self.0.split(at).map_err(ExposedLease)?;
        Ok((ExposedLease(first), ExposedLease(second)))
    }

    /// Makes one of two neighbours, as [`Lease::rejoin`].
    ///
    /// # Errors
    /// Both come back if they are none.
    pub fn rejoin(self, other: Self) -> Result<Self, NotJoined<Self>> {
        let not_joined =
            |NotJoined { lease, other }| NotJoined { lease: ExposedLease(lease), other: ExposedLease(other) };
        self.0.rejoin(other.0).map(ExposedLease).map_err(not_joined)
    }

    /// The same bytes as a lease to post and to look at, all of which are data, with the remote region at hand ([`Lease::remote`]).
    /// [`expose`](Lease::expose) turns it back.
    ///
    /// # Safety
    /// No peer writes to these bytes before all that becomes of the lease has been dropped or exposed again; nor reads them, if they are
    /// received into, read into or changed. The program's protocol says so: for example, peers write to a mailbox once, when asked, and
    /// their write has been reported.
    pub unsafe fn into_lease(self) -> Lease<'s, L> {
        let mut lease = self.0;
        lease.fill();
        lease
    }
}

impl<'s, L: Sharing> Lease<'s, L> {
    /// A lease whose bytes peers may reach again, if it is one of a slab that they reach.
    ///
    /// # Errors
    /// The lease comes back if it is not.
    pub fn expose(mut self) -> Result<ExposedLease<'s, L>, Self> {
        if self.exposed().is_none() {
            return Err(self);
        }
        // What was data is of no meaning where peers write, and does not keep parts from being joined.
        self.clear();
        Ok(ExposedLease(self))
    }
}

impl<L: Sharing> fmt::Debug for ExposedLease<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExposedLease").field("capacity", &self.capacity()).finish_non_exhaustive()
    }
}

impl<T, M, A, L, H> fmt::Debug for RegionSlab<'_, T, M, A, L, H>
where
    T: Transport,
    M: Buffer + Send,
    A: Allocator,
    L: Sharing,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegionSlab").field("count", &self.count()).field("size", &self.size()).finish_non_exhaustive()
    }
}
