#![allow(unsafe_code, reason = "forwards an unsafe trait")]

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use allocator_api2::alloc::{AllocError, Allocator};

use crate::counted::{Refused, Tally};

/// Limited number of bytes of another allocator, with counters.
///
/// `&Budget` is the allocator, `Sync` if the inner one is. Requested bytes count, also pending
/// ones, and a growing or shrinking block with its new size.
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
    /// Limits `alloc` to `limit` bytes at a time. `usize::MAX` only counts.
    #[must_use]
    pub const fn new(alloc: A, limit: usize) -> Self {
        Budget { limit, tally: Tally::new(), refusals: AtomicUsize::new(0), alloc }
    }

    /// Maximum bytes at a time.
    #[must_use]
    pub const fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes taken.
    #[must_use]
    pub fn used(&self) -> usize {
        self.tally.bytes()
    }

    /// Bytes left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.limit - self.used()
    }

    /// Blocks taken, without empty ones.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.tally.blocks()
    }

    /// Maximum bytes ever taken at a time, up to the limit. May include bytes that the inner
    /// allocator refused.
    #[must_use]
    pub fn high_water(&self) -> usize {
        self.tally.high_water()
    }

    /// Requests beyond the limit, without refusals of the inner allocator.
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

// SAFETY: blocks come from the inner allocator, which lives as long.
unsafe impl<A: Allocator> Allocator for &Budget<A> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.counted(self.tally.allocate(self.limit, layout, || self.alloc.allocate(layout)))
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.counted(self.tally.allocate(self.limit, layout, || self.alloc.allocate_zeroed(layout)))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller upholds `Allocator::deallocate`.
        unsafe { self.tally.deallocate(&self.alloc, block, layout) }
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds `Allocator::grow`.
        self.counted(self.tally.grow(self.limit, old, new, || unsafe { self.alloc.grow(block, old, new) }))
    }

    unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds `Allocator::grow_zeroed`.
        self.counted(self.tally.grow(self.limit, old, new, || unsafe { self.alloc.grow_zeroed(block, old, new) }))
    }

    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds `Allocator::shrink`.
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

/// `Sync` if the inner allocator is:
///
/// ```
/// fn shares<T: Sync>() {}
/// shares::<loom_alloc::Budget<loom_alloc::allocator_api2::alloc::System>>();
/// ```
///
/// ```compile_fail,E0277
/// fn shares<T: Sync>() {}
/// shares::<loom_alloc::Budget<&'static loom_alloc::Arena<'static>>>();
/// ```
#[cfg(doctest)]
struct Threads;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::std_instead_of_alloc, reason = "tests fail by panicking, and have std")]
mod tests {
    use core::panic::AssertUnwindSafe;
    use std::panic;
    use std::thread;
    use std::vec::Vec;

    use allocator_api2::alloc::System;
    use allocator_api2::boxed::Box;

    use super::*;
    use crate::testing::{FailAt, Sealed};

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).unwrap()
    }

    #[test]
    fn bytes_are_counted_exactly_as_blocks_change() {
        let budget = Budget::new(System, 100);
        let state = || (budget.used(), budget.blocks(), budget.high_water(), budget.refusals());
        let block = (&budget).allocate(layout(40)).unwrap();
        assert_eq!((state(), block.len()), ((40, 1, 40, 0), 40));
        // SAFETY: allocated with this layout.
        let block = unsafe { (&budget).grow(block.cast(), layout(40), layout(100)) }.unwrap();
        assert_eq!(state(), (100, 1, 100, 0));
        // SAFETY: allocated with this layout.
        assert!(unsafe { (&budget).grow_zeroed(block.cast(), layout(100), layout(101)) }.is_err());
        assert_eq!(state(), (100, 1, 100, 1));
        // SAFETY: allocated with this layout.
        let block = unsafe { (&budget).shrink(block.cast(), layout(100), layout(10)) }.unwrap();
        assert_eq!(state(), (10, 1, 100, 1));
        let empty = (&budget).allocate(layout(0)).unwrap();
        assert_eq!(state(), (10, 1, 100, 1));
        assert!(
            (&budget).allocate(layout(91)).is_err() && (&budget).allocate(layout(isize::MAX as usize - 7)).is_err()
        );
        assert_eq!((state(), budget.remaining(), budget.limit()), ((10, 1, 100, 3), 90, 100));
        for (block, size) in [(block, 10), (empty, 0)] {
            // SAFETY: allocated with these layouts.
            unsafe { (&budget).deallocate(block.cast(), layout(size)) };
        }
        assert_eq!(state(), (0, 0, 100, 3));
    }

    #[test]
    fn refusals_of_the_other_allocator_are_not_counted() {
        let failing = FailAt::new(System, 1);
        let budget = Budget::new(&failing, 100);
        let block = (&budget).allocate(layout(8)).unwrap();
        // SAFETY: allocated with this layout.
        assert!(unsafe { (&budget).grow(block.cast(), layout(8), layout(64)) }.is_err());
        assert_eq!((budget.used(), budget.blocks(), budget.high_water(), budget.refusals()), (8, 1, 8, 0));
        // SAFETY: the failed call left this layout.
        unsafe { (&budget).deallocate(block.cast(), layout(8)) };
        let failing = FailAt::new(System, 0);
        let budget = Budget::new(&failing, 100);
        assert!((&budget).allocate_zeroed(layout(8)).is_err());
        assert_eq!((budget.used(), budget.blocks(), budget.high_water(), budget.refusals()), (0, 0, 0, 0));
    }

    #[test]
    fn an_allocation_that_panics_is_not_counted() {
        let sealed = Sealed::new(System);
        sealed.seal();
        let budget = Budget::new(&sealed, 100);
        let asked = panic::catch_unwind(AssertUnwindSafe(|| (&budget).allocate(layout(8)).is_ok()));
        assert!(asked.is_err());
        assert_eq!((budget.used(), budget.blocks(), budget.high_water()), (0, 0, 0));
    }

    #[test]
    fn threads_never_have_more_than_the_limit_together() {
        let budget = Budget::new(System, 10 * 64);
        thread::scope(|scope| {
            let threads = [0, 1, 2, 3].map(|me: u8| {
                let budget = &budget;
                scope.spawn(move || {
                    for round in 0..5_000 {
                        let blocks: Vec<_> = (0..round % 5).map(|_| Box::try_new_in([me; 64], budget)).collect();
                        assert!(budget.used() <= budget.limit());
                        assert!(blocks.iter().flatten().all(|block| **block == [me; 64]));
                    }
                })
            });
            for thread in threads {
                thread.join().expect("no panic");
            }
        });
        assert_eq!((budget.used(), budget.blocks()), (0, 0));
        assert!(budget.high_water() <= budget.limit());
    }
}
