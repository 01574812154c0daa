//! Leases as slices of plain old data.

use core::fmt;

use loom_core::Error;

use bytemuck::{AnyBitPattern, Pod, PodCastError};

use super::lease::{Lease, OutOfLease};
use crate::sharing::Sharing;

/// Error of a view as values of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewError {
    /// The lease has fewer bytes.
    OutOfLease,
    /// The bytes are misaligned for the type or no multiple of its size.
    Cast(PodCastError),
}

impl From<OutOfLease> for ViewError {
    fn from(_: OutOfLease) -> Self {
        ViewError::OutOfLease
    }
}

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ViewError::OutOfLease => OutOfLease.fmt(f),
            ViewError::Cast(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ViewError {}

impl From<ViewError> for Error {
    fn from(error: ViewError) -> Self {
        match error {
            ViewError::OutOfLease => OutOfLease.into(),
            ViewError::Cast(_) => Error::Invalid("the bytes are not aligned for the type, or no multiple of its size"),
        }
    }
}

/// Views as plain old data, without a copy, in this machine's byte order.
///
/// ```
/// use loom_alloc::registered::{Lease, ViewError};
///
/// /// Fills a lease with squares, as a message to be sent.
/// fn squares(lease: &mut Lease<'_>, count: u16) -> Result<(), ViewError> {
///     lease.clear();
///     for (square, number) in lease.prepare_as::<u32>(count.into())?.iter_mut().zip(0..) {
///         *square = number * number;
///     }
///     lease.commit(4 * usize::from(count))?;
///     assert_eq!(lease.data_as::<u32>()?.last(), Some(&81));
///     Ok(())
/// }
/// # use loom_alloc::{allocator_api2::alloc::Global, registered::{Slab, SlabAttr}};
/// # use loom_core::{domain::Domain, soft::{Network, NetworkAttr}};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let slab = Slab::open_in(&domain, SlabAttr::new(1, 64), Global)?;
/// # let mut lease = slab.lease().unwrap();
/// # assert_eq!(squares(&mut lease, 10), Ok(()));
/// # assert_eq!(squares(&mut lease, 17), Err(ViewError::OutOfLease));
/// # Ok::<_, loom_core::error::OpenError>(())
/// ```
impl<L: Sharing> Lease<'_, L> {
    /// Data as values.
    ///
    /// # Errors
    /// [`ViewError::Cast`] if the data is misaligned or no multiple of the size.
    pub fn data_as<V: AnyBitPattern>(&self) -> Result<&[V], ViewError> {
        bytemuck::try_cast_slice(self.data()).map_err(ViewError::Cast)
    }

    /// Data as mutable values.
    ///
    /// # Errors
    /// [`ViewError::Cast`] like [`data_as`](Self::data_as).
    pub fn data_as_mut<V: Pod>(&mut self) -> Result<&mut [V], ViewError> {
        bytemuck::try_cast_slice_mut(self.data_mut()).map_err(ViewError::Cast)
    }

    /// Room for `count` values. [`commit`](Self::commit) counts bytes.
    ///
    /// # Errors
    /// [`ViewError::OutOfLease`] if the room is shorter, [`ViewError::Cast`] if it is misaligned.
    pub fn prepare_as<V: Pod>(&mut self, count: usize) -> Result<&mut [V], ViewError> {
        let room = self.prepare(count.checked_mul(size_of::<V>()).ok_or(OutOfLease)?)?;
        bytemuck::try_cast_slice_mut(room).map_err(ViewError::Cast)
    }
}
