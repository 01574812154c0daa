//! [`DeviceSlab`]: buffers in the memory of a device.

#![allow(unsafe_code, reason = "lends what a lease lends")]

use allocator_api2::alloc::Allocator;
use loom_core::buffer::{Buffer, Descriptor, Lent, SourceBuffer, TargetBuffer};
use loom_core::error::{OpenError, Rejected};
use loom_core::registered::Registered;
use loom_core::transport::Transport;
use loom_core::vocabulary::HmemIface;

use super::attr::SlabAttr;
use super::lease::{Lease, OutOfLease};
use super::parts::NotJoined;
use super::slab::RegisteredSlab;
use crate::sharing::{Owner, Sharing};

/// Buffers of one size in one registered region of a device's memory (`FI_HMEM`).
///
/// The host does not see the bytes: leases are posted, and filled and read by the device's own means, at their
/// [address](DeviceLease::as_ptr).
///
/// What kind of memory it is, the buffer says that was registered ([`Lent::kind`]); which device's,
/// [`Registered::on_device`]. The slab's own table is in the host's memory.
#[derive(Debug)]
pub struct DeviceSlab<'d, T: Transport, M: Buffer, A: Allocator, L: Sharing = Owner>(RegisteredSlab<'d, T, M, A, L>);

impl<'d, T: Transport, M: Buffer, A: Allocator, L: Sharing> DeviceSlab<'d, T, M, A, L> {
    /// Cuts registered memory of a device up, as [`RegisteredSlab::over`] does with the host's.
    ///
    /// # Errors
    /// The memory comes back.
    /// - [`OpenError::Access`](loom_core::error::OpenError::Access) if it is not initialised, may not be written, or is the host's
    /// - [`OpenError::Size`](loom_core::error::OpenError::Size) if the attributes are out of range, or it is too short for them
    /// - [`OpenError::OutOfMemory`](loom_core::error::OpenError::OutOfMemory) if the allocator has no room for the slab's
    ///   [table](SlabAttr::table)
    pub fn over(
        memory: Registered<'d, T, M>,
        attr: SlabAttr,
        alloc: A,
    ) -> Result<Self, Rejected<Registered<'d, T, M>, OpenError>> {
        let wanted = |kind| kind != HmemIface::SYSTEM;
        RegisteredSlab::over_memory_of(wanted, memory, attr, alloc).map(DeviceSlab)
    }

    /// A buffer without data; `None` if all are out.
    #[inline]
    pub fn lease(&self) -> Option<DeviceLease<'_, L>> {
        self.0.lease().map(DeviceLease)
    }

    /// How many buffers there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.0.count()
    }

    /// Bytes of each buffer.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.0.size()
    }

    /// The registered memory.
    #[must_use]
    pub fn into_memory(self) -> Registered<'d, T, M> {
        self.0.into_memory()
    }
}

/// A buffer in the memory of a device, or a part of one: to be posted as a [`Lease`] is, its data or else its room.
#[must_use = "the buffer goes back to the slab when the lease is dropped"]
#[derive(Debug)]
pub struct DeviceLease<'s, L: Sharing = Owner>(Lease<'s, L>);

impl<L: Sharing> DeviceLease<'_, L> {
    /// How long it is.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Bytes of data, from the lease's begin.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.capacity() - self.0.room()
    }

    /// Whether there is no data.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Says how long the data is: as many bytes as the device has put there, as were received, or as are to be posted.
    ///
    /// # Errors
    /// [`OutOfLease`] if the lease has fewer bytes; nothing has changed.
    pub fn set_len(&mut self, len: usize) -> Result<(), OutOfLease> {
        self.0.set_len(len)
    }

    /// The lease's first byte, an address of the device. A program writes to it there while the lease is not posted, and as long as it
    /// is there.
    #[must_use]
    pub fn as_ptr(&mut self) -> *mut u8 {
        self.0.lend().ptr().as_ptr()
    }

    /// The local descriptor of the slab's region.
    #[doc(alias = "fi_mr_desc")]
    #[must_use]
    pub const fn descriptor(&self) -> Descriptor {
        self.0.descriptor()
    }

    /// Makes two of one, as [`Lease::split`].
    ///
    /// # Errors
    /// The lease comes back if one of the two would have no bytes.
    pub fn split(self, at: usize) -> Result<(Self, Self), Self> {
        let (first, second) = self.0.split(at).map_err(DeviceLease)?;
        Ok((DeviceLease(first), DeviceLease(second)))
    }

    /// Makes one of two neighbours, as [`Lease::rejoin`].
    ///
    /// # Errors
    /// Both come back if they are none, or if the data would not begin where the lease does, or not be in one piece.
    pub fn rejoin(self, other: Self) -> Result<Self, NotJoined<Self>> {
        let (first, second) = if self.0.start < other.0.start { (&self.0, &other.0) } else { (&other.0, &self.0) };
        if second.has_data() && !first.has_data() {
            return Err(NotJoined { lease: self, other });
        }
        let not_joined =
            |NotJoined { lease, other }| NotJoined { lease: DeviceLease(lease), other: DeviceLease(other) };
        self.0.rejoin(other.0).map(DeviceLease).map_err(not_joined)
    }
}

// SAFETY: what the lease lends, which it alone has.
unsafe impl<L: Sharing> Buffer for DeviceLease<'_, L> {
    #[inline]
    fn lend(&mut self) -> Lent {
        self.0.lend()
    }
}
impl<L: Sharing> SourceBuffer for DeviceLease<'_, L> {}
impl<L: Sharing> TargetBuffer for DeviceLease<'_, L> {}
