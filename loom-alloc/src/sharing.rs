//! [`Owner`] and [`Shared`]: who uses a pool or a slab.

#![allow(unsafe_code, reason = "keeps numbers in memory that a pool or a slab owns")]

use core::cell::Cell;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;

use crate::free_list::{FreeList, OwnerList, SharedList};
use crate::registered::Parts;

/// Who uses a pool, or a slab and its leases: one thread ([`Owner`]), or many ([`Shared`]).
pub trait Sharing: sealed::List {}

/// One thread.
#[derive(Debug)]
pub struct Owner(OwnerList<Numbers<Cell<u32>>>);

/// Any number of threads, lock-free.
#[derive(Debug)]
pub struct Shared(SharedList<Numbers<AtomicU32>>);

impl Sharing for Owner {}
impl Sharing for Shared {}

pub(crate) mod sealed {
    use core::ptr::NonNull;

    use crate::free_list::FreeList;
    use crate::registered::Parts;

    #[allow(unnameable_types, private_bounds, reason = "sealed")]
    pub trait List: FreeList {
        /// A number that as many threads use: with it, a slab counts the parts of a buffer.
        type Number: Parts;

        /// A list over numbers which are all zero.
        ///
        /// # Safety
        /// They are there for as long as the list, which alone reaches them.
        unsafe fn over(numbers: NonNull<[u32]>) -> Self;
    }
}

/// Numbers in memory of somebody else, who sees to it that they are there for as long as this is, and reached through it alone.
#[derive(Debug)]
pub(crate) struct Numbers<N>(NonNull<[N]>);

// SAFETY: the numbers are reached through this alone, and go with it.
unsafe impl<N: Send> Send for Numbers<N> {}
// SAFETY: shared references to the numbers are all that it gives.
unsafe impl<N: Sync> Sync for Numbers<N> {}

impl<N: Parts> Numbers<N> {
    /// # Safety
    /// They are there for as long as the value, which alone reaches them.
    pub(crate) const unsafe fn over(numbers: NonNull<[u32]>) -> Self {
        const { assert!(size_of::<N>() == size_of::<u32>() && align_of::<N>() == align_of::<u32>()) };
        // A cell or an atomic of 32 bits is laid out as a number of 32 bits.
        Numbers(NonNull::slice_from_raw_parts(numbers.cast(), numbers.len()))
    }
}

impl<N> AsRef<[N]> for Numbers<N> {
    #[inline]
    fn as_ref(&self) -> &[N] {
        // SAFETY: `over` was promised that they are there, and reached through this alone.
        unsafe { self.0.as_ref() }
    }
}

impl sealed::List for Owner {
    type Number = Cell<u32>;

    unsafe fn over(numbers: NonNull<[u32]>) -> Self {
        // SAFETY: the caller's promise.
        Owner(OwnerList::new(unsafe { Numbers::over(numbers) }))
    }
}

impl sealed::List for Shared {
    type Number = AtomicU32;

    unsafe fn over(numbers: NonNull<[u32]>) -> Self {
        // SAFETY: the caller's promise.
        Shared(SharedList::new(unsafe { Numbers::over(numbers) }))
    }
}

impl FreeList for Owner {
    #[inline]
    fn take(&self) -> Option<u32> {
        self.0.take()
    }

    #[inline]
    fn put(&self, number: u32) {
        self.0.put(number);
    }
}

impl FreeList for Shared {
    #[inline]
    fn take(&self) -> Option<u32> {
        self.0.take()
    }

    #[inline]
    fn put(&self, number: u32) {
        self.0.put(number);
    }
}

impl Owner {
    /// How many numbers are taken.
    pub(crate) const fn taken(&self) -> u32 {
        self.0.taken()
    }
}
