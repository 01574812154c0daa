//! [`Block`]: memory of an allocator, given back when it is dropped; and what allocators do alike with blocks.

#![allow(unsafe_code, reason = "allocation through `Allocator`")]

use core::alloc::Layout;
use core::fmt;
use core::mem::ManuallyDrop;
use core::num::NonZero;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

/// A block of memory from `A`, freed on drop.
pub(crate) struct Block<A: Allocator> {
    ptr: NonNull<u8>,
    layout: Layout,
    alloc: ManuallyDrop<A>,
}

// SAFETY: the memory belongs to the block alone, and nothing depends on the thread but the allocator.
unsafe impl<A: Allocator + Send> Send for Block<A> {}
// SAFETY: a shared block gives out its address and layout only; the allocator is used when it is dropped.
unsafe impl<A: Allocator + Sync> Sync for Block<A> {}

impl<A: Allocator> Block<A> {
    pub(crate) fn new(layout: Layout, alloc: A) -> Result<Self, AllocError> {
        let ptr = alloc.allocate(layout)?.cast();
        Ok(Block { ptr, layout, alloc: ManuallyDrop::new(alloc) })
    }

    /// A block of zeros.
    pub(crate) fn zeroed(layout: Layout, alloc: A) -> Result<Self, AllocError> {
        let ptr = alloc.allocate_zeroed(layout)?.cast();
        Ok(Block { ptr, layout, alloc: ManuallyDrop::new(alloc) })
    }

    pub(crate) fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    /// Bytes that were asked for.
    pub(crate) fn len(&self) -> usize {
        self.layout.size()
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

impl<A: Allocator> fmt::Debug for Block<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("layout", &self.layout).finish_non_exhaustive()
    }
}

/// A block of no bytes, which takes nothing.
pub(crate) fn empty(layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
    let block = NonZero::new(layout.align()).map(NonNull::without_provenance).ok_or(AllocError)?;
    Ok(NonNull::slice_from_raw_parts(block, 0))
}

/// Whether a block that begins here is aligned for the layout.
pub(crate) fn is_aligned(block: NonNull<u8>, layout: Layout) -> bool {
    block.addr().get() & (layout.align() - 1) == 0
}

/// Fills what a block has grown by with zeros.
///
/// # Safety
/// The block has grown from `len` bytes, and the caller does not know it yet.
pub(crate) unsafe fn zero_from(grown: NonNull<[u8]>, len: usize) -> NonNull<[u8]> {
    // SAFETY: the block is at least as long as it was.
    let added = unsafe { grown.cast::<u8>().add(len) };
    // SAFETY: the rest of the block, which no caller has yet.
    unsafe { added.write_bytes(0, grown.len() - len) };
    grown
}

/// Moves the contents of a block into a new one, and gives the old one back.
///
/// # Safety
/// `block` was handed out by `from` with the layout `old`, and is not used afterwards.
pub(crate) unsafe fn move_to(
    new_block: NonNull<[u8]>,
    block: NonNull<u8>,
    old: Layout,
    from: impl Allocator,
) -> NonNull<[u8]> {
    let len = old.size().min(new_block.len());
    // SAFETY: the old block is not given back yet, so the new one does not overlap it; both have `len` bytes.
    unsafe { block.copy_to_nonoverlapping(new_block.cast(), len) };
    // SAFETY: the caller's promise.
    unsafe { from.deallocate(block, old) };
    new_block
}
