//! [`Block`]: memory of an allocator, freed on drop.

#![allow(unsafe_code, reason = "allocation through `Allocator`")]

use core::alloc::Layout;
use core::fmt;
use core::mem::ManuallyDrop;
use core::num::NonZero;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

pub(crate) struct Block<A: Allocator> {
    ptr: NonNull<u8>,
    layout: Layout,
    alloc: ManuallyDrop<A>,
}

// SAFETY: the block owns its memory. Only the allocator may depend on the thread.
unsafe impl<A: Allocator + Send> Send for Block<A> {}
// SAFETY: a shared reference gives address and layout. The allocator is used on drop.
unsafe impl<A: Allocator + Sync> Sync for Block<A> {}

impl<A: Allocator> Block<A> {
    pub(crate) fn new(layout: Layout, alloc: A) -> Result<Self, AllocError> {
        let ptr = alloc.allocate(layout)?.cast();
        Ok(Block { ptr, layout, alloc: ManuallyDrop::new(alloc) })
    }

    pub(crate) fn zeroed(layout: Layout, alloc: A) -> Result<Self, AllocError> {
        let ptr = alloc.allocate_zeroed(layout)?.cast();
        Ok(Block { ptr, layout, alloc: ManuallyDrop::new(alloc) })
    }

    pub(crate) fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    pub(crate) fn len(&self) -> usize {
        self.layout.size()
    }
}

impl<A: Allocator> Drop for Block<A> {
    fn drop(&mut self) {
        // SAFETY: `new` or `zeroed` allocated it with this layout.
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

pub(crate) fn empty(layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
    let block = NonZero::new(layout.align()).map(NonNull::without_provenance).ok_or(AllocError)?;
    Ok(NonNull::slice_from_raw_parts(block, 0))
}

pub(crate) fn is_aligned(block: NonNull<u8>, layout: Layout) -> bool {
    block.addr().get() & (layout.align() - 1) == 0
}

/// # Safety
/// The block has grown from `len` bytes, and no caller has it yet.
pub(crate) unsafe fn zero_from(grown: NonNull<[u8]>, len: usize) -> NonNull<[u8]> {
    // SAFETY: the block has at least `len` bytes.
    let added = unsafe { grown.cast::<u8>().add(len) };
    // SAFETY: no caller has the rest of the block yet.
    unsafe { added.write_bytes(0, grown.len() - len) };
    grown
}

/// # Safety
/// `from` handed out `block` with the layout `old`. It is not used afterwards.
pub(crate) unsafe fn move_to(
    new_block: NonNull<[u8]>,
    block: NonNull<u8>,
    old: Layout,
    from: impl Allocator,
) -> NonNull<[u8]> {
    let len = old.size().min(new_block.len());
    // SAFETY: both blocks are allocated, so disjoint, and have `len` bytes.
    unsafe { block.copy_to_nonoverlapping(new_block.cast(), len) };
    // SAFETY: the caller guarantees that `from` handed it out with the layout `old`.
    unsafe { from.deallocate(block, old) };
    new_block
}
