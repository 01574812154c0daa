#![allow(unsafe_code, reason = "keeps memory in its place while leases are out")]

use core::fmt;
use core::mem::{ManuallyDrop, MaybeUninit};

use allocator_api2::alloc::Allocator;
use loom_core::buffer::{Buffer, Descriptor, Lent};
use loom_core::domain::Domain;
use loom_core::error::{OpenError, Rejected};
use loom_core::registered::Registered;
use loom_core::transport::Transport;
use loom_core::vocabulary::HmemIface;

use super::attr::SlabAttr;
use super::buffers::Buffers;
use super::lease::Lease;
use super::zeroed::Zeroed;
use crate::sharing::{Owner, Shared, Sharing};

/// Buffers of one size in one region registered for local use: [`Slab`] and [`SharedSlab`].
///
/// Taking and returning a buffer takes a few instructions.
#[doc(alias = "fi_mr_reg")]
pub struct RegisteredSlab<'d, T: Transport, M: Buffer, A: Allocator, L: Sharing> {
    buffers: Buffers<L>,
    /// Moved with the slab while leases exist, and otherwise not used: leases point into it.
    memory: MaybeUninit<Registered<'d, T, M>>,
    /// Freed after the memory.
    table: ManuallyDrop<Zeroed<A>>,
}

/// Slab with leases on one thread.
///
/// ```
/// use loom_alloc::registered::{Slab, SlabAttr};
/// use loom_alloc::allocator_api2::alloc::Global;
/// use loom_core::domain::Domain;
/// use loom_core::soft::{Network, NetworkAttr};
///
/// let network = Network::new(NetworkAttr::default())?;
/// let domain = Domain::open(&network.info())?;
/// let slab = Slab::open_in(&domain, SlabAttr::new(2, 4096), Global)?;
/// let (one, two) = (slab.lease().unwrap(), slab.lease().unwrap());
/// assert!(slab.lease().is_none());
/// drop(one);
/// assert!(slab.lease().is_some());
/// # drop(two);
/// # Ok::<_, loom_core::error::OpenError>(())
/// ```
pub type Slab<'d, T, M, A> = RegisteredSlab<'d, T, M, A, Owner>;

/// Slab shared by threads, with leases that may change threads.
///
/// ```
/// use loom_alloc::registered::{SharedSlab, SlabAttr};
/// use loom_alloc::allocator_api2::alloc::Global;
/// use loom_core::domain::Domain;
/// use loom_core::soft::{Network, NetworkAttr};
///
/// let network = Network::new(NetworkAttr::default())?;
/// let domain = Domain::open(&network.info())?;
/// let slab = SharedSlab::open_in(&domain, SlabAttr::new(8, 4096), Global)?;
/// std::thread::scope(|scope| {
///     let mut lease = slab.lease().unwrap();
///     scope.spawn(move || lease.append(b"from another thread").unwrap());
///     scope.spawn(|| drop(slab.lease()));
/// });
/// # Ok::<_, loom_core::error::OpenError>(())
/// ```
pub type SharedSlab<'d, T, M, A> = RegisteredSlab<'d, T, M, A, Shared>;

// SAFETY: the slab owns its memory and does not move while leases borrow it.
unsafe impl<'d, T: Transport, M: Buffer, A: Allocator + Send, L: Sharing + Send> Send for RegisteredSlab<'d, T, M, A, L> where
    Registered<'d, T, M>: Send
{
}
// SAFETY: a shared reference gives numbers, and leases that the list distributes. The rest is not
// used before drop. Transports may use lent memory on any thread.
unsafe impl<T: Transport, M: Buffer, A: Allocator, L: Sharing + Sync> Sync for RegisteredSlab<'_, T, M, A, L> {}

