//! [`SizeClasses`]: several pools, of which the smallest that fits is taken.

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use super::BlockPool;
use crate::block::{empty, move_to, zero_from};
use crate::owns::Owns;
use crate::sharing::Sharing;

/// What happens when the smallest class that fits has no block left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spill {
    /// There is none: small blocks never use up the large ones. Of two pools whose blocks have the same size and alignment, the second
    /// one is then never used: what is to be one class is one pool.
    Never,
    /// The next class that has one gives it: a larger one, or another of the same size.
    ToLarger,
}

/// `K` pools with blocks of different sizes. The smallest class whose blocks fit gives one.
///
/// `&SizeClasses` is the allocator. A block grows and shrinks in place, within its size; beyond it, it moves to another class. Each
/// operation looks at each class once at most.
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
    /// By size.
    pools: [BlockPool<A, S>; K],
    spill: Spill,
}

impl<A: Allocator, S: Sharing, const K: usize> SizeClasses<A, S, K> {
    /// Of these pools, in any order.
    #[must_use]
    pub fn new(mut pools: [BlockPool<A, S>; K], spill: Spill) -> Self {
        pools.sort_unstable_by_key(|pool| (pool.block_size(), pool.block_align()));
        SizeClasses { pools, spill }
    }

    /// The pools, those with the smallest blocks first.
    #[must_use]
    pub const fn pools(&self) -> &[BlockPool<A, S>; K] {
        &self.pools
    }

    /// The pool of a block.
    fn owner(&self, block: NonNull<u8>, layout: Layout) -> Option<&BlockPool<A, S>> {
        self.pools.iter().find(|pool| pool.owns(block, layout))
    }

    /// Moves a block into one of another layout.
    ///
    /// # Safety
    /// The block was handed out with the layout `old`, of at least one byte.
    unsafe fn move_block(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let moved = self.allocate(new)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { move_to(moved, block, old, self) })
    }
}

// SAFETY: blocks are those of the pools, which are there as long as the classes are, and go back to where they come from.
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
        // A block of no bytes has no owner.
        if layout.size() > 0
            && let Some(pool) = self.owner(block, layout)
        {
            // SAFETY: the caller's promise, and it is a block of this pool.
            unsafe { pool.deallocate(block, layout) }
        }
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if old.size() == 0 {
            return self.allocate(new);
        }
        let pool = self.owner(block, old).ok_or(AllocError)?;
        // SAFETY: the caller's promise, and it is a block of this pool.
        match unsafe { pool.grow(block, old, new) } {
            // SAFETY: the caller's promise.
            Err(_) => unsafe { self.move_block(block, old, new) },
            grown => grown,
        }
    }

    unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise.
        let grown = unsafe { self.grow(block, old, new) }?;
        // SAFETY: it had `old.size()` bytes, and is handed out anew.
        Ok(unsafe { zero_from(grown, old.size()) })
    }

    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if old.size() == 0 {
            return empty(new);
        }
        let pool = self.owner(block, old).ok_or(AllocError)?;
        // SAFETY: the caller's promise, and it is a block of this pool.
        match unsafe { pool.shrink(block, old, new) } {
            // It is to be aligned better than the pool's blocks are.
            // SAFETY: the caller's promise.
            Err(_) => unsafe { self.move_block(block, old, new) },
            shrunk => shrunk,
        }
    }
}

// SAFETY: blocks are those of the pools, which are the classes' alone; they are taken through references.
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
