//! [`Budget`]: no more than so many bytes of another allocator.

#![allow(unsafe_code, reason = "forwards an unsafe trait")]

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use allocator_api2::alloc::{AllocError, Allocator};

use crate::tally::{Refused, Tally};

/// No more than so many bytes of another allocator at a time, and counts of what is taken.
///
/// `&Budget` is the allocator; it is `Sync` if the other one is. Bytes are counted as they are asked for, without what the other
/// allocator needs beside them. A block that grows or shrinks counts with its new size, also while it moves.
///
/// The counts are exact. They are read one by one: while other threads take blocks, they need not fit together.
///
/// ```
/// use loom_alloc::Budget;
/// use loom_alloc::allocator_api2::alloc::System;
/// use loom_alloc::allocator_api2::vec::Vec;
///
/// let budget = Budget::new(System, 1000);
/// let mut numbers = Vec::new_in(&budget);
/// numbers.try_reserve_exact(100)?;
/// numbers.push(1_u64);
/// assert_eq!((budget.used(), budget.blocks(), budget.remaining()), (800, 1, 200));
/// assert!(numbers.try_reserve_exact(125).is_err());
/// drop(numbers);
/// assert_eq!((budget.used(), budget.blocks(), budget.high_water(), budget.refusals()), (0, 0, 800, 1));
/// # Ok::<_, loom_alloc::allocator_api2::collections::TryReserveError>(())
/// ```
pub struct Budget<A> {
    limit: usize,
    tally: Tally,
    refusals: AtomicUsize,
    alloc: A,
}

impl<A> Budget<A> {
    /// At most `limit` bytes of `alloc` at a time; `usize::MAX` only counts.
    #[must_use]
    pub const fn new(alloc: A, limit: usize) -> Self {
        Budget { limit, tally: Tally::new(), refusals: AtomicUsize::new(0), alloc }
    }

    /// How many bytes may be taken at a time.
    #[must_use]
    pub const fn limit(&self) -> usize {
        self.limit
    }

    /// How many bytes are taken.
    #[must_use]
    pub fn used(&self) -> usize {
        self.tally.bytes()
    }

    /// How many bytes may be taken yet.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.limit - self.used()
    }

    /// How many blocks are taken, those of no bytes among them.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.tally.blocks()
    }

    /// The most bytes that were ever taken at a time: how large the limit has to be for what the program did until now.
    #[must_use]
    pub fn high_water(&self) -> usize {
        self.tally.high_water()
    }

    /// How often more was asked for than the limit admits. (That the other allocator has no room is not counted.)
    #[must_use]
    pub fn refusals(&self) -> usize {
        self.refusals.load(Ordering::Relaxed)
    }

    fn counted(&self, taken: Result<NonNull<[u8]>, Refused>) -> Result<NonNull<[u8]>, AllocError> {
        if let Err(Refused::Limit) = taken {
            self.refusals.fetch_add(1, Ordering::Relaxed);
        }
        Ok(taken?)
    }
}

// SAFETY: blocks are those of the other allocator, which is there as long as the budget is.
unsafe impl<A: Allocator> Allocator for &Budget<A> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.counted(self.tally.allocate(self.limit, layout, || self.alloc.allocate(layout)))
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.counted(self.tally.allocate(self.limit, layout, || self.alloc.allocate_zeroed(layout)))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { self.tally.deallocate(&self.alloc, block, layout) }
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise.
        self.counted(self.tally.grow(self.limit, old, new, || unsafe { self.alloc.grow(block, old, new) }))
    }

    unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise.
        self.counted(self.tally.grow(self.limit, old, new, || unsafe { self.alloc.grow_zeroed(block, old, new) }))
    }

    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise.
        unsafe { self.tally.shrink(&self.alloc, block, old, new) }
    }
}

impl<A> fmt::Debug for Budget<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("limit", &self.limit)
            .field("used", &self.used())
            .field("blocks", &self.blocks())
            .field("high_water", &self.high_water())
            .field("refusals", &self.refusals())
            .finish_non_exhaustive()
    }
}
