use bytemuck::{AnyBitPattern, Pod};

use super::lease::{Lease, LeaseError};
use crate::sharing::Sharing;

/// Views as plain old data, without a copy, in this machine's byte order.
///
/// ```
/// use loom_alloc::registered::{Lease, LeaseError};
///
/// /// Fills a lease with squares, as a message to be sent.
/// fn squares(lease: &mut Lease<'_>, count: u16) -> Result<(), LeaseError> {
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
/// # assert_eq!(squares(&mut lease, 17), Err(LeaseError::TooShort));
/// # Ok::<_, loom_core::error::OpenError>(())
/// ```
impl<L: Sharing> Lease<'_, L> {
    /// Data as values.
    ///
    /// # Errors
    /// [`LeaseError::Cast`].
    pub fn data_as<V: AnyBitPattern>(&self) -> Result<&[V], LeaseError> {
        bytemuck::try_cast_slice(self.data()).map_err(LeaseError::Cast)
    }

    /// Data as mutable values.
    ///
    /// # Errors
    /// [`LeaseError::Cast`].
    pub fn data_as_mut<V: Pod>(&mut self) -> Result<&mut [V], LeaseError> {
        bytemuck::try_cast_slice_mut(self.data_mut()).map_err(LeaseError::Cast)
    }

    /// Room for `count` values. [`commit`](Self::commit) counts bytes.
    ///
    /// # Errors
    /// [`LeaseError::TooShort`], [`LeaseError::Cast`].
    pub fn prepare_as<V: Pod>(&mut self, count: usize) -> Result<&mut [V], LeaseError> {
        let room = self.prepare(count.checked_mul(size_of::<V>()).ok_or(LeaseError::TooShort)?)?;
        bytemuck::try_cast_slice_mut(room).map_err(LeaseError::Cast)
    }
}
