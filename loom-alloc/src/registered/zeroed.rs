//! [`Zeroed`]: a block of zeros from an allocator, as a buffer.

#![allow(unsafe_code, reason = "lends a block of memory")]

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;
use loom_core::buffer::{Buffer, Lent, SourceBuffer, TargetBuffer};
use loom_core::error::OpenError;

use crate::block::Block;

/// A block of memory from an allocator, of zeros at first, given back when it is dropped: a [`Buffer`] of any size and alignment, to be
/// posted, registered or cut up.
pub struct Zeroed<A: Allocator>(Block<A>);

impl<A: Allocator> Zeroed<A> {
    /// Zeros, of the size and alignment that the layout has.
    ///
    /// # Errors
    /// [`OpenError::OutOfMemory`] if the allocator has no room.
    pub fn new_in(layout: Layout, alloc: A) -> Result<Self, OpenError> {
        Block::zeroed(layout, alloc).map(Zeroed).map_err(|_| OpenError::OutOfMemory)
    }

    /// The first byte. All of them are initialised, and stay where they are when the value is moved.
    pub(super) fn ptr(&self) -> NonNull<u8> {
        self.0.ptr()
    }
}

// SAFETY: the block belongs to the value alone, is initialised, and does not move with it.
unsafe impl<A: Allocator> Buffer for Zeroed<A> {
    #[inline]
    fn lend(&mut self) -> Lent {
        Lent::both(self.0.ptr(), self.0.len())
    }
}
impl<A: Allocator> SourceBuffer for Zeroed<A> {}
impl<A: Allocator> TargetBuffer for Zeroed<A> {}

impl<A: Allocator> fmt::Debug for Zeroed<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zeroed").field("len", &self.0.len()).finish_non_exhaustive()
    }
}
