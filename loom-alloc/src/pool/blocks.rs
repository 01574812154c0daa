//! [`Grid`]: the blocks of a pool.
//!
//! # Invariants
//!
//! 1. `count * size` bytes from `base` on belong to the pool and are accessed through it alone.
//!    `size` and the address of `base` are multiples of `align`.
//! 2. Calls get the pool's list of `count` numbers. A block is handed out while its number is
//!    taken.

#![allow(unsafe_code, reason = "hands out parts of memory")]

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use crate::block::{empty, zero_from};
use crate::free_list::FreeList;

#[derive(Clone, Copy)]
pub(super) struct Shape {
    size: usize,
    align: usize,
    shift: u32,
    /// Inverse of the odd factor of `size`, modulo 2^64.
    inverse: usize,
}

impl Shape {
    /// Requires `size > 0`, a multiple of `align`.
    pub(super) const fn new(size: usize, align: usize) -> Self {
        let shift = size.trailing_zeros();
        Shape { size, align, shift, inverse: inverse(size >> shift) }
    }
}

pub(super) struct Grid {
    base: NonNull<u8>,
    shape: Shape,
}

impl Grid {
    /// Requires invariant 1.
    pub(super) const fn new(base: NonNull<u8>, shape: Shape) -> Self {
        Grid { base, shape }
    }

    pub(super) const fn block_size(&self) -> usize {
        self.shape.size
    }

    pub(super) const fn align(&self) -> usize {
        self.shape.align
    }

    #[inline]
    pub(super) const fn fits(&self, layout: Layout) -> bool {
        layout.size() <= self.shape.size && layout.align() <= self.shape.align
    }

    #[inline]
    pub(super) fn contains(&self, block: NonNull<u8>, count: usize) -> bool {
        block.addr().get().wrapping_sub(self.base.addr().get()) < self.shape.size * count
    }

    /// The inverse replaces a slow division.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "blocks have numbers of 32 bits")]
    fn number(&self, block: NonNull<u8>) -> u32 {
        let distance = block.addr().get().wrapping_sub(self.base.addr().get());
        (distance >> self.shape.shift).wrapping_mul(self.shape.inverse) as u32
    }

    /// From the grid's own pointer: the caller's may be valid for less.
    #[inline]
    fn whole(&self, block: NonNull<u8>) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.base.with_addr(block.addr()), self.shape.size)
    }

    #[inline]
    pub(super) fn allocate(&self, list: &impl FreeList, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return empty(layout);
        }
        if !self.fits(layout) {
            return Err(AllocError);
        }
        let number = list.take().ok_or(AllocError)?;
        // SAFETY: the list has numbers of blocks only (invariants 1 and 2).
        let block = unsafe { self.base.add(number as usize * self.shape.size) };
        Ok(NonNull::slice_from_raw_parts(block, self.shape.size))
    }

    /// # Safety
    /// The block was handed out with this size, and is not used afterwards.
    #[inline]
    pub(super) unsafe fn deallocate(&self, list: &impl FreeList, block: NonNull<u8>, layout: Layout) {
        if layout.size() != 0 {
            list.put(self.number(block));
        }
    }

    /// # Safety
    /// The contract of [`Allocator::grow`](allocator_api2::alloc::Allocator::grow).
    #[inline]
    pub(super) unsafe fn grow(
        &self,
        list: &impl FreeList,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if old.size() == 0 {
            return self.allocate(list, new);
        }
        if self.fits(new) { Ok(self.whole(block)) } else { Err(AllocError) }
    }

    /// # Safety
    /// The contract of [`Allocator::grow_zeroed`](allocator_api2::alloc::Allocator::grow_zeroed).
    pub(super) unsafe fn grow_zeroed(
        &self,
        list: &impl FreeList,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds `Allocator::grow_zeroed`.
        let grown = unsafe { self.grow(list, block, old, new) }?;
        // SAFETY: the block grew from `old.size()` bytes just now.
        Ok(unsafe { zero_from(grown, old.size()) })
    }

    /// # Safety
    /// The contract of [`Allocator::shrink`](allocator_api2::alloc::Allocator::shrink).
    #[inline]
    pub(super) unsafe fn shrink(
        &self,
        list: &impl FreeList,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if new.size() == 0 {
            let none = empty(new)?;
            // SAFETY: the caller upholds `Allocator::shrink`.
            unsafe { self.deallocate(list, block, old) };
            return Ok(none);
        }
        if self.fits(new) { Ok(self.whole(block)) } else { Err(AllocError) }
    }
}

/// Newton's method: each step doubles the correct bits, at first three: an odd number is its own
/// inverse modulo 8.
const fn inverse(odd: usize) -> usize {
    let mut inverse = odd;
    let mut right = 3;
    while right < usize::BITS {
        inverse = inverse.wrapping_mul(2_usize.wrapping_sub(odd.wrapping_mul(inverse)));
        right *= 2;
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_any_size_have_the_numbers_that_a_division_finds() {
        let base = NonNull::without_provenance(core::num::NonZero::new(4096).expect("it is not"));
        for size in (1..1000).chain([4096, 12_288, 1 << 20, (1 << 20) + 64, usize::MAX >> 33]) {
            let grid = Grid::new(base, Shape::new(size, 1));
            for number in [0, 1, 2, 3, 1000, 65_537, u32::MAX - 1] {
                let at = base.addr().get().wrapping_add(size.wrapping_mul(number as usize));
                let block = NonNull::without_provenance(core::num::NonZero::new(at).expect("it is not"));
                assert_eq!(grid.number(block), number, "of size {size}");
            }
        }
    }
}
