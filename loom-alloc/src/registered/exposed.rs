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

/// Buffers of one size in one exposed memory region: [`ExposedSlab`] and [`SharedExposedSlab`].
///
/// A peer with the [`RemoteRegion`] of a buffer accesses it at any time, so this side uses its
/// [`Window`] only. Dropping the slab closes the region. The memory stays as long as peers may
/// reach it ([`Mr`]).
#[doc(alias = "fi_mr_reg")]
pub struct RegionSlab<'d, T: Transport, M, A, L: Sharing, H = ()>
where
    M: Buffer + Send,
    A: Allocator,
{
    buffers: Buffers<L>,
    /// Allocated last, freed first.
    _table: Zeroed<A>,
    region: Mr<'d, T, M, H>,
}

/// Exposed slab with leases on one thread.
///
/// ```
/// use loom_alloc::registered::{ExposedSlab, SlabAttr};
/// use loom_alloc::allocator_api2::alloc::Global;
/// use loom_core::mr::RemoteRegion;
/// use loom_core::{Access, Forever};
/// # use loom_core::{Av, Cq, Domain};
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// # let cq: Cq<'_, _, &[u8]> = cq;
///
/// let slab = ExposedSlab::open_in(&domain, SlabAttr::new(4, 64), Access::REMOTE_WRITE, Global)?;
/// let mailbox = slab.lease().ok_or("no free buffer")?;
/// // Bob sends these bytes to Alice.
/// let wire = mailbox.remote().to_bytes();
/// let remote = RemoteRegion::from_bytes(&wire);
/// cq.retry(Forever, || alice.inject_write(to_bob, &remote, 0, b"hello"))?;
/// let mut hello = [0; 5];
/// while &hello != b"hello" {
///     cq.progress()?;
///     mailbox.window().copy_to(0, &mut hello)?;
/// }
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
pub type ExposedSlab<'d, T, M, A, H = ()> = RegionSlab<'d, T, M, A, Owner, H>;

/// Exposed slab shared by threads.
pub type SharedExposedSlab<'d, T, M, A, H = ()> = RegionSlab<'d, T, M, A, Shared, H>;

const POSTED: Access = Access::SEND.union(Access::RECV).union(Access::READ).union(Access::WRITE);

impl<'d, T, A, L> RegionSlab<'d, T, Zeroed<A>, A, L>
where
    T: Transport,
    A: Allocator + Clone + Send + 'd,
    L: Sharing,
{
    /// Allocates zeroed memory and exposes it with the given access.
    ///
    /// # Errors
    /// Errors of [`Mr::open_in`], and [`OpenError::Size`] if an attribute is out of range.
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
    /// Cuts up an open region. Skips up to `attr.align - 1` bytes. Some providers check that the
    /// region has [`Access::SEND`], [`Access::RECV`], [`Access::READ`] or [`Access::WRITE`] for a
    /// posted lease.
    ///
    /// # Errors
    /// The region is returned.
    /// - [`OpenError::Access`] if its memory is read-only or device memory
    /// - [`OpenError::Size`] if an attribute is out of range or the region too short
    /// - [`OpenError::OutOfMemory`] for the slab's [table](SlabAttr::table)
    pub fn over(
        region: Mr<'d, T, M, H>,
        attr: SlabAttr,
        alloc: A,
    ) -> Result<Self, Rejected<Mr<'d, T, M, H>, OpenError>> {
        let opened = Self::cut(&region, &attr, alloc);
        match opened {
            Ok((buffers, table)) => Ok(RegionSlab { buffers, region, _table: table }),
            Err(error) => Err(Rejected { value: region, error }),
        }
    }

    fn cut(region: &Mr<'d, T, M, H>, attr: &SlabAttr, alloc: A) -> Result<(Buffers<L>, Zeroed<A>), OpenError> {
        let window = region.window();
        if window.len() == 0 || !window.is_writable() {
            return Err(OpenError::Access);
        }
        let table = Zeroed::new_in(attr.table()?, alloc)?;
        let first = core::ptr::NonNull::new(window.as_ptr()).ok_or(OpenError::Size)?;
        let lent = Lent::both(first, window.len());
        // SAFETY: the slab keeps the region open. The window is used under borrows of the slab.
        let window = unsafe { transmute::<Window<'_>, Window<'static>>(window) };
        // SAFETY: the slab owns table and region, and so the memory. Other windows would borrow the
        // region.
        let buffers = unsafe { Buffers::new(&lent, region.descriptor(), attr, table.ptr()) }?;
        // SAFETY: the slab keeps the region open, so the window is valid.
        let buffers = unsafe { buffers.exposed_as(window, region.remote()) }?;
        Ok((buffers, table))
    }

    /// Takes a buffer with unspecified contents, if one is free.
    #[inline]
    pub fn lease(&self) -> Option<ExposedLease<'_, L>> {
        let number = self.buffers.take()?;
        // SAFETY: the list handed out the number just now.
        Some(ExposedLease(unsafe { Lease::whole(&self.buffers, number) }))
    }

    /// Number of buffers.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.buffers.count as usize
    }

    /// Bytes of each buffer.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.buffers.size as usize
    }

    /// Returns the region, which peers may still reach.
    pub fn into_region(self) -> Mr<'d, T, M, H> {
        self.region
    }
}

