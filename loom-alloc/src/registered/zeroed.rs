#![allow(unsafe_code, reason = "lends a block of memory")]

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;
use loom_core::buffer::{Buffer, Lent, SourceBuffer, TargetBuffer};
use loom_core::error::OpenError;

use crate::block::Block;

/// Block of an allocator, zeroed at first and freed on drop: a [`Buffer`], posted whole.
/// [`bytes_mut`](loom_core::buffer::bytes_mut) returns its bytes.
pub struct Zeroed<A: Allocator>(Block<A>);

impl<A: Allocator> Zeroed<A> {
    /// Allocates a zeroed block.
    ///
    /// # Errors
    /// [`OpenError::OutOfMemory`] if the allocator has no room.
    pub fn new_in(layout: Layout, alloc: A) -> Result<Self, OpenError> {
        Block::zeroed(layout, alloc).map(Zeroed).map_err(|_| OpenError::OutOfMemory)
    }

    /// Initialised bytes, which stay in place when the value moves.
    pub(super) fn ptr(&self) -> NonNull<u8> {
        self.0.ptr()
    }
}

// SAFETY: the value owns the initialised block, which does not move with it.
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
