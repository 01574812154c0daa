//! [`Mr`]: memory that peers may reach, and [`RemoteRegion`], what they need for it.

#![allow(unsafe_code, reason = "registers memory and keeps it until it is deregistered")]

mod builder;
mod local;
mod owner;
mod register;
mod remote;
mod scope;
mod through;

use core::fmt;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

pub use self::builder::MrBuilder;
pub use self::local::LocalMr;
pub use self::owner::{CloseError, MrOwner};
pub use self::remote::RemoteRegion;
pub use self::scope::scope;
pub use self::through::{Bound, EndpointMr, Through};
use crate::buffer::{Buffer, Descriptor};
use crate::error::OpenError;
use crate::exposed::Window;
use crate::objects::domain::Domain;
use crate::objects::users::Users;
use crate::transport::Transport;
use crate::vocabulary::{Access, Errno, MemoryKey, MrMode, RemoteAddr};

/// A registered memory region.
///
/// While it is open, this side sees the memory through a [`Window`] only.
///
/// # References
/// - `man fi_mr`
#[doc(alias = "fid_mr")]
pub struct Mr<'d, T: Transport> {
    raw: T::Mr,
    domain: &'d Domain<T>,
    /// The memory, for as long as the region is open: [`Mr::window`] shortens the lifetime to a borrow of the region.
    window: Window<'static>,
    /// First byte and length, also of memory that no window shows.
    memory: (u64, u64),
    /// Nobody uses the memory any more when closing the region returns.
    fenced: bool,
    /// Of what counts peers' writes.
    counter: Option<&'d Users>,
}

