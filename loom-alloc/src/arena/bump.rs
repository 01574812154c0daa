//! [`BumpArena`]: hands out memory from its begin to its end.
//!
//! # Invariants
//!
//! 1. The `capacity` bytes from `base` on are there for as long as the arena is, wherever it is moved, and are reached through it alone.
//! 2. `used <= capacity`. Every block that was handed out and not given back lies within the first `used` bytes, and no
//!    two of them overlap, but for empty ones.
//!
//! It follows that a block which ends at `used` is the last one, and that no block has bytes beyond `used`.

#![allow(unsafe_code, reason = "hands out parts of memory")]

use core::alloc::Layout;
use core::cell::Cell;
use core::fmt;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use crate::block::{empty, is_aligned, move_to, zero_from};
use crate::owns::Owns;

/// Memory, handed out from its begin to its end: the caller's ([`Arena`](super::Arena)), or a block of another allocator
/// ([`OwnedArena`](super::OwnedArena)).
pub struct BumpArena<M> {
    base: NonNull<u8>,
    capacity: usize,
    used: Cell<usize>,
    /// The most that were used when some of it was given back. (So taking a block does not touch it.)
    peak: Cell<usize>,
    /// With it, the memory goes (invariant 1).
    _memory: M,
}

// SAFETY: an arena has its memory alone, and two numbers. While blocks are out, their holders borrow the arena (they have a
// reference to it, which is not `Send`), so it does not move to another thread.
unsafe impl<M: Send> Send for BumpArena<M> {}

impl<M> BumpArena<M> {
    /// An arena over `capacity` bytes from `base` on.
    ///
    /// # Safety
    /// They are there for as long as `memory` is, wherever that is moved, and only this arena reaches them.
    pub(super) const unsafe fn over(base: NonNull<u8>, capacity: usize, memory: M) -> Self {
        BumpArena { base, capacity, used: Cell::new(0), peak: Cell::new(0), _memory: memory }
    }

    /// How many bytes there are in all.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many bytes are handed out, with what lies between them.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.used.get()
    }

    /// How many bytes are left; a block may need some of them for its alignment.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.capacity() - self.used()
    }

    /// The most bytes that were ever used: how large the arena has to be for what the program did until now.
    #[must_use]
    pub const fn high_water(&self) -> usize {
        let (used, peak) = (self.used.get(), self.peak.get());
        if used > peak { used } else { peak }
    }

    /// Makes all of it free again. What took memory from the arena is gone by now: it borrows the arena for as long as it
    /// may look at that memory. The high-water mark stays.
    ///
    /// It is as if the arena were dropped, and another one made over the same memory. So a value that was forgotten is no
    /// danger: the borrow that it had is over, and with it everybody's right to look at it. Where a borrow never ends, as
    /// that of a `&'static Arena`, there is no exclusive one to call this with.
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

    /// `used` is no more than it was, and every block beyond it is given back.
    fn give_back_to(&self, used: usize) {
        self.peak.set(self.high_water());
        self.used.set(used);
    }

    /// Takes the next bytes that are aligned for the layout. The state is as before if there is no room.
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

    /// A block where it is, with another size: reached through the arena's own pointer, as the caller's may be good for the old
    /// size only.
    fn in_place(&self, block: NonNull<u8>, size: usize) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.base.with_addr(block.addr()), size)
    }

    /// Where the block begins, if it is the last one.
    fn begin_of_last(&self, block: NonNull<u8>, size: usize) -> Option<usize> {
        let begin = block.addr().get().wrapping_sub(self.base.addr().get());
        // An empty block may be anywhere, and has no room to give.
        (size > 0 && begin.checked_add(size) == Some(self.used.get())).then_some(begin)
    }
}

// SAFETY: blocks lie in memory that is there for longer than the reference lives, wherever the reference is moved or copied, and do not
// overlap (invariants 1 and 2).
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
                // Where it does not fit in place, it fits nowhere: all other room lies beyond.
                let end = begin.checked_add(new.size()).filter(|end| *end <= self.capacity).ok_or(AllocError)?;
                self.used.set(end);
                return Ok(self.in_place(block, new.size()));
            }
        }
        let moved = self.allocate(new)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { move_to(moved, block, old, self) })
    }

    #[inline]
    unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise.
        let grown = unsafe { self.grow(block, old, new) }?;
        // SAFETY: it had `old.size()` bytes, and is handed out anew.
        Ok(unsafe { zero_from(grown, old.size()) })
    }

    #[inline]
    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if !is_aligned(block, new) {
            let moved = self.allocate(new)?;
            // SAFETY: the caller's promise.
            return Ok(unsafe { move_to(moved, block, old, self) });
        }
        if let Some(begin) = self.begin_of_last(block, old.size()) {
            self.give_back_to(begin + new.size());
        }
        Ok(self.in_place(block, new.size()))
    }
}

// SAFETY: blocks lie in the arena's memory, which it has alone; they are taken through references.
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
