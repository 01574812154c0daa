//! The one block that a cache takes from its allocator, and the arrays in it.

#![allow(unsafe_code, reason = "allocation, and arrays in the block")]

use core::alloc::Layout;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

/// Memory from `A`, freed on drop.
pub(super) struct Block<A: Allocator> {
    ptr: NonNull<u8>,
    layout: Layout,
    alloc: ManuallyDrop<A>,
}

impl<A: Allocator> Block<A> {
    /// `None` if the allocator has no room.
    pub(super) fn new(layout: Layout, alloc: A) -> Option<Self> {
        let ptr = alloc.allocate(layout).ok()?.cast();
        Some(Block { ptr, layout, alloc: ManuallyDrop::new(alloc) })
    }

    /// An array at this offset, of values that are made here.
    ///
    /// # Safety
    /// The place is aligned and within the block, nothing else is made there, and the array is not used after the block is dropped.
    pub(super) unsafe fn array<V>(&self, offset: usize, len: usize, mut make: impl FnMut(usize) -> V) -> Array<V> {
        // SAFETY: the caller's promise.
        let ptr = unsafe { self.ptr.add(offset) }.cast::<V>();
        for at in 0..len {
            // SAFETY: as above.
            let place = unsafe { ptr.add(at) };
            // SAFETY: as above.
            unsafe { place.write(make(at)) };
        }
        Array { ptr, len }
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

/// Values in a [`Block`]. They are not dropped.
pub(super) struct Array<V> {
    ptr: NonNull<V>,
    len: usize,
}

impl<V> Deref for Array<V> {
    type Target = [V];

    #[inline]
    fn deref(&self) -> &[V] {
        // SAFETY: made by `Block::array`, whose caller keeps the block.
        unsafe { NonNull::slice_from_raw_parts(self.ptr, self.len).as_ref() }
    }
}

impl<V> DerefMut for Array<V> {
    fn deref_mut(&mut self) -> &mut [V] {
        // SAFETY: as above, and nobody else has the array.
        unsafe { NonNull::slice_from_raw_parts(self.ptr, self.len).as_mut() }
    }
}
