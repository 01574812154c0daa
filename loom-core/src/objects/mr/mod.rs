//! [`Mr`]: memory that peers may reach, and [`RemoteRegion`], what they need for it.

#![allow(unsafe_code, reason = "registers memory and keeps it until it is deregistered")]

mod builder;
mod local;
mod region;
mod register;
mod through;

use core::alloc::Layout;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

pub use self::builder::MrBuilder;
pub use self::local::LocalMr;
pub use self::region::CloseError;
use self::region::{Fate, Region, close_dropped};
pub use self::through::{EndpointMr, Through};
use crate::buffer::{Buffer, Descriptor};
use crate::error::OpenError;
use crate::exposed::Window;
use crate::handle::{Handle, Plan};
use crate::objects::domain::{Domain, DomainInner};
pub use crate::objects::remote_region::RemoteRegion;
use crate::transport::Transport;
use crate::vocabulary::{Access, Errno, MemoryKey, MrMode, RemoteAddr};

/// A registered memory region, and the memory: dropping it closes the region.
///
/// While it is open, this side sees the memory through a [`Window`] only. Peers' operations on it are refused from then on when it
/// is closed. The memory is dropped as soon as nobody can reach it. Over the software transport that is at once. Over libfabric an
/// operation that began before goes on, so the domain keeps the memory until none of its endpoints is open, and drops it then. A
/// program that closes regions while endpoints stay open for long, and knows from its protocol when its peers have finished, gets
/// the memory back with [`close_finished`](Self::close_finished).
///
/// Some providers go on looking at a region that is closed in the middle of a peer's operation (libfabric 2's `shm`, `sockets`).
/// There a region that is dropped while endpoints of its domain are open is closed with the last of these, and peers reach
/// the memory, which stays, until then. [`close_finished`](Self::close_finished) closes it at once. A thread that opens an endpoint of the
/// domain meanwhile waits until the last of these regions is closed.
///
/// # References
/// - `man fi_mr`
#[doc(alias = "fid_mr")]
pub struct Mr<'m, T: Transport, M: Buffer + Send, H = ()> {
    pub(super) region: ManuallyDrop<Handle<'m, Region<T, M>>>,
    /// What the region keeps open. Dropped when it is closed, and never if that fails.
    pub(super) hold: ManuallyDrop<H>,
}

// SAFETY: the region is moved to the other thread, with its memory; a region has one handle.
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
    /// [`scope`](crate::objects::scope::scope). `Send`, because the memory is dropped by whichever thread closes the domain's last
    /// endpoint, if that comes after the region.
    ///
    /// A key of one's own, a counter and more are asked for with [`MrBuilder`].
    ///
    /// # Errors
    /// - [`OpenError::Access`] if the memory is not initialised, or peers may write and it may not be written
    /// - [`OpenError::NeedsEndpoint`] if peers may reach the memory and the domain binds regions to endpoints
    ///   (`FI_MR_ENDPOINT`): [`MrBuilder::open_for_in`] works over every domain, for endpoints that are not scalable
    /// - [`OpenError::DeviceMemory`] if it is a device's, and the info of the domain does not grant `FI_HMEM`
    /// - [`OpenError::NoFence`] in a scope, where the end of that does not end what peers do with the memory: over a provider that
    ///   the tests have not run over, or over libfabric by way of a domain that the scope did not open
    /// - [`OpenError::OutOfMemory`] if the allocator has no room
    /// - [`OpenError::Errno`] if the provider refuses
    #[doc(alias = "fi_mr_reg")]
    pub fn open_in<A: Allocator + Send + 'm>(
        domain: &Domain<'m, T>,
        memory: M,
        access: Access,
        alloc: A,
    ) -> Result<Self, OpenError>
    where
        M: 'm,
    {
        MrBuilder::new(domain, access).open_in(memory, alloc)
    }

    /// [`Mr::open_in`] with the global allocator.
    ///
    /// # Errors
    /// As [`Mr::open_in`].
    #[cfg(feature = "std")]
    pub fn open(domain: &Domain<'m, T>, memory: M, access: Access) -> Result<Self, OpenError>
    where
        M: 'm,
    {
        Self::open_in(domain, memory, access, allocator_api2::alloc::Global)
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

/// Whether closing a region with this access ends all use of its memory: by what the transport does, or because no peer
/// can reach it.
fn is_fenced<T: Transport>(access: Access, info: &T::Info) -> bool {
    T::MR_CLOSE_FENCES && T::quirks(info).mr_close || !is_remote(access)
}

impl<T: Transport, M: Buffer + Send, H> Mr<'_, T, M, H> {
    /// This side's view of the memory. Of a device's memory it is empty: the host reaches that by the device's own means.
    #[must_use]
    pub fn window(&self) -> Window<'_> {
        self.region.window
    }

    /// What a peer needs to reach the memory.
    #[must_use]
    pub fn remote(&self) -> RemoteRegion {
        let (start, len) = self.region.range;
        let mode = self.region.domain.attributes().domain.mr_mode;
        let base = if mode.intersects(MrMode::VIRT_ADDR | MrMode::BASIC) { start } else { 0 };
        RemoteRegion::new(RemoteAddr(base), len, self.key())
    }

    /// The raw handle, for calls that loom does not wrap.
    #[must_use]
    pub fn raw(&self) -> &T::Mr {
        self.region.raw()
    }

    /// The region's key.
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
        // SAFETY: the region is open, and the range lies within it.
        unsafe { T::mr_refresh(self.raw(), first, len) }
    }
}

impl<T: Transport, M: Buffer + Send, H> Drop for Mr<'_, T, M, H> {
    fn drop(&mut self) {
        let Mr { region, hold } = self;
        let fate = close_dropped(region, || {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(hold) };
        });
        if let Fate::Over = fate {
            // SAFETY: as above. Otherwise a list of the domain has it.
            unsafe { ManuallyDrop::drop(region) };
        }
    }
}

/// Whether peers reach a region with this access.
fn is_remote(access: Access) -> bool {
    access.intersects(Access::REMOTE_READ | Access::REMOTE_WRITE)
}

impl<T: Transport, M: Buffer + Send, H> fmt::Debug for Mr<'_, T, M, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mr").field("len", &self.region.range.1).field("key", &self.key()).finish_non_exhaustive()
    }
}
