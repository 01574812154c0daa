#![allow(unsafe_code, reason = "lends what a lease lends")]

use allocator_api2::alloc::Allocator;
use loom_core::RangeError;
use loom_core::buffer::{Buffer, Descriptor, Lent, SourceBuffer, TargetBuffer};
use loom_core::error::{OpenError, Rejected};
use loom_core::registered::Registered;
use loom_core::transport::Transport;
use loom_core::vocabulary::HmemIface;

use super::attr::SlabAttr;
use super::lease::Lease;
use super::parts::NotJoined;
use super::slab::RegisteredSlab;
use crate::sharing::{Owner, Sharing};

/// Buffers of one size in one registered region of device memory (`FI_HMEM`).
///
/// The host cannot access the bytes: the device fills and reads leases at their
/// [address](DeviceLease::as_ptr). The registered buffer has the kind ([`Lent::kind`]) and the
/// device ([`Registered::on_device`]).
#[derive(Debug)]
pub struct DeviceSlab<'d, T: Transport, M: Buffer, A: Allocator, L: Sharing = Owner>(RegisteredSlab<'d, T, M, A, L>);

impl<'d, T: Transport, M: Buffer, A: Allocator, L: Sharing> DeviceSlab<'d, T, M, A, L> {
    /// Cuts up registered device memory, like [`RegisteredSlab::over`].
    ///
    /// # Errors
    /// The memory is returned, as by [`RegisteredSlab::over`], with
    /// [`OpenError::Access`](loom_core::error::OpenError::Access) for host instead of device
    /// memory.
    pub fn over(
        memory: Registered<'d, T, M>,
        attr: SlabAttr,
        alloc: A,
    ) -> Result<Self, Rejected<Registered<'d, T, M>, OpenError>> {
        let wanted = |kind| kind != HmemIface::SYSTEM;
        RegisteredSlab::over_memory_of(wanted, memory, attr, alloc).map(DeviceSlab)
    }

    /// Takes a buffer without data, or `None` if all are leased.
    #[inline]
    pub fn lease(&self) -> Option<DeviceLease<'_, L>> {
        self.0.lease().map(DeviceLease)
    }

    /// Number of buffers.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.0.count()
    }

    /// Bytes of each buffer.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.0.size()
    }

    /// Returns the registered memory.
    #[must_use]
    pub fn into_memory(self) -> Registered<'d, T, M> {
        self.0.into_memory()
    }
}

/// Device buffer, or a part of one, posted like a [`Lease`].
#[must_use = "the buffer goes back to the slab when the lease is dropped"]
#[derive(Debug)]
pub struct DeviceLease<'s, L: Sharing = Owner>(Lease<'s, L>);

impl<L: Sharing> DeviceLease<'_, L> {
    /// Length in bytes.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Bytes of data.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.capacity() - self.0.room()
    }

    /// Returns `true` without data.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets the number of bytes written by the device, received, or to post.
    ///
    /// # Errors
    /// [`RangeError::OutOfWindow`], with the lease unchanged.
    pub fn set_len(&mut self, len: usize) -> Result<(), RangeError> {
        self.0.set_len(len)
    }

    /// Device address, for use while the lease is not posted.
    #[must_use]
    pub fn as_ptr(&mut self) -> *mut u8 {
        self.0.lend().ptr.as_ptr()
    }

    /// Local descriptor of the region.
    #[doc(alias = "fi_mr_desc")]
    #[must_use]
    pub const fn descriptor(&self) -> Descriptor {
        self.0.descriptor()
    }

    /// Splits the lease, with the errors of [`Lease::split`].
    pub fn split(self, at: usize) -> Result<(Self, Self), Self> {
        let (first, second) = self.0.split(at).map_err(DeviceLease)?;
        Ok((DeviceLease(first), DeviceLease(second)))
    }

    /// Joins two neighbours, with the errors of [`Lease::rejoin`].
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

// SAFETY: forwards to the lease, which owns its bytes alone.
unsafe impl<L: Sharing> Buffer for DeviceLease<'_, L> {
    #[inline]
    fn lend(&mut self) -> Lent {
        self.0.lend()
    }
}
impl<L: Sharing> SourceBuffer for DeviceLease<'_, L> {}
impl<L: Sharing> TargetBuffer for DeviceLease<'_, L> {}