/// Buffer of an exposed slab, or a part of one.
///
/// # Posting
/// This side copies data to send out of the [`window`](Self::window).
/// [`into_lease`](Self::into_lease) makes it postable if the program keeps peers away.
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

    /// Local view of the buffer.
    #[must_use]
    pub fn window(&self) -> Window<'_> {
        self.exposed().window
    }

    /// Remote region of the buffer, which outlives the lease.
    #[must_use]
    pub fn remote(&self) -> RemoteRegion {
        self.exposed().remote
    }

    /// Key of the region.
    #[doc(alias = "fi_mr_key")]
    #[must_use]
    pub fn key(&self) -> MemoryKey {
        self.remote().key
    }

    /// Local descriptor of the region.
    #[doc(alias = "fi_mr_desc")]
    #[must_use]
    pub const fn descriptor(&self) -> Descriptor {
        self.0.descriptor()
    }

    /// Length in bytes.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Splits the lease, with the errors of [`Lease::split`].
    pub fn split(self, at: usize) -> Result<(Self, Self), Self> {
        let (first, second) = self.0.split(at).map_err(ExposedLease)?;
        Ok((ExposedLease(first), ExposedLease(second)))
    }

    /// Joins two neighbours, with the errors of [`Lease::rejoin`].
    pub fn rejoin(self, other: Self) -> Result<Self, NotJoined<Self>> {
        let not_joined =
            |NotJoined { lease, other }| NotJoined { lease: ExposedLease(lease), other: ExposedLease(other) };
        self.0.rejoin(other.0).map(ExposedLease).map_err(not_joined)
    }

    /// Converts into a postable lease with all bytes as data. [`expose`](Lease::expose) converts
    /// back.
    ///
    /// # Safety
    /// Until every lease made from this one is dropped or exposed, no peer writes to the bytes. No
    /// peer reads them if they are changed or received or read into. The program's protocol
    /// guarantees that.
    pub unsafe fn into_lease(self) -> Lease<'s, L> {
        let mut lease = self.0;
        lease.fill();
        lease
    }
}

impl<'s, L: Sharing> Lease<'s, L> {
    /// Exposes the bytes to peers again.
    ///
    /// # Errors
    /// The lease is returned if the slab is not exposed.
    pub fn expose(mut self) -> Result<ExposedLease<'s, L>, Self> {
        if self.exposed().is_none() {
            return Err(self);
        }
        // Data would prevent joining.
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
