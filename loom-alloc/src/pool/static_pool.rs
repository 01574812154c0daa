use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;

use allocator_api2::alloc::{AllocError, Allocator};

use super::blocks::{Grid, Shape};
use crate::free_list::SharedList;
use crate::ownership::Owns;

/// Lock-free pool of `N` blocks of `BLOCK` bytes in a `static`.
///
/// `&StaticPool` is the allocator. Blocks are aligned to the largest power of two that divides
/// their size, up to 64. The pool takes no room in the program's file.
///
/// ```
/// use loom_alloc::StaticPool;
/// use loom_alloc::allocator_api2::boxed::Box;
///
/// static MESSAGES: StaticPool<1536, 64> = StaticPool::new();
///
/// let message: Box<[u8; 1500], &'static StaticPool<1536, 64>> = Box::try_new_in([7; 1500], &MESSAGES)?;
/// let sum = std::thread::spawn(move || message.iter().map(|byte| u32::from(*byte)).sum::<u32>());
/// assert_eq!(sum.join().expect("no panic"), 7 * 1500);
/// # Ok::<_, loom_alloc::allocator_api2::alloc::AllocError>(())
/// ```
#[repr(C, align(64))]
pub struct StaticPool<const BLOCK: usize, const N: usize> {
    /// First field, at a multiple of 64.
    blocks: UnsafeCell<[[MaybeUninit<u8>; BLOCK]; N]>,
    list: SharedList<[AtomicU32; N]>,
}

// SAFETY: the list gives each block to one holder, which alone accesses it.
unsafe impl<const BLOCK: usize, const N: usize> Sync for StaticPool<BLOCK, N> {}

impl<const BLOCK: usize, const N: usize> StaticPool<BLOCK, N> {
    const ALIGN: usize = {
        assert!(BLOCK > 0, "blocks of no bytes");
        assert!(N < u32::MAX as usize, "too many blocks");
        let divides = 1 << BLOCK.trailing_zeros();
        if divides < 64 { divides } else { 64 }
    };

    const SHAPE: Shape = Shape::new(BLOCK, Self::ALIGN);

    /// Creates a pool. Does not compile if `BLOCK` is 0.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(Self::ALIGN > 0) };
        StaticPool {
            blocks: UnsafeCell::new([[MaybeUninit::uninit(); BLOCK]; N]),
            list: SharedList::new([const { AtomicU32::new(0) }; N]),
        }
    }

    /// Number of blocks.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        N
    }

    /// Bytes of a block.
    #[must_use]
    pub const fn block_size(&self) -> usize {
        BLOCK
    }

    /// Alignment of a block in bytes.
    #[must_use]
    pub const fn block_align(&self) -> usize {
        Self::ALIGN
    }

    #[inline]
    const fn grid(&self) -> Grid {
        let base = NonNull::from_ref(&self.blocks).cast();
        Grid::new(base, Self::SHAPE)
    }
}

// SAFETY: blocks lie in the pool, which outlives its references, and are handed out once (the
// grid's invariants).
unsafe impl<const BLOCK: usize, const N: usize> Allocator for &StaticPool<BLOCK, N> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.grid().allocate(&self.list, layout)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller upholds `Allocator::deallocate`.
        unsafe { self.grid().deallocate(&self.list, block, layout) }
    }

    #[inline]
    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds `Allocator::grow`.
        unsafe { self.grid().grow(&self.list, block, old, new) }
    }

    unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds `Allocator::grow_zeroed`.
        unsafe { self.grid().grow_zeroed(&self.list, block, old, new) }
    }

    #[inline]
    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds `Allocator::shrink`.
        unsafe { self.grid().shrink(&self.list, block, old, new) }
    }
}

// SAFETY: blocks lie in the pool and are taken through references.
unsafe impl<const BLOCK: usize, const N: usize> Owns for StaticPool<BLOCK, N> {
    #[inline]
    fn allocator(&self) -> impl Allocator {
        self
    }

    #[inline]
    fn owns(&self, block: NonNull<u8>, _: Layout) -> bool {
        self.grid().contains(block, N)
    }
}

impl<const BLOCK: usize, const N: usize> Default for StaticPool<BLOCK, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const BLOCK: usize, const N: usize> fmt::Debug for StaticPool<BLOCK, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticPool").field("block_size", &BLOCK).field("capacity", &N).finish_non_exhaustive()
    }
}
