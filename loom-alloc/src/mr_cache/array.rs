#![allow(unsafe_code, reason = "arrays in the block")]

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

use crate::block::Block;

pub(super) struct Array<V> {
    ptr: NonNull<V>,
    len: usize,
}

impl<V> Array<V> {
    /// # Safety
    /// The memory is aligned, within the block and otherwise unused. The block outlives the array.
    pub(super) unsafe fn new<A: Allocator>(
        block: &Block<A>,
        offset: usize,
        len: usize,
        mut make: impl FnMut(usize) -> V,
    ) -> Self {
        // SAFETY: the caller guarantees `offset` within the block.
        let ptr = unsafe { block.ptr().add(offset) }.cast::<V>();
        for at in 0..len {
            // SAFETY: the caller guarantees `len` values within the block.
            let place = unsafe { ptr.add(at) };
            // SAFETY: the caller guarantees aligned, unused memory.
            unsafe { place.write(make(at)) };
        }
        Array { ptr, len }
    }
}

impl<V> Deref for Array<V> {
    type Target = [V];

    #[inline]
    fn deref(&self) -> &[V] {
        // SAFETY: `new` initialised the values. The block outlives the array.
        unsafe { NonNull::slice_from_raw_parts(self.ptr, self.len).as_ref() }
    }
}

impl<V> DerefMut for Array<V> {
    fn deref_mut(&mut self) -> &mut [V] {
        // SAFETY: `new` initialised the values. The block outlives the array, borrowed exclusively.
        unsafe { NonNull::slice_from_raw_parts(self.ptr, self.len).as_mut() }
    }
}
