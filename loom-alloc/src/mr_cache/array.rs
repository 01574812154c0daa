//! [`Array`]: one of those in the one block that a cache takes from its allocator.

#![allow(unsafe_code, reason = "arrays in the block")]

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

use crate::block::Block;

/// Values in a [`Block`]. They are not dropped.
pub(super) struct Array<V> {
    ptr: NonNull<V>,
    len: usize,
}

impl<V> Array<V> {
    /// Values that are made here, at this offset in a block.
    ///
    /// # Safety
    /// The place is aligned and within the block, nothing else is made there, and the array is not used after the block is dropped.
    pub(super) unsafe fn new<A: Allocator>(
        block: &Block<A>,
        offset: usize,
        len: usize,
        mut make: impl FnMut(usize) -> V,
    ) -> Self {
        // SAFETY: the caller's promise.
        let ptr = unsafe { block.ptr().add(offset) }.cast::<V>();
        for at in 0..len {
            // SAFETY: as above.
            let place = unsafe { ptr.add(at) };
            // SAFETY: as above.
            unsafe { place.write(make(at)) };
        }
        Array { ptr, len }
    }
}

impl<V> Deref for Array<V> {
    type Target = [V];

    #[inline]
    fn deref(&self) -> &[V] {
        // SAFETY: made by `Array::new`, whose caller keeps the block.
        unsafe { NonNull::slice_from_raw_parts(self.ptr, self.len).as_ref() }
    }
}

impl<V> DerefMut for Array<V> {
    fn deref_mut(&mut self) -> &mut [V] {
        // SAFETY: as above, and this has the array alone.
        unsafe { NonNull::slice_from_raw_parts(self.ptr, self.len).as_mut() }
    }
}
