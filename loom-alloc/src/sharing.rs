#![allow(unsafe_code, reason = "keeps numbers in memory that a pool or a slab owns")]

use core::cell::Cell;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;

use crate::free_list::{FreeList, OwnerList, SharedList};
use crate::registered::Parts;

/// Use of a pool, or a slab and its leases, by one thread ([`Owner`]) or many ([`Shared`]).
pub trait Sharing: sealed::List {}

/// Use by one thread.
#[derive(Debug)]
pub struct Owner(OwnerList<Numbers<Cell<u32>>>);

/// Use by any number of threads, without locks.
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
        /// Part counter of a slab.
        type Number: Parts;

        /// Creates a list over zeroed numbers.
        ///
        /// # Safety
        /// The numbers exist as long as the list, which alone accesses them.
        unsafe fn over(numbers: NonNull<[u32]>) -> Self;
    }
}

/// Numbers in memory of another value, accessed through this one alone.
#[derive(Debug)]
pub(crate) struct Numbers<N>(NonNull<[N]>);

// SAFETY: accessed only through this value.
unsafe impl<N: Send> Send for Numbers<N> {}
// SAFETY: gives only shared references.
unsafe impl<N: Sync> Sync for Numbers<N> {}

impl<N: Parts> Numbers<N> {
    /// # Safety
    /// The numbers exist as long as the value, which alone accesses them.
    pub(crate) const unsafe fn over(numbers: NonNull<[u32]>) -> Self {
        const { assert!(size_of::<N>() == size_of::<u32>() && align_of::<N>() == align_of::<u32>()) };
        // Cells and atomics of 32 bits have the layout of `u32`.
        Numbers(NonNull::slice_from_raw_parts(numbers.cast(), numbers.len()))
    }
}

impl<N> AsRef<[N]> for Numbers<N> {
    #[inline]
    fn as_ref(&self) -> &[N] {
        // SAFETY: the caller of `over` guarantees that the numbers exist, for this value alone.
        unsafe { self.0.as_ref() }
    }
}

impl sealed::List for Owner {
    type Number = Cell<u32>;

    unsafe fn over(numbers: NonNull<[u32]>) -> Self {
        // SAFETY: the caller lends the numbers to the list alone.
        Owner(OwnerList::new(unsafe { Numbers::over(numbers) }))
    }
}

impl sealed::List for Shared {
    type Number = AtomicU32;

    unsafe fn over(numbers: NonNull<[u32]>) -> Self {
        // SAFETY: the caller lends the numbers to the list alone.
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
    pub(crate) const fn taken(&self) -> u32 {
        self.0.taken()
    }
}