impl<'d, T: Transport, A: Allocator + Clone, L: Sharing> RegisteredSlab<'d, T, Zeroed<A>, A, L> {
    /// Allocates zeroed memory and registers it.
    ///
    /// # Errors
    /// [`OpenError::Size`] if the attributes are out of range, [`OpenError::OutOfMemory`], or the
    /// provider's refusal.
    pub fn open_in(domain: &Domain<'d, T>, attr: SlabAttr, alloc: A) -> Result<Self, OpenError> {
        let memory = Zeroed::new_in(attr.memory()?, alloc.clone())?;
        let memory = Registered::new(domain, memory).map_err(|refused| refused.error)?;
        Self::over(memory, attr, alloc).map_err(|refused| refused.error)
    }
}

impl<'d, T: Transport, M: Buffer, A: Allocator, L: Sharing> RegisteredSlab<'d, T, M, A, L> {
    /// Cuts up registered host memory. Skips up to `attr.align - 1` bytes.
    ///
    /// # Errors
    /// The memory is returned.
    /// - [`OpenError::Access`] if it is uninitialised, read-only or device memory
    ///   ([`DeviceSlab`](super::DeviceSlab))
    /// - [`OpenError::Size`] if an attribute is out of range or the memory too short
    /// - [`OpenError::OutOfMemory`] for the slab's [table](SlabAttr::table)
    pub fn over(
        memory: Registered<'d, T, M>,
        attr: SlabAttr,
        alloc: A,
    ) -> Result<Self, Rejected<Registered<'d, T, M>, OpenError>> {
        Self::over_memory_of(|kind| kind == HmemIface::SYSTEM, memory, attr, alloc)
    }

    pub(super) fn over_memory_of(
        wanted: impl FnOnce(HmemIface) -> bool,
        memory: Registered<'d, T, M>,
        attr: SlabAttr,
        alloc: A,
    ) -> Result<Self, Rejected<Registered<'d, T, M>, OpenError>> {
        let table = match attr.table().and_then(|layout| Zeroed::new_in(layout, alloc)) {
            Ok(table) => table,
            Err(error) => return Err(Rejected { value: memory, error }),
        };
        let descriptor = memory.descriptor();
        let mut memory = MaybeUninit::new(memory);
        // SAFETY: initialised above.
        let lent: Lent = unsafe { memory.assume_init_mut() }.lend();
        let buffers = if wanted(lent.kind) {
            // SAFETY: the slab owns both, and drops or returns them after the last lease, which
            // borrows it.
            unsafe { Buffers::new(&lent, descriptor, &attr, table.ptr()) }
        } else {
            Err(OpenError::Access)
        };
        match buffers {
            Ok(buffers) => Ok(RegisteredSlab { buffers, memory, table: ManuallyDrop::new(table) }),
            // SAFETY: initialised above.
            Err(error) => Err(Rejected { value: unsafe { memory.assume_init() }, error }),
        }
    }

    /// Takes a buffer without data, if one is free.
    #[inline]
    pub fn lease(&self) -> Option<Lease<'_, L>> {
        let number = self.buffers.take()?;
        // SAFETY: the list handed out the number just now.
        Some(unsafe { Lease::whole(&self.buffers, number) })
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

    /// Local descriptor of the region.
    #[doc(alias = "fi_mr_desc")]
    #[must_use]
    pub const fn descriptor(&self) -> Descriptor {
        self.buffers.descriptor
    }

    /// Returns the registered memory, with unspecified contents.
    #[must_use]
    pub fn into_memory(self) -> Registered<'d, T, M> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: dropped once, because `this` is `ManuallyDrop`.
        unsafe { ManuallyDrop::drop(&mut this.table) };
        // SAFETY: initialised when opened, and moved out once.
        unsafe { this.memory.assume_init_read() }
    }
}

impl<T: Transport, M: Buffer, A: Allocator, L: Sharing> Drop for RegisteredSlab<'_, T, M, A, L> {
    fn drop(&mut self) {
        // SAFETY: dropped once, here.
        unsafe { ManuallyDrop::drop(&mut self.table) };
        // SAFETY: initialised when opened, and dropped once.
        unsafe { self.memory.assume_init_drop() };
    }
}

impl<T: Transport, M: Buffer, A: Allocator, L: Sharing> fmt::Debug for RegisteredSlab<'_, T, M, A, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisteredSlab")
            .field("count", &self.count())
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}
