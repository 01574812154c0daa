//! [`Pool`], [`SharedPool`], [`StaticPool`] and [`SizeClasses`]: blocks of fixed sizes, in constant time.

#![allow(unsafe_code, reason = "hands out parts of the memory that it has")]

mod grid;
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
use crate::owns::Owns;
use crate::sharing::{Owner, Shared, Sharing};
use grid::{Grid, Shape};

pub use size_classes::{SizeClasses, Spill};
pub use static_pool::StaticPool;

/// How many blocks a pool has, and of what size.
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
    /// What a block has room for, and how it is aligned. Its size is rounded up to a multiple of the alignment, and is not zero.
    pub block: Layout,
    /// How many blocks there are; fewer than `u32::MAX`.
    pub count: usize,
}

impl PoolAttr {
    /// The block that a pool takes from its allocator: its footprint. `None` if there is no such pool, because its blocks have no
    /// bytes, there are too many of them, or they are too large.
    #[must_use]
    pub fn layout(&self) -> Option<Layout> {
        Some(self.parts()?.0)
    }

    /// The whole, and where the numbers begin in it.
    fn parts(&self) -> Option<(Layout, usize)> {
        let block = self.block.pad_to_align();
        if block.size() == 0 || self.count >= u32::MAX as usize {
            return None;
        }
        let blocks = Layout::from_size_align(block.size().checked_mul(self.count)?, block.align()).ok()?;
        blocks.extend(Layout::array::<u32>(self.count).ok()?).ok()
    }
}

/// A [`BlockPool`] of one thread: taking a block and giving it back takes a handful of instructions, whatever happened before.
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

/// A [`BlockPool`] of any number of threads: `Sync`, and lock-free.
///
/// A thread that is stopped in the middle of taking a block or giving one back delays no other thread. Taking a block and giving it
/// back is one compare-and-swap each, repeated where another thread came first.
///
/// The free blocks are on seven stacks, and a thread uses one of them (an address on its call stack tells which one): threads that
/// take blocks and give them back do not meet. A thread whose stack is empty takes from the others'. So a block can be given
/// back on any thread, no thread keeps blocks from the others, and an allocation fails only if at some moment during the call no
/// block is free. Each pool has the heads of the stacks in itself, 128 bytes each.
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
/// A reference to it is the allocator. It gives a block to whatever fits one, and an error where the size or the alignment is
/// larger, or where no block is left. A block grows and shrinks in place, within its size. Blocks of no bytes take nothing.
///
/// The pool takes one block of its allocator when it is made ([`PoolAttr::layout`]), and gives it back when it is dropped. Over
/// memory of the caller, it is made in an [`Arena`](crate::Arena) over that. What is free is remembered in four bytes for each
/// block, apart from them, so that free blocks are not touched.
pub struct BlockPool<A: Allocator, S: Sharing> {
    grid: Grid,
    count: usize,
    list: S,
    _block: Block<A>,
}

// SAFETY: a pool has its memory and its list alone. While blocks are out, their holders borrow the pool, so it does not move
// to another thread if it is not `Sync`.
unsafe impl<A: Allocator + Send, S: Sharing> Send for BlockPool<A, S> {}
// SAFETY: the list is `Sync` by its atomics, and decides who has which block; the rest is never written.
unsafe impl<A: Allocator + Sync> Sync for SharedPool<A> {}

impl<A: Allocator> Pool<A> {
    /// How many blocks are taken.
    #[must_use]
    pub const fn taken(&self) -> u32 {
        self.list.taken()
    }
}

impl<A: Allocator, S: Sharing> BlockPool<A, S> {
    /// A pool in one block of `alloc`.
    ///
    /// # Errors
    /// [`OpenError::Size`] if there is no such pool, [`OpenError::OutOfMemory`] if `alloc` has no room for it.
    pub fn new_in(attr: PoolAttr, alloc: A) -> Result<Self, OpenError> {
        let (layout, numbers_at) = attr.parts().ok_or(OpenError::Size)?;
        let block = Block::new(layout, alloc).map_err(|_| OpenError::OutOfMemory)?;
        // SAFETY: the numbers begin within the block.
        let numbers = unsafe { block.ptr().add(numbers_at) }.cast::<u32>();
        // SAFETY: the layout has room for that number of them, aligned.
        unsafe { numbers.write_bytes(0, attr.count) };
        // SAFETY: they are there as long as the block, which the list stays beside, and the list alone reaches them.
        let list = unsafe { S::over(NonNull::slice_from_raw_parts(numbers, attr.count)) };
        let shape = Shape::new(attr.block.pad_to_align().size(), attr.block.align());
        // The blocks are the first part of the pool's own block, and the list has their count (the grid's invariants).
        Ok(BlockPool { grid: Grid::new(block.ptr(), shape), count: attr.count, list, _block: block })
    }

    /// How many blocks there are in all.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.count
    }

    /// What a block has room for, in bytes.
    #[must_use]
    pub const fn block_size(&self) -> usize {
        self.grid.block_size()
    }

    /// How a block is aligned.
    #[must_use]
    pub const fn block_align(&self) -> usize {
        self.grid.align()
    }
}

// SAFETY: blocks lie in a block that is the pool's until it is dropped, which a reference to it outlives nowhere, and each
// is handed out once (the grid's invariants).
unsafe impl<A: Allocator, S: Sharing> Allocator for &BlockPool<A, S> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.grid.allocate(&self.list, layout)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { self.grid.deallocate(&self.list, block, layout) }
    }

    #[inline]
    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise.
        unsafe { self.grid.grow(&self.list, block, old, new) }
    }

    unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise.
        unsafe { self.grid.grow_zeroed(&self.list, block, old, new) }
    }

    #[inline]
    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise.
        unsafe { self.grid.shrink(&self.list, block, old, new) }
    }
}

// SAFETY: blocks lie in the pool's block, which it has alone; they are taken through references.
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

/// Who may have what, as the documentation says:
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
