//! Allocators for tests, and a leak check.

#![allow(unsafe_code, reason = "forwards an unsafe trait")]

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use allocator_api2::alloc::{AllocError, Allocator};

use crate::budget::Budget;

/// Forwards to another allocator, and fails at one allocation, growth or shrinking.
///
/// `&FailAt` is the allocator.
///
/// ```
/// use loom_alloc::allocator_api2::alloc::System;
/// use loom_alloc::testing::FailAt;
/// use loom_core::error::OpenError;
/// use loom_core::soft::{Network, NetworkAttr};
///
/// let alloc = FailAt::new(System, 0);
/// let open = || Network::new_in(NetworkAttr::default(), &alloc).map(drop);
/// assert!(open().is_err(), "its first allocation fails");
/// assert!(open().is_ok(), "later ones go through");
/// ```
#[derive(Debug)]
pub struct FailAt<A> {
    alloc: A,
    fails: usize,
    asked: AtomicUsize,
}

impl<A> FailAt<A> {
    /// Fails once, after `nth` successful allocations.
    ///
    /// ```
    /// use loom_alloc::allocator_api2::alloc::System;
    /// use loom_alloc::allocator_api2::vec::Vec;
    /// use loom_alloc::testing::FailAt;
    ///
    /// // One allocation goes through.
    /// let alloc = FailAt::new(System, 1);
    /// let mut list = Vec::<u8, _>::new_in(&alloc);
    /// assert!(list.try_reserve_exact(4).is_ok());
    /// // A list that cannot grow keeps what it has.
    /// list.push(7);
    /// assert!(list.try_reserve_exact(100).is_err());
    /// assert_eq!(list, [7]);
    /// ```
    #[must_use]
    pub const fn new(alloc: A, nth: usize) -> Self {
        FailAt { alloc, fails: nth, asked: AtomicUsize::new(0) }
    }

    /// Number of requested allocations.
    ///
    /// ```
    /// use loom_alloc::allocator_api2::alloc::System;
    /// use loom_alloc::allocator_api2::vec::Vec;
    /// use loom_alloc::testing::FailAt;
    ///
    /// let alloc = FailAt::new(System, usize::MAX);
    /// let mut list = Vec::with_capacity_in(100, &alloc);
    /// list.extend(0..100);
    /// assert_eq!(alloc.asked(), 1, "the list does not grow");
    /// ```
    #[must_use]
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Returns `true` after the failure.
    ///
    /// ```
    /// use loom_alloc::allocator_api2::alloc::System;
    /// use loom_alloc::allocator_api2::boxed::Box;
    /// use loom_alloc::testing::FailAt;
    ///
    /// /// Whether it opens when its allocation of this number fails; `None` if it has fewer.
    /// fn opens(nth: usize) -> Option<bool> {
    ///     let alloc = FailAt::new(System, nth);
    ///     let opened = Box::try_new_in(7, &alloc).is_ok();
    ///     alloc.failed().then_some(opened)
    /// }
    ///
    /// assert_eq!((opens(0), opens(1)), (Some(false), None));
    /// ```
    #[must_use]
    pub fn failed(&self) -> bool {
        self.asked() > self.fails
    }

    fn ask(&self) -> Result<(), AllocError> {
        if self.asked.fetch_add(1, Ordering::Relaxed) == self.fails { Err(AllocError) } else { Ok(()) }
    }
}

// SAFETY: blocks come from the inner allocator, which lives as long.
unsafe impl<A: Allocator> Allocator for &FailAt<A> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.ask()?;
        self.alloc.allocate(layout)
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.ask()?;
        self.alloc.allocate_zeroed(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller upholds `Allocator::deallocate`.
        unsafe { self.alloc.deallocate(block, layout) }
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.ask()?;
        // SAFETY: the caller upholds `Allocator::grow`.
        unsafe { self.alloc.grow(block, old, new) }
    }

    unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.ask()?;
        // SAFETY: the caller upholds `Allocator::grow_zeroed`.
        unsafe { self.alloc.grow_zeroed(block, old, new) }
    }

    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.ask()?;
        // SAFETY: the caller upholds `Allocator::shrink`.
        unsafe { self.alloc.shrink(block, old, new) }
    }
}

