//! [`Fallback`]: one allocator, and another one where the first has no room.

#![allow(unsafe_code, reason = "allocation through `Allocator`")]

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use crate::block::{empty, move_to, zero_from};
use crate::owns::Owns;

/// An arena or pool, and another allocator for what the first one has no room for, or no block large enough.
///
/// `&Fallback` is the allocator. A block goes back to where it comes from. One that grows or shrinks does so there if it can, and
/// else moves to wherever a new block would come from.
///
/// The first one is held by value, not by a reference: what it hands out goes through the pair alone. Were it shared, the second
/// allocator could be one that was made in a block of the first one, and the blocks of both would look like the first one's.
///
/// ```
/// use core::alloc::Layout;
///
/// use loom_alloc::{Budget, Fallback, Pool, PoolAttr};
/// use loom_alloc::allocator_api2::alloc::System;
/// use loom_alloc::allocator_api2::vec::Vec;
///
/// let beyond = Budget::new(System, usize::MAX);
/// let messages = Pool::new_in(PoolAttr { block: Layout::new::<[u8; 256]>(), count: 2 }, System)?;
/// let memory = Fallback::new(messages, &beyond);
/// let mut message = Vec::new_in(&memory);
/// message.extend(0..200_u8);
/// assert_eq!((memory.first().taken(), beyond.blocks()), (1, 0));
/// message.extend(0..200_u8);
/// assert_eq!((memory.first().taken(), beyond.blocks()), (0, 1), "too long for a block: it has moved");
/// assert!(message.into_iter().eq((0..200).chain(0..200)));
/// assert_eq!(beyond.blocks(), 0);
/// # Ok::<_, loom_alloc::PoolError>(())
/// ```
///
/// Pairs of three: `Fallback<Pool<_>, &Fallback<Pool<_>, _>>`.
#[derive(Debug)]
pub struct Fallback<P, S> {
    first: P,
    second: S,
}

impl<P: Owns, S: Allocator> Fallback<P, S> {
    /// First `first`, then `second`.
    #[must_use]
    pub const fn new(first: P, second: S) -> Self {
        Fallback { first, second }
    }

    /// The arena or pool that comes first.
    #[must_use]
    pub const fn first(&self) -> &P {
        &self.first
    }

    /// The allocator that comes second.
    #[must_use]
    pub const fn second(&self) -> &S {
        &self.second
    }
}

/// A block of no bytes is nobody's: it comes from neither, and goes back to neither.
impl<P: Owns, S: Allocator> Fallback<P, S>
where
    for<'a> &'a P: Allocator,
{
    /// The second one's block, if it is to be told from the first one's.
    ///
    /// It always is, but for an allocator that takes memory from this very pair once it is in it. For that it would have to
    /// change where its memory comes from, as none here does.
    fn taken_from_second(
        &self,
        layout: Layout,
        taken: Result<NonNull<[u8]>, AllocError>,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let block = taken?;
        if self.first.owns(block.cast(), layout) {
            // SAFETY: taken just now, with this layout.
            unsafe { self.second.deallocate(block.cast(), layout) };
            return Err(AllocError);
        }
        Ok(block)
    }

    /// Moves a block into one of another layout, wherever there is one.
    ///
    /// # Safety
    /// The block was handed out with the layout `old`, of at least one byte.
    unsafe fn move_block(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let moved = self.allocate(new)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { move_to(moved, block, old, self) })
    }

    /// What the second one made of one of its blocks. (See `taken_from_second`. The old block is gone, and there may be no other.)
    fn changed_by_second(
        &self,
        layout: Layout,
        changed: Result<NonNull<[u8]>, AllocError>,
    ) -> Result<NonNull<[u8]>, AllocError> {
        /// Unwinding out of this function is not possible, so the panic ends the process.
        extern "C" fn abort() -> ! {
            panic!("an allocator takes its memory from the pair that it is the second one of")
        }
        if changed.is_ok_and(|block| self.first.owns(block.cast(), layout)) {
            abort();
        }
        changed
    }
}

// SAFETY: blocks are those of the two allocators, which are there as long as the pair is. Each goes back to its own: the
// first one knows its blocks, and the second one's are not among them. Its memory is not the first one's when the pair is made:
// it would have been taken through a reference, and what was is gone when the first one is moved (`Owns`). Later ones are looked at.
unsafe impl<P: Owns, S: Allocator> Allocator for &Fallback<P, S>
where
    for<'a> &'a P: Allocator,
{
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return empty(layout);
        }
        (&self.first).allocate(layout).or_else(|_| self.taken_from_second(layout, self.second.allocate(layout)))
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return empty(layout);
        }
        (&self.first)
            .allocate_zeroed(layout)
            .or_else(|_| self.taken_from_second(layout, self.second.allocate_zeroed(layout)))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() == 0 {
            return;
        }
        if self.first.owns(block, layout) {
            // SAFETY: the caller's promise, and it is the first one's.
            unsafe { (&self.first).deallocate(block, layout) }
        } else {
            // SAFETY: the caller's promise, and it is the second one's.
            unsafe { self.second.deallocate(block, layout) }
        }
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if old.size() == 0 {
            return self.allocate(new);
        }
        let grown = if self.first.owns(block, old) {
            // SAFETY: the caller's promise, and it is the first one's.
            unsafe { (&self.first).grow(block, old, new) }
        } else {
            // SAFETY: the caller's promise, and it is the second one's.
            self.changed_by_second(new, unsafe { self.second.grow(block, old, new) })
        };
        // SAFETY: the caller's promise; a block that could not grow is as it was.
        grown.or_else(|_| unsafe { self.move_block(block, old, new) })
    }

    unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise.
        let grown = unsafe { self.grow(block, old, new) }?;
        // SAFETY: it had `old.size()` bytes, and is handed out anew.
        Ok(unsafe { zero_from(grown, old.size()) })
    }

    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if new.size() == 0 {
            let none = empty(new)?;
            // SAFETY: the caller's promise.
            unsafe { self.deallocate(block, old) };
            return Ok(none);
        }
        let shrunk = if self.first.owns(block, old) {
            // SAFETY: the caller's promise, and it is the first one's.
            unsafe { (&self.first).shrink(block, old, new) }
        } else {
            // SAFETY: the caller's promise, and it is the second one's.
            self.changed_by_second(new, unsafe { self.second.shrink(block, old, new) })
        };
        // SAFETY: the caller's promise; a block that could not shrink is as it was.
        shrunk.or_else(|_| unsafe { self.move_block(block, old, new) })
    }
}
