#![allow(unsafe_code, reason = "hands out parts of the memory that it has")]

mod blocks;
mod size_classes;
mod static_pool;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::std_instead_of_alloc, reason = "tests fail by panicking, and have std")]
mod tests;

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};
use loom_core::error::OpenError;

use crate::block::Block;
use crate::ownership::Owns;
use crate::sharing::{Owner, Shared, Sharing};
use blocks::{Grid, Shape};

pub use size_classes::{SizeClasses, Spill};
pub use static_pool::StaticPool;

/// Attributes of a pool's blocks.
///
/// ```
/// use core::alloc::Layout;
/// use loom_alloc::PoolAttr;
///
/// let attr = PoolAttr { block: Layout::from_size_align(1500, 64)?, count: 256 };
/// // 1536 bytes for each block, and 4 for its number.
/// assert_eq!(attr.layout().expect("not too large").size(), 256 * (1536 + 4));
/// # Ok::<_, core::alloc::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolAttr {
    /// Size, not zero, rounded up to a multiple of the alignment.
    pub block: Layout,
    /// Number of blocks, less than `u32::MAX`.
    pub count: usize,
}

impl PoolAttr {
    /// Layout of a pool's memory. `None` if blocks have no bytes, or are too many or too large.
    #[must_use]
    pub fn layout(&self) -> Option<Layout> {
        Some(self.parts()?.0)
    }

    fn parts(&self) -> Option<(Layout, usize)> {
        let block = self.block.pad_to_align();
        if block.size() == 0 || self.count >= u32::MAX as usize {
            return None;
        }
        let blocks = Layout::from_size_align(block.size().checked_mul(self.count)?, block.align()).ok()?;
        blocks.extend(Layout::array::<u32>(self.count).ok()?).ok()
    }
}

/// [`BlockPool`] of one thread. Takes and returns blocks in a few instructions.
///
/// ```
/// use core::alloc::Layout;
///
/// use loom_alloc::{Arena, Pool, PoolAttr};
/// use loom_alloc::allocator_api2::boxed::Box;
///
/// let mut memory = [core::mem::MaybeUninit::uninit(); 1024];
/// let arena = Arena::new(&mut memory);
/// let pool = Pool::new_in(PoolAttr { block: Layout::new::<[u64; 8]>(), count: 2 }, &arena)?;
/// let (one, two) = (Box::try_new_in([1_u64; 8], &pool)?, Box::try_new_in(2_u8, &pool)?);
/// assert!(Box::try_new_in(3_u8, &pool).is_err(), "there are two");
/// drop(one);
/// let three = Box::try_new_in([3_u64; 5], &pool)?;
/// assert!(Box::try_new_in([0_u64; 9], &pool).is_err(), "too large");
/// assert_eq!((*two, three[4], pool.taken()), (2, 3, 2));
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
pub type Pool<A> = BlockPool<A, Owner>;

/// Lock-free [`BlockPool`] of any number of threads.
///
/// Taking and returning a block are one compare-and-swap each, repeated on contention. Allocation
/// fails only if all blocks are taken at some moment during the call.
///
/// ```
/// use core::alloc::Layout;
///
/// use loom_alloc::{PoolAttr, SharedPool};
/// use loom_alloc::allocator_api2::alloc::System;
/// use loom_alloc::allocator_api2::boxed::Box;
///
/// let pool = SharedPool::new_in(PoolAttr { block: Layout::new::<[u8; 4096]>(), count: 4 }, System)?;
/// std::thread::scope(|scope| {
///     let threads = [0_u8, 1, 2, 3].map(|own| {
///         let pool = &pool;
///         scope.spawn(move || Box::try_new_in([own; 4096], pool).expect("one for each"))
///     });
///     let blocks = threads.map(|thread| thread.join().expect("no panic"));
///     assert_eq!(blocks.each_ref().map(|block| block[4095]), [0, 1, 2, 3]);
///     assert!(Box::try_new_in(4, &pool).is_err());
/// });
/// # Ok::<_, loom_core::error::OpenError>(())
/// ```
pub type SharedPool<A> = BlockPool<A, Shared>;

/// Blocks of one size, in constant time: a [`Pool`] of one thread, or a [`SharedPool`] of many.
///
/// A reference is the allocator, of layouts that fit a block. Blocks grow and shrink in place.
/// Those of no bytes take no memory.
///
/// The pool allocates one block ([`PoolAttr::layout`]), with four bytes for each block's number.
pub struct BlockPool<A: Allocator, S: Sharing> {
    grid: Grid,
    count: usize,
    list: S,
    _block: Block<A>,
}