impl<'d, T: Transport> Mr<'d, T> {
    /// Registers memory for as long as the region is open. What the region itself needs, it takes from `alloc`.
    ///
    /// `'static`, because the region may be forgotten, and then peers can reach the memory for ever. For borrowed
    /// memory there is [`scope`]. `Send`, because the memory is dropped by whichever thread closes the domain's last
    /// endpoint, if that comes after the region (see [`MrOwner`]).
    ///
    /// A key of one's own, a counter and more are asked for with [`Mr::builder`].
    ///
    /// # Errors
    /// - [`OpenError::Access`] if the memory is not initialised, or peers may write and it may not be written
    /// - [`OpenError::NeedsEndpoint`] if peers may reach the memory and the domain binds regions to endpoints
    ///   (`FI_MR_ENDPOINT`): [`MrBuilder::open_for_in`] works over every domain, for endpoints that are not scalable
    /// - [`OpenError::DeviceMemory`] if it is a device's, and the info of the domain does not grant `FI_HMEM`
    /// - [`OpenError::OutOfMemory`] if the allocator has no room
    /// - [`OpenError::Errno`] if the provider refuses
    #[doc(alias = "fi_mr_reg")]
    pub fn open_in<M: Buffer + Send + 'static, A: Allocator + Send + 'static>(
        domain: &'d Domain<T>,
        memory: M,
        access: Access,
        alloc: A,
    ) -> Result<MrOwner<'d, T, M, A>, OpenError> {
        Mr::builder(domain, access).open_in(memory, alloc)
    }

    /// [`Mr::open_in`] with the global allocator.
    ///
    /// # Errors
    /// As [`Mr::open_in`].
    #[cfg(feature = "std")]
    pub fn open<M: Buffer + Send + 'static>(
        domain: &'d Domain<T>,
        memory: M,
        access: Access,
    ) -> Result<MrOwner<'d, T, M, allocator_api2::alloc::Global>, OpenError> {
        Self::open_in(domain, memory, access, allocator_api2::alloc::Global)
    }

    /// Says more about a region that is to be opened.
    pub fn builder(domain: &'d Domain<T>, access: Access) -> MrBuilder<'d, T> {
        MrBuilder::new(domain, access)
    }

    /// Whether closing a region with this access ends all use of its memory: by what the transport does, or because no peer
    /// can reach it.
    fn is_fenced(access: Access) -> bool {
        T::MR_CLOSE_FENCES || !is_remote(access)
    }

    /// This side's view of the memory. Of a device's memory it is empty: the host reaches that by the device's own means.
    #[must_use]
    pub fn window(&self) -> Window<'_> {
        self.window
    }

    /// What a peer needs to reach the memory.
    #[must_use]
    pub fn remote(&self) -> RemoteRegion {
        let (start, len) = self.memory;
        let mode = self.domain.attributes().domain.mr_mode;
        let base = if mode.intersects(MrMode::VIRT_ADDR | MrMode::BASIC) { start } else { 0 };
        RemoteRegion::new(RemoteAddr(base), len, self.key())
    }

    /// The raw handle, for calls that loom does not wrap.
    #[must_use]
    pub fn raw(&self) -> &T::Mr {
        &self.raw
    }

    /// The region's key.
    #[doc(alias = "fi_mr_key")]
    #[must_use]
    pub fn key(&self) -> MemoryKey {
        T::mr_key(&self.raw)
    }

    /// The region's local descriptor.
    #[doc(alias = "fi_mr_desc")]
    #[must_use]
    pub fn descriptor(&self) -> Descriptor {
        Descriptor { raw: T::mr_descriptor(&self.raw), domain: self.domain.identity() }
    }

    /// Tells the provider that other pages may lie behind a range of the memory than before, where it wants to be told
    /// (`FI_MR_MMU_NOTIFY`); elsewhere there is nothing to do. Meanwhile peers' operations on the region may fail.
    ///
    /// # Errors
    /// `EINVAL` if the range does not lie within the region, or what the provider says.
    #[doc(alias = "fi_mr_refresh")]
    pub fn refresh(&self, offset: usize, len: usize) -> Result<(), Errno> {
        let (start, whole) = self.memory;
        let end = offset.checked_add(len).ok_or(Errno::EINVAL)?;
        if end as u64 > whole {
            return Err(Errno::EINVAL);
        }
        if !self.domain.attributes().domain.mr_mode.contains(MrMode::MMU_NOTIFY) {
            return Ok(());
        }
        let start = usize::try_from(start).map_err(|_| Errno::EINVAL)?;
        let first = core::ptr::without_provenance_mut(start.checked_add(offset).ok_or(Errno::EINVAL)?);
        let first = NonNull::new(first).ok_or(Errno::EINVAL)?;
        // SAFETY: the region is open, and the range lies within it.
        unsafe { T::mr_refresh(&self.raw, first, len) }
    }

    /// Closes the region: no operation of a peer on it begins any more.
    ///
    /// # Safety
    /// Called once; the region is not used after this, whatever comes back.
    unsafe fn deregister(&self) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        unsafe { T::mr_close(&self.raw) }?;
        self.domain.child_closed();
        Ok(())
    }

    /// Whether the provider may go on looking at the region when it is closed in the middle of a peer's operation. (One that is
    /// bound to an endpoint is closed before it in any case.)
    fn is_used_when_closed(&self) -> bool {
        let info = self.domain.info();
        let bound = info.attributes().domain.mr_mode.contains(MrMode::ENDPOINT);
        !self.fenced && !bound && !T::conduct(info.raw()).mr_close
    }

    /// Lets the counter go, after [`deregister`](Self::deregister), when nothing that peers do is counted any more. Otherwise it
    /// stays open for good.
    fn leave_counter(&self) {
        if let Some(users) = self.counter {
            users.closed();
        }
    }
}

/// Whether peers reach a region with this access.
fn is_remote(access: Access) -> bool {
    access.intersects(Access::REMOTE_READ | Access::REMOTE_WRITE)
}

impl<T: Transport> fmt::Debug for Mr<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mr").field("len", &self.memory.1).field("key", &self.key()).finish_non_exhaustive()
    }
}
