//! [`Zeroed`]: a block of zeros from an allocator, as a buffer.

#![allow(unsafe_code, reason = "owns a block of memory, and lends it")]

use core::alloc::Layout;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;
use loom_core::buffer::{Buffer, Lent, SourceBuffer, TargetBuffer};
use loom_core::error::OpenError;

/// A block of memory from an allocator, of zeros at first, given back when it is dropped: a [`Buffer`] of any size and alignment, to be
/// posted, registered or cut up.
pub struct Zeroed<A: Allocator> {
    block: NonNull<u8>,
    layout: Layout,
    alloc: ManuallyDrop<A>,
}

// SAFETY: the memory belongs to the value alone, and nothing depends on the thread but the allocator.
unsafe impl<A: Allocator + Send> Send for Zeroed<A> {}
// SAFETY: a shared reference gives nothing but numbers.
unsafe impl<A: Allocator + Sync> Sync for Zeroed<A> {}

impl<A: Allocator> Zeroed<A> {
    /// So many zeros, aligned as the layout says.
    ///
    /// # Errors
    /// [`OpenError::OutOfMemory`] if the allocator has no room.
    pub fn new_in(layout: Layout, alloc: A) -> Result<Self, OpenError> {
        let block = alloc.allocate_zeroed(layout).map_err(|_| OpenError::OutOfMemory)?;
        Ok(Zeroed { block: block.cast(), layout, alloc: ManuallyDrop::new(alloc) })
    }

    /// The first byte. All of them are initialised, and stay where they are when the value is moved.
    pub(super) const fn ptr(&self) -> NonNull<u8> {
        self.block
    }
}

impl<A: Allocator> Drop for Zeroed<A> {
    fn drop(&mut self) {
        // SAFETY: allocated in `new_in` with this layout from this allocator, and given back once.
        unsafe { self.alloc.deallocate(self.block, self.layout) };
        // SAFETY: dropped once, here.
        unsafe { ManuallyDrop::drop(&mut self.alloc) };
    }
}

// SAFETY: the block belongs to the value alone, is initialised, and does not move with it.
unsafe impl<A: Allocator> Buffer for Zeroed<A> {
    #[inline]
    fn lend(&mut self) -> Lent {
        Lent::both(self.block, self.layout.size())
    }
}
impl<A: Allocator> SourceBuffer for Zeroed<A> {}
impl<A: Allocator> TargetBuffer for Zeroed<A> {}

impl<A: Allocator> fmt::Debug for Zeroed<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zeroed").field("layout", &self.layout).finish_non_exhaustive()
    }
}
