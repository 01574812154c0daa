use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use super::BlockPool;
use crate::block::{empty, move_to, zero_from};
use crate::ownership::Owns;
use crate::sharing::Sharing;

/// Behaviour when the smallest fitting class is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spill {
    /// The allocation fails. Of pools with equal size and alignment, only the first is used.
    Never,
    /// The next larger or equal class with a free block serves.
    ToLarger,
}

/// `K` pools of different sizes. The smallest that fits serves an allocation.
///
/// `&SizeClasses` is the allocator. A block grows and shrinks in place within its size, else moves.
///
/// ```
/// use core::alloc::Layout;
///
/// use loom_alloc::{Arena, Pool, PoolAttr, SizeClasses, Spill};
/// use loom_alloc::allocator_api2::vec::Vec;
///
/// let mut memory = [core::mem::MaybeUninit::uninit(); 4096];
/// let arena = Arena::new(&mut memory);
/// let pool = |size, count| Pool::new_in(PoolAttr { block: Layout::from_size_align(size, 8).expect("sound"), count }, &arena);
/// let classes = SizeClasses::new([pool(16, 32)?, pool(64, 8)?, pool(512, 2)?], Spill::Never);
/// let mut text = Vec::new_in(&classes);
/// for byte in 0..100 {
///     text.try_reserve(1).expect("in each class is a block");
///     text.push(byte);
/// }
/// assert_eq!(classes.pools().each_ref().map(Pool::taken), [0, 0, 1], "it has moved up");
/// # Ok::<_, loom_core::error::OpenError>(())
/// ```
pub struct SizeClasses<A: Allocator, S: Sharing, const K: usize> {
    pools: [BlockPool<A, S>; K],
    spill: Spill,
}

impl<A: Allocator, S: Sharing, const K: usize> SizeClasses<A, S, K> {
    /// Combines pools, in any order.
    #[must_use]
    pub fn new(mut pools: [BlockPool<A, S>; K], spill: Spill) -> Self {
        pools.sort_unstable_by_key(|pool| (pool.block_size(), pool.block_align()));
        SizeClasses { pools, spill }
    }

    /// Pools, by increasing block size.
    #[must_use]
    pub const fn pools(&self) -> &[BlockPool<A, S>; K] {
        &self.pools
    }

    fn owner(&self, block: NonNull<u8>, layout: Layout) -> Option<&BlockPool<A, S>> {
        self.pools.iter().find(|pool| pool.owns(block, layout))
    }

    /// # Safety
    /// The block was handed out with the layout `old`, of at least one byte.
    unsafe fn move_block(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let moved = self.allocate(new)?;
        // SAFETY: the caller guarantees the layout `old`.
        Ok(unsafe { move_to(moved, block, old, self) })
    }
}

// SAFETY: the pools live as long as the classes. Blocks return to their own pool.
unsafe impl<A: Allocator, S: Sharing, const K: usize> Allocator for &SizeClasses<A, S, K> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return empty(layout);
        }
        let mut fitting = self.pools.iter().filter(|pool| pool.grid.fits(layout)).map(|pool| pool.allocate(layout));
        match self.spill {
            Spill::Never => fitting.next().unwrap_or(Err(AllocError)),
            Spill::ToLarger => fitting.find_map(Result::ok).ok_or(AllocError),
        }
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() > 0
            && let Some(pool) = self.owner(block, layout)
        {
            // SAFETY: the caller upholds `Allocator::deallocate`. `pool` owns the block.
            unsafe { pool.deallocate(block, layout) }
        }
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if old.size() == 0 {
            return self.allocate(new);
        }
        let pool = self.owner(block, old).ok_or(AllocError)?;
        // SAFETY: the caller upholds `Allocator::grow`. `pool` owns the block.
        match unsafe { pool.grow(block, old, new) } {
            // SAFETY: the failed call left the layout `old`.
            Err(_) => unsafe { self.move_block(block, old, new) },
            grown => grown,
        }
    }

    unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds `Allocator::grow_zeroed`.
        let grown = unsafe { self.grow(block, old, new) }?;
        // SAFETY: the block grew from `old.size()` bytes just now.
        Ok(unsafe { zero_from(grown, old.size()) })
    }

    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if old.size() == 0 {
            return empty(new);
        }
        let pool = self.owner(block, old).ok_or(AllocError)?;
        // SAFETY: the caller upholds `Allocator::shrink`. `pool` owns the block.
        match unsafe { pool.shrink(block, old, new) } {
            // SAFETY: the failed call left the layout `old`.
            Err(_) => unsafe { self.move_block(block, old, new) },
            shrunk => shrunk,
        }
    }
}

// SAFETY: the classes own the pools alone. Blocks are taken through references.
unsafe impl<A: Allocator, S: Sharing, const K: usize> Owns for SizeClasses<A, S, K> {
    #[inline]
    fn allocator(&self) -> impl Allocator {
        self
    }

    fn owns(&self, block: NonNull<u8>, layout: Layout) -> bool {
        self.owner(block, layout).is_some()
    }
}

impl<A: Allocator, S: Sharing, const K: usize> fmt::Debug for SizeClasses<A, S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SizeClasses").field("pools", &self.pools).field("spill", &self.spill).finish()
    }
}
