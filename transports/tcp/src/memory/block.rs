//! [`Block`]: allocator over the memory of a domain.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

/// Cuts a domain's block into pieces, front to back. Freed pieces are not reused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block(NonNull<Head>);

#[derive(Debug)]
struct Head {
    /// Next free byte.
    next: NonNull<u8>,
    left: usize,
}

impl Block {
    /// Layout of a block with these pieces, in this order.
    pub(crate) fn layout(pieces: impl IntoIterator<Item = Option<Layout>>) -> Option<Layout> {
        let mut whole = Layout::new::<Head>();
        for piece in pieces {
            whole = whole.extend(piece?).ok()?.0;
        }
        Some(whole)
    }

    /// # Safety
    /// The memory has `layout`, which [`layout`](Self::layout) returned, and stays while a copy of
    /// the block or memory from it is used.
    pub(crate) unsafe fn over(memory: NonNull<u8>, layout: Layout) -> Self {
        let head = memory.cast::<Head>();
        // SAFETY: the layout begins with a head.
        let next = unsafe { memory.add(size_of::<Head>()) };
        // SAFETY: the layout begins with a head.
        unsafe { head.write(Head { next, left: layout.size() - size_of::<Head>() }) };
        Block(head)
    }
}

// SAFETY: each piece is cut once from the block, which the caller of `over` keeps. Copies of a
// block cut from the same head.
unsafe impl Allocator for Block {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: `over` has written the head, and one thread uses a domain at a time.
        let head = unsafe { &mut *self.0.as_ptr() };
        let skipped = head.next.align_offset(layout.align());
        let taken = skipped.checked_add(layout.size()).filter(|taken| *taken <= head.left).ok_or(AllocError)?;
        // SAFETY: the bytes lie within the block.
        let piece = unsafe { head.next.add(skipped) };
        // SAFETY: the bytes lie within the block.
        head.next = unsafe { head.next.add(taken) };
        head.left -= taken;
        Ok(NonNull::slice_from_raw_parts(piece, layout.size()))
    }

    unsafe fn deallocate(&self, _: NonNull<u8>, _: Layout) {}
}
