//! Memory that objects take from the caller's allocator when they open, and give back when they close.

#![allow(unsafe_code, reason = "allocation through `Allocator`")]

use core::alloc::Layout;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

use crate::error::OpenError;

/// A block of memory from `A`, freed on drop.
pub(crate) struct Block<A: Allocator> {
    ptr: NonNull<u8>,
    layout: Layout,
    alloc: ManuallyDrop<A>,
}

// SAFETY: the memory belongs to the block alone, and nothing depends on the thread but the allocator.
unsafe impl<A: Allocator + Send> Send for Block<A> {}
// SAFETY: a shared block gives out its address and layout only; the allocator is used when it is dropped.
unsafe impl<A: Allocator + Sync> Sync for Block<A> {}

impl<A: Allocator> Block<A> {
    pub(crate) fn new(layout: Layout, alloc: A) -> Result<Self, OpenError> {
        match alloc.allocate(layout) {
            Ok(ptr) => Ok(Block { ptr: ptr.cast(), layout, alloc: ManuallyDrop::new(alloc) }),
            Err(_) => Err(OpenError::OutOfMemory),
        }
    }

    pub(crate) fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }
}

impl<A: Allocator> core::fmt::Debug for Block<A> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Block").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl<A: Allocator> Drop for Block<A> {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout from this allocator.
        unsafe { self.alloc.deallocate(self.ptr, self.layout) };
        // SAFETY: dropped once, here.
        unsafe { ManuallyDrop::drop(&mut self.alloc) };
    }
}

/// Extends a layout by an array, and says where the array begins.
pub(crate) fn extend(layout: Layout, part: Layout) -> Result<(Layout, usize), OpenError> {
    layout.extend(part).map_err(|_| OpenError::Size)
}

/// The layout of `count` values.
pub(crate) fn array<V>(count: usize) -> Result<Layout, OpenError> {
    Layout::array::<V>(count).map_err(|_| OpenError::Size)
}
