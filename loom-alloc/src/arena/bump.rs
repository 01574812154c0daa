//! [`Bump`]: hands out memory from its begin to its end.
//!
//! # Invariants
//!
//! 1. The `capacity` bytes from `base` on belong to the arena that has the `Bump`, and are reached through it alone.
//! 2. `used <= capacity`. Every block that was handed out and not given back lies within the first `used` bytes, and no
//!    two of them overlap, but for empty ones.
//!
//! It follows that a block which ends at `used` is the last one, and that bytes beyond `used` belong to nobody.

#![allow(unsafe_code, reason = "hands out parts of memory")]

use core::alloc::Layout;
use core::cell::Cell;
use core::fmt;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use crate::block::{empty, is_aligned, move_to, zero_from};

/// How far memory is handed out.
pub(super) struct Bump {
    base: NonNull<u8>,
    capacity: usize,
    used: Cell<usize>,
    /// The most that were used when some of it was given back. (So taking a block does not touch it.)
    peak: Cell<usize>,
}

impl Bump {
    /// Of so many bytes from `base` on, of which invariant 1 has to hold.
    pub(super) const fn new(base: NonNull<u8>, capacity: usize) -> Self {
        Bump { base, capacity, used: Cell::new(0), peak: Cell::new(0) }
    }

    pub(super) const fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) const fn used(&self) -> usize {
        self.used.get()
    }

    pub(super) const fn high_water(&self) -> usize {
        let (used, peak) = (self.used.get(), self.peak.get());
        if used > peak { used } else { peak }
    }

    /// Nothing is handed out any more.
    pub(super) fn reset(&mut self) {
        self.give_back_to(0);
    }

    pub(super) fn contains(&self, block: NonNull<u8>) -> bool {
        block.addr().get().wrapping_sub(self.base.addr().get()) < self.capacity
    }

    pub(super) fn fmt_as(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("used", &self.used())
            .field("capacity", &self.capacity)
            .field("high_water", &self.high_water())
            .finish_non_exhaustive()
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

// SAFETY: blocks lie in the arena's memory, whose lifetime it sees to, and do not overlap (invariants 1 and 2).
unsafe impl Allocator for &Bump {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return empty(layout);
        }
        let block = self.take(layout).ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if let Some(begin) = self.begin_of_last(block, layout.size()) {
            self.give_back_to(begin);
        }
    }

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

    unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise.
        let grown = unsafe { self.grow(block, old, new) }?;
        // SAFETY: it had `old.size()` bytes, and is handed out anew.
        Ok(unsafe { zero_from(grown, old.size()) })
    }

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