/// Runs `open` with failure of the first allocation, then of the second, and so on. Returns their
/// number.
///
/// ```
/// use loom_alloc::allocator_api2::alloc::System;
/// use loom_alloc::testing::fail_at_each;
/// use loom_core::soft::{Network, NetworkAttr};
///
/// let allocations = fail_at_each(System, |alloc| Network::new_in(NetworkAttr::default(), alloc).map(drop));
/// assert!(allocations > 0);
/// ```
///
/// # Panics
/// If `open` succeeds despite a failed allocation, fails without one, or leaks a block.
pub fn fail_at_each<A: Allocator, E: fmt::Debug>(
    alloc: A,
    mut open: impl FnMut(&FailAt<&Budget<A>>) -> Result<(), E>,
) -> usize {
    let budget = Budget::new(alloc, usize::MAX);
    let mut nth = 0;
    loop {
        let failing = FailAt::new(&budget, nth);
        let opened = open(&failing);
        let (blocks, bytes) = (budget.blocks(), budget.used());
        assert!(
            blocks == 0,
            "{blocks} blocks of {bytes} bytes are lost with allocation {nth}, which ended in {opened:?}"
        );
        if !failing.failed() {
            assert!(opened.is_ok(), "{opened:?}, without any allocation that fails");
            return nth;
        }
        assert!(opened.is_err(), "allocation {nth} failed without an error");
        nth += 1;
    }
}

/// Forwards to another allocator, and panics at every allocation once sealed.
///
/// `&Sealed` is the allocator. Blocks freed while sealed are counted: a panic would hide a test's
/// failure.
///
/// ```should_panic
/// use loom_alloc::allocator_api2::alloc::System;
/// use loom_alloc::allocator_api2::vec::Vec;
/// use loom_alloc::testing::Sealed;
///
/// let sealed = Sealed::new(System);
/// let mut queue = Vec::with_capacity_in(2, &sealed);
/// sealed.seal();
/// queue.push(1);
/// queue.push(2);
/// queue.push(3);
/// ```
#[derive(Debug)]
pub struct Sealed<A> {
    alloc: A,
    sealed: AtomicBool,
    given_back: AtomicUsize,
}

impl<A> Sealed<A> {
    /// Creates an allocator that is not sealed.
    #[must_use]
    pub const fn new(alloc: A) -> Self {
        Sealed { alloc, sealed: AtomicBool::new(false), given_back: AtomicUsize::new(0) }
    }

    /// Makes later allocations panic.
    ///
    /// ```
    /// use loom_alloc::allocator_api2::alloc::System;
    /// use loom_alloc::allocator_api2::vec::Vec;
    /// use loom_alloc::testing::Sealed;
    ///
    /// let sealed = Sealed::new(System);
    /// let mut waiting = Vec::with_capacity_in(4, &sealed);
    /// sealed.seal();
    /// // From here on the list stays within its capacity.
    /// for job in 0..100 {
    ///     waiting.push(job);
    ///     if waiting.len() == 4 {
    ///         waiting.clear();
    ///     }
    /// }
    /// assert_eq!(sealed.unseal(), 0);
    /// ```
    pub fn seal(&self) {
        self.sealed.store(true, Ordering::Relaxed);
    }

