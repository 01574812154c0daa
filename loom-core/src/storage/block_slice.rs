#![allow(unsafe_code, reason = "values in a block of memory, which are dropped there")]

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

use super::Part;
use super::handle::Unfilled;

/// Values in the block of the object that has this field, which drops them.
pub(crate) struct BlockSlice<V> {
    values: NonNull<[V]>,
}

impl<V> BlockSlice<V> {
    /// # Safety
    /// The part was planned for values of this type in this block, and is created once. The result
    /// is dropped before the block is freed.
    pub(crate) unsafe fn new<A: Allocator + Send>(
        block: &Unfilled<A>,
        part: &Part<V>,
        value: impl Fn(usize) -> V,
    ) -> Self {
        // SAFETY: the caller guarantees that the part was planned for this block.
        BlockSlice { values: unsafe { part.fill(block.ptr(), value) } }
    }
}

impl<V> Deref for BlockSlice<V> {
    type Target = [V];

    fn deref(&self) -> &[V] {
        // SAFETY: written in `new`, and the block outlives this slice.
        unsafe { self.values.as_ref() }
    }
}

impl<V> DerefMut for BlockSlice<V> {
    fn deref_mut(&mut self) -> &mut [V] {
        // SAFETY: written in `new`, and the block outlives this slice, the only owner.
        unsafe { self.values.as_mut() }
    }
}

impl<V> Drop for BlockSlice<V> {
    fn drop(&mut self) {
        // SAFETY: written in `new`, and dropped once, here.
        unsafe { self.values.drop_in_place() };
    }
}
