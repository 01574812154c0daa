//! [`RegisteredSlab`]: buffers of one size in one registered region.

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

/// Buffers of one size in one region that is registered for local use: [`Slab`] and [`SharedSlab`].
///
/// Taking a buffer and giving it back is a handful of instructions, and neither allocates nor locks; registering was done once, for all. Each
/// [`Lease`] borrows the slab, which therefore stays until the last one has ended, also those that are posted.
///
/// The memory comes from an allocator ([`open_in`](Self::open_in)), or is any registered buffer of the host that is initialised and may be
/// written ([`over`](Self::over)). Besides, the slab takes [`SlabAttr::table`] from its allocator, and nothing after it was opened.
#[doc(alias = "fi_mr_reg")]
pub struct RegisteredSlab<'d, T: Transport, M: Buffer, A: Allocator, L: Sharing> {
    buffers: Buffers<L>,
    /// Not used while leases are out, but moved with the slab: what they point to is only borrowed from it then.
    memory: MaybeUninit<Registered<'d, T, M>>,
    /// Of what is free; taken last, so that it is given back first.
    table: ManuallyDrop<Zeroed<A>>,
}

/// A slab whose leases stay on its thread.
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

/// A slab that threads share, and whose leases go from thread to thread.
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

// SAFETY: it owns its memory, and while leases are out it is borrowed and not moved.
unsafe impl<'d, T: Transport, M: Buffer, A: Allocator + Send, L: Sharing + Send> Send for RegisteredSlab<'d, T, M, A, L> where
    Registered<'d, T, M>: Send
{
}
// SAFETY: a shared reference gives leases, which the list shares out among threads, and numbers. Nothing else of the slab is used before
// it is dropped. What its memory has lent, transports too use on whichever thread they like.
unsafe impl<T: Transport, M: Buffer, A: Allocator, L: Sharing + Sync> Sync for RegisteredSlab<'_, T, M, A, L> {}

impl<'d, T: Transport, A: Allocator + Clone, L: Sharing> RegisteredSlab<'d, T, Zeroed<A>, A, L> {
    /// Takes memory from an allocator, and registers it. The buffers have zeros in them at first.
    ///
    /// # Errors
    /// - [`OpenError::Size`] if the attributes are out of range
    /// - [`OpenError::OutOfMemory`] if the allocator has no room
    /// - [`OpenError::Errno`] if the provider refuses
    pub fn open_in(domain: &Domain<'d, T>, attr: SlabAttr, alloc: A) -> Result<Self, OpenError> {
        let memory = Zeroed::new_in(attr.memory()?, alloc.clone())?;
        let memory = Registered::new(domain, memory).map_err(|refused| refused.error)?;
        Self::over(memory, attr, alloc).map_err(|refused| refused.error)
    }
}

impl<'d, T: Transport, M: Buffer, A: Allocator, L: Sharing> RegisteredSlab<'d, T, M, A, L> {
    /// Cuts registered memory up: the host's, initialised, and such that it may be written. It may begin anywhere; up to
    /// `attr.align - 1` bytes of it are left out.
    ///
    /// # Errors
    /// The memory comes back.
    /// - [`OpenError::Access`] if it is not initialised, may not be written, or is a device's ([`DeviceSlab`](super::DeviceSlab))
    /// - [`OpenError::Size`] if the attributes are out of range, or it is too short for them
    /// - [`OpenError::OutOfMemory`] if the allocator has no room for the slab's [table](SlabAttr::table)
    pub fn over(
        memory: Registered<'d, T, M>,
        attr: SlabAttr,
        alloc: A,
    ) -> Result<Self, Rejected<Registered<'d, T, M>, OpenError>> {
        Self::over_memory_of(|kind| kind == HmemIface::SYSTEM, memory, attr, alloc)
    }

    /// As [`over`](Self::over), if the memory is of the kind that is wanted.
    pub(super) fn over_memory_of(
        wanted: impl FnOnce(HmemIface) -> bool,
        memory: Registered<'d, T, M>,
        attr: SlabAttr,
        alloc: A,
    ) -> Result<Self, Rejected<Registered<'d, T, M>, OpenError>> {
        let table = match attr.table().and_then(|layout| Zeroed::new_in(layout, alloc)) {
            Ok(table) => table,
            Err(error) => return Err(Rejected { buf: memory, error }),
        };
        let descriptor = memory.descriptor();
        let mut memory = MaybeUninit::new(memory);
        // SAFETY: written above.
        let lent: Lent = unsafe { memory.assume_init_mut() }.lend();
        let buffers = if wanted(lent.kind()) {
            // SAFETY: the slab owns both, and does not use them but to drop them, or to give them back, after the last lease has
            // ended; these borrow it.
            unsafe { Buffers::new(&lent, descriptor, &attr, table.ptr()) }
        } else {
            Err(OpenError::Access)
        };
        match buffers {
            Ok(buffers) => Ok(RegisteredSlab { buffers, memory, table: ManuallyDrop::new(table) }),
            // SAFETY: as above.
            Err(error) => Err(Rejected { buf: unsafe { memory.assume_init() }, error }),
        }
    }

    /// A buffer without data; `None` if all are out.
    #[inline]
    pub fn lease(&self) -> Option<Lease<'_, L>> {
        let number = self.buffers.take()?;
        // SAFETY: given just now.
        Some(unsafe { Lease::whole(&self.buffers, number) })
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

    /// The local descriptor of the region.
    #[doc(alias = "fi_mr_desc")]
    #[must_use]
    pub const fn descriptor(&self) -> Descriptor {
        self.buffers.descriptor
    }

    /// The registered memory, with whatever is in it.
    #[must_use]
    pub fn into_memory(self) -> Registered<'d, T, M> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: dropped once: this value ends here.
        unsafe { ManuallyDrop::drop(&mut this.table) };
        // SAFETY: written when it was opened, and taken once, here.
        unsafe { this.memory.assume_init_read() }
    }
}

impl<T: Transport, M: Buffer, A: Allocator, L: Sharing> Drop for RegisteredSlab<'_, T, M, A, L> {
    fn drop(&mut self) {
        // SAFETY: dropped once, here.
        unsafe { ManuallyDrop::drop(&mut self.table) };
        // SAFETY: written when it was opened, and dropped once, here.
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