    /// Allows allocations. Returns the number of blocks freed while sealed.
    ///
    /// ```
    /// use loom_alloc::allocator_api2::alloc::System;
    /// use loom_alloc::allocator_api2::boxed::Box;
    /// use loom_alloc::testing::Sealed;
    ///
    /// let sealed = Sealed::new(System);
    /// let block = Box::new_in(7, &sealed);
    /// sealed.seal();
    /// drop(block);
    /// assert_eq!(sealed.unseal(), 1, "a block was given back that should have stayed");
    /// ```
    pub fn unseal(&self) -> usize {
        self.sealed.store(false, Ordering::Relaxed);
        self.given_back.swap(0, Ordering::Relaxed)
    }

    fn is_sealed(&self) -> bool {
        self.sealed.load(Ordering::Relaxed)
    }

    fn check(&self, layout: Layout) {
        assert!(!self.is_sealed(), "an allocation of {} bytes after everything was open", layout.size());
    }
}

// SAFETY: blocks come from the inner allocator, which lives as long.
unsafe impl<A: Allocator> Allocator for &Sealed<A> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.check(layout);
        self.alloc.allocate(layout)
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.check(layout);
        self.alloc.allocate_zeroed(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if self.is_sealed() {
            self.given_back.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller upholds `Allocator::deallocate`.
        unsafe { self.alloc.deallocate(block, layout) }
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.check(new);
        // SAFETY: the caller upholds `Allocator::grow`.
        unsafe { self.alloc.grow(block, old, new) }
    }

    unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.check(new);
        // SAFETY: the caller upholds `Allocator::grow_zeroed`.
        unsafe { self.alloc.grow_zeroed(block, old, new) }
    }

    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.check(new);
        // SAFETY: the caller upholds `Allocator::shrink`.
        unsafe { self.alloc.shrink(block, old, new) }
    }
}

#[cfg(test)]
mod tests {
    use allocator_api2::alloc::System;
    use allocator_api2::boxed::Box;

    use super::*;

    #[test]
    fn each_allocation_fails_once() {
        let open = |alloc: &FailAt<&Budget<System>>| {
            let _one = Box::try_new_in(1_u64, alloc)?;
            let _two = Box::try_new_in(2_u64, alloc)?;
            Box::try_new_in(3_u64, alloc).map(drop)
        };
        assert_eq!(fail_at_each(System, open), 3);
        assert_eq!(fail_at_each(System, |_| Ok::<_, ()>(())), 0);
    }

    #[test]
    #[should_panic(expected = "1 blocks of 8 bytes are lost with allocation 1")]
    fn a_leak_on_the_way_is_found() {
        fail_at_each(System, |alloc| {
            let one = core::mem::ManuallyDrop::new(Box::try_new_in(1_u64, alloc)?);
            Box::try_new_in(2_u64, alloc).map(drop)?;
            drop(core::mem::ManuallyDrop::into_inner(one));
            Ok::<_, AllocError>(())
        });
    }

    #[test]
    #[should_panic(expected = "allocation 0 failed without an error")]
    fn an_error_that_is_passed_over_is_found() {
        fail_at_each(System, |alloc| {
            let _ = Box::try_new_in(1_u64, alloc);
            Ok::<_, AllocError>(())
        });
    }

    #[test]
    #[should_panic(expected = "without any allocation that fails")]
    fn an_unrelated_error_panics() {
        fail_at_each(System, |_| Err("something else"));
    }

    #[test]
    fn deallocations_under_a_seal_are_counted() {
        let budget = Budget::new(System, usize::MAX);
        let sealed = Sealed::new(&budget);
        let block = Box::try_new_in(1_u64, &sealed);
        assert_eq!((budget.blocks(), sealed.unseal()), (1, 0));
        sealed.seal();
        drop(block);
        assert_eq!((budget.blocks(), sealed.unseal()), (0, 1));
        assert!(Box::try_new_in(1_u64, &sealed).is_ok());
    }

    #[test]
    #[should_panic(expected = "an allocation of 8 bytes after everything was open")]
    fn an_allocation_under_a_seal_panics() {
        let sealed = Sealed::new(System);
        sealed.seal();
        let _ = Box::try_new_in(1_u64, &sealed);
    }
}
