//! # Invariants
//! 1. The `capacity` bytes from `base` on exist as long as the arena, wherever it moves, and are
//!    accessed through it alone.
//! 2. `used <= capacity`. Allocated blocks lie within the first `used` bytes, and are disjoint if
//!    not empty.

#![allow(unsafe_code, reason = "hands out parts of memory")]

use core::alloc::Layout;
use core::cell::Cell;
use core::fmt;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use crate::block::{empty, is_aligned, move_to, zero_from};
use crate::ownership::Owns;

/// Memory handed out from front to back, of the caller ([`Arena`](super::Arena)) or an allocator
/// ([`OwnedArena`](super::OwnedArena)).
pub struct BumpArena<M> {
    base: NonNull<u8>,
    capacity: usize,
    used: Cell<usize>,
    /// Maximum of `used` before a return of memory.
    peak: Cell<usize>,
    /// Invariant 1.
    _memory: M,
}

// SAFETY: the arena owns its memory. Holders of blocks borrow it by a reference that is not `Send`,
// so it stays on its thread meanwhile.
unsafe impl<M: Send> Send for BumpArena<M> {}

impl<M> BumpArena<M> {
    /// # Safety
    /// The bytes exist as long as `memory`, wherever it moves. Only this arena accesses them.
    pub(super) const unsafe fn over(base: NonNull<u8>, capacity: usize, memory: M) -> Self {
        BumpArena { base, capacity, used: Cell::new(0), peak: Cell::new(0), _memory: memory }
    }

    /// Size in bytes.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes handed out, with gaps for alignment.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.used.get()
    }

    /// Bytes left, some for alignment.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.capacity() - self.used()
    }

    /// Maximum bytes ever used.
    #[must_use]
    pub const fn high_water(&self) -> usize {
        let (used, peak) = (self.used.get(), self.peak.get());
        if used > peak { used } else { peak }
    }

    /// Frees all memory. The high-water mark stays.
    ///
    /// The exclusive borrow excludes users, even forgotten ones. A `&'static Arena` cannot be
    /// reset.
    ///
    /// ```
    /// use core::mem::MaybeUninit;
    ///
    /// use loom_alloc::Arena;
    /// use loom_alloc::allocator_api2::boxed::Box;
    ///
    /// let mut memory = [MaybeUninit::uninit(); 64];
    /// let mut arena = Arena::new(&mut memory);
    /// for job in 0..100 {
    ///     let (one, two) = (Box::try_new_in([job; 4], &arena)?, Box::try_new_in([job; 4], &arena)?);
    ///     core::mem::forget(two);
    ///     drop(one);
    ///     assert_eq!(arena.used(), 32, "forgotten, and in the way of the other one");
    ///     arena.reset();
    /// }
    /// assert_eq!((arena.used(), arena.high_water()), (0, 32));
    /// # Ok::<_, loom_alloc::allocator_api2::alloc::AllocError>(())
    /// ```
    ///
    /// ```compile_fail,E0502
    /// use core::mem::MaybeUninit;
    ///
    /// use loom_alloc::Arena;
    /// use loom_alloc::allocator_api2::boxed::Box;
    ///
    /// let mut memory = [MaybeUninit::uninit(); 64];
    /// let mut arena = Arena::new(&mut memory);
    /// let kept = Box::leak(Box::try_new_in(7, &arena).unwrap());
    /// arena.reset();
    /// assert_eq!(*kept, 7);
    /// ```
    pub fn reset(&mut self) {
        self.give_back_to(0);
    }

    /// All blocks beyond `used` have been returned.
    fn give_back_to(&self, used: usize) {
        self.peak.set(self.high_water());
        self.used.set(used);
    }

    fn take(&self, layout: Layout) -> Option<NonNull<u8>> {
        let used = self.used.get();
        let free = self.base.addr().get().wrapping_add(used);
        let padding = free.wrapping_neg() & (layout.align() - 1);
        let start = used.checked_add(padding)?;
        let end = start.checked_add(layout.size()).filter(|end| *end <= self.capacity)?;
        self.used.set(end);
        // SAFETY: `start <= end <= capacity` (invariant 1).
        Some(unsafe { self.base.add(start) })
    }

    /// The block with another size, from the arena's own pointer: the caller's may be valid for
    /// less.
    fn in_place(&self, block: NonNull<u8>, size: usize) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.base.with_addr(block.addr()), size)
    }

    fn begin_of_last(&self, block: NonNull<u8>, size: usize) -> Option<usize> {
        let begin = block.addr().get().wrapping_sub(self.base.addr().get());
        (size > 0 && begin.checked_add(size) == Some(self.used.get())).then_some(begin)
    }
}

// SAFETY: blocks lie in memory that outlives the reference and its copies, and are disjoint
// (invariants 1 and 2).
unsafe impl<M> Allocator for &BumpArena<M> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return empty(layout);
        }
        let block = self.take(layout).ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if let Some(begin) = self.begin_of_last(block, layout.size()) {
            self.give_back_to(begin);
        }
    }

    #[inline]
    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if is_aligned(block, new) {
            if new.size() == old.size() {
                return Ok(self.in_place(block, new.size()));
            }
            if let Some(begin) = self.begin_of_last(block, old.size()) {
                // It does not fit elsewhere: all other room lies behind it.
                let end = begin.checked_add(new.size()).filter(|end| *end <= self.capacity).ok_or(AllocError)?;
                self.used.set(end);
                return Ok(self.in_place(block, new.size()));
            }
        }
        let moved = self.allocate(new)?;
        // SAFETY: the caller upholds `Allocator::grow`.
        Ok(unsafe { move_to(moved, block, old, self) })
    }

    #[inline]
    unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds `Allocator::grow_zeroed`.
        let grown = unsafe { self.grow(block, old, new) }?;
        // SAFETY: the block grew from `old.size()` bytes just now.
        Ok(unsafe { zero_from(grown, old.size()) })
    }

    #[inline]
    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if !is_aligned(block, new) {
            let moved = self.allocate(new)?;
            // SAFETY: the caller upholds `Allocator::shrink`.
            return Ok(unsafe { move_to(moved, block, old, self) });
        }
        if let Some(begin) = self.begin_of_last(block, old.size()) {
            self.give_back_to(begin + new.size());
        }
        Ok(self.in_place(block, new.size()))
    }
}

// SAFETY: the arena owns its memory alone. Blocks are taken through references.
unsafe impl<M> Owns for BumpArena<M> {
    #[inline]
    fn allocator(&self) -> impl Allocator {
        self
    }

    fn owns(&self, block: NonNull<u8>, _: Layout) -> bool {
        block.addr().get().wrapping_sub(self.base.addr().get()) < self.capacity
    }
}

impl<M> fmt::Debug for BumpArena<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BumpArena")
            .field("used", &self.used())
            .field("capacity", &self.capacity)
            .field("high_water", &self.high_water())
            .finish_non_exhaustive()
    }
}
