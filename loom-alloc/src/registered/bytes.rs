#![allow(unsafe_code, reason = "implements an unsafe trait")]

use bytes::buf::UninitSlice;
use bytes::{Buf, BufMut};

use super::lease::Lease;
use crate::sharing::Sharing;

/// Reads and consumes the data.
///
/// ```
/// use bytes::{Buf, BufMut};
/// use loom_alloc::registered::Lease;
///
/// /// Adds two numbers that somebody has sent, and makes the sum a message.
/// fn add(lease: &mut Lease<'_>) {
///     let sum = lease.get_u32_le() + lease.get_u32_le();
///     lease.clear();
///     lease.put_u32_le(sum);
/// }
/// # use loom_alloc::{allocator_api2::alloc::Global, registered::{Slab, SlabAttr}};
/// # use loom_core::{domain::Domain, soft::{Network, NetworkAttr}};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let slab = Slab::open_in(&domain, SlabAttr::new(1, 64), Global)?;
/// # let mut lease = slab.lease().unwrap();
/// # lease.append(&[1, 0, 0, 0, 2, 0, 0, 0]).unwrap();
/// # add(&mut lease);
/// # assert_eq!(&lease[..], [3, 0, 0, 0]);
/// # Ok::<_, loom_core::error::OpenError>(())
/// ```
impl<L: Sharing> Buf for Lease<'_, L> {
    fn remaining(&self) -> usize {
        self.data().len()
    }

    fn chunk(&self) -> &[u8] {
        self.data()
    }

    fn advance(&mut self, len: usize) {
        assert!(self.consume(len).is_ok(), "{len} bytes are to be consumed, of {}", self.data().len());
    }
}

// SAFETY: the room belongs to the lease and shrinks by the bytes written.
unsafe impl<L: Sharing> BufMut for Lease<'_, L> {
    fn remaining_mut(&self) -> usize {
        self.room()
    }

    unsafe fn advance_mut(&mut self, len: usize) {
        assert!(self.commit(len).is_ok(), "{len} bytes are said to be written, of {}", self.room());
    }

    fn chunk_mut(&mut self) -> &mut UninitSlice {
        UninitSlice::new(self.bytes_mut(self.room, self.end))
    }
}
