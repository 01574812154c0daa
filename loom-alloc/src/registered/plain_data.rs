use bytemuck::{AnyBitPattern, Pod};

use loom_core::RangeError;

use super::lease::Lease;
use crate::sharing::Sharing;

/// Views as plain old data, without a copy, in this machine's byte order.
///
/// ```
/// use loom_alloc::registered::Lease;
/// use loom_core::RangeError;
///
/// /// Fills a lease with squares, as a message to be sent.
/// fn squares(lease: &mut Lease<'_>, count: u16) -> Result<(), RangeError> {
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
/// # assert_eq!(squares(&mut lease, 17), Err(RangeError::OutOfWindow));
/// # Ok::<_, loom_core::error::OpenError>(())
/// ```
impl<L: Sharing> Lease<'_, L> {
    /// Data as values.
    ///
    /// # Errors
    /// [`RangeError::Misaligned`].
    pub fn data_as<V: AnyBitPattern>(&self) -> Result<&[V], RangeError> {
        bytemuck::try_cast_slice(self.data()).map_err(|_| RangeError::Misaligned)
    }

    /// Data as mutable values.
    ///
    /// # Errors
    /// [`RangeError::Misaligned`].
    pub fn data_as_mut<V: Pod>(&mut self) -> Result<&mut [V], RangeError> {
        bytemuck::try_cast_slice_mut(self.data_mut()).map_err(|_| RangeError::Misaligned)
    }

    /// Room for `count` values. [`commit`](Self::commit) counts bytes.
    ///
    /// # Errors
    /// [`RangeError::OutOfWindow`], [`RangeError::Misaligned`].
    pub fn prepare_as<V: Pod>(&mut self, count: usize) -> Result<&mut [V], RangeError> {
        let room = self.prepare(count.checked_mul(size_of::<V>()).ok_or(RangeError::OutOfWindow)?)?;
        bytemuck::try_cast_slice_mut(room).map_err(|_| RangeError::Misaligned)
    }
}