// SAFETY: the pool owns its memory and list. Holders of blocks borrow it, so without `Sync` it
// stays on its thread meanwhile.
unsafe impl<A: Allocator + Send, S: Sharing> Send for BlockPool<A, S> {}
// SAFETY: the list's atomics give each block to one holder. The rest is never written.
unsafe impl<A: Allocator + Sync> Sync for SharedPool<A> {}

impl<A: Allocator> Pool<A> {
    /// Number of taken blocks.
    #[must_use]
    pub const fn taken(&self) -> u32 {
        self.list.taken()
    }
}

impl<A: Allocator, S: Sharing> BlockPool<A, S> {
    /// Creates a pool in one block of `alloc`.
    ///
    /// # Errors
    /// [`OpenError::Size`] without a [`PoolAttr::layout`], [`OpenError::OutOfMemory`].
    pub fn new_in(attr: PoolAttr, alloc: A) -> Result<Self, OpenError> {
        let (layout, numbers_at) = attr.parts().ok_or(OpenError::Size)?;
        let block = Block::new(layout, alloc).map_err(|_| OpenError::OutOfMemory)?;
        // SAFETY: within the block.
        let numbers = unsafe { block.ptr().add(numbers_at) }.cast::<u32>();
        // SAFETY: the layout has these numbers, aligned.
        unsafe { numbers.write_bytes(0, attr.count) };
        // SAFETY: the numbers live in the pool's block, for the list alone.
        let list = unsafe { S::over(NonNull::slice_from_raw_parts(numbers, attr.count)) };
        let shape = Shape::new(attr.block.pad_to_align().size(), attr.block.align());
        // The block begins with the blocks, one for each number (the grid's invariants).
        Ok(BlockPool { grid: Grid::new(block.ptr(), shape), count: attr.count, list, _block: block })
    }

    /// Number of blocks.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.count
    }

    /// Bytes of a block.
    #[must_use]
    pub const fn block_size(&self) -> usize {
        self.grid.block_size()
    }

    /// Alignment of a block in bytes.
    #[must_use]
    pub const fn block_align(&self) -> usize {
        self.grid.align()
    }
}

// SAFETY: the pool owns the memory until it is dropped, after its references. Blocks are handed out
// once (the grid's invariants).
unsafe impl<A: Allocator, S: Sharing> Allocator for &BlockPool<A, S> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.grid.allocate(&self.list, layout)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller upholds `Allocator::deallocate`.
        unsafe { self.grid.deallocate(&self.list, block, layout) }
    }

    #[inline]
    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds `Allocator::grow`.
        unsafe { self.grid.grow(&self.list, block, old, new) }
    }

    unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds `Allocator::grow_zeroed`.
        unsafe { self.grid.grow_zeroed(&self.list, block, old, new) }
    }

    #[inline]
    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds `Allocator::shrink`.
        unsafe { self.grid.shrink(&self.list, block, old, new) }
    }
}

// SAFETY: the pool owns its blocks alone. They are taken through references.
unsafe impl<A: Allocator, S: Sharing> Owns for BlockPool<A, S> {
    #[inline]
    fn allocator(&self) -> impl Allocator {
        self
    }

    #[inline]
    fn owns(&self, block: NonNull<u8>, _: Layout) -> bool {
        self.grid.contains(block, self.count)
    }
}

impl<A: Allocator, S: Sharing> fmt::Debug for BlockPool<A, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("block_size", &self.block_size())
            .field("capacity", &self.count)
            .finish_non_exhaustive()
    }
}

/// Thread safety:
///
/// ```
/// use loom_alloc::{Pool, SharedPool, StaticPool};
/// fn sends<T: Send>() {}
/// fn shares<T: Sync>() {}
/// type Source = &'static StaticPool<64, 1>;
/// sends::<Pool<Source>>();
/// sends::<SharedPool<Source>>();
/// shares::<SharedPool<Source>>();
/// shares::<StaticPool<64, 1>>();
/// ```
///
/// ```compile_fail,E0277
/// fn shares<T: Sync>() {}
/// shares::<loom_alloc::Pool<&'static loom_alloc::StaticPool<64, 1>>>();
/// ```
#[cfg(doctest)]
struct Threads;
