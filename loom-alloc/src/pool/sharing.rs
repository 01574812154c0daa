//! [`Owner`] and [`Shared`]: who uses a pool.

use core::cell::Cell;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;

use crate::free_list::{FreeList, OwnerList, SharedList};

/// Who uses a pool: one thread ([`Owner`]), or many ([`Shared`]).
pub trait Sharing: sealed::List {}

/// One thread uses the pool.
#[derive(Debug)]
pub struct Owner(OwnerList<Numbers<Cell<u32>>>);

/// Any number of threads use the pool.
#[derive(Debug)]
pub struct Shared(SharedList<Numbers<AtomicU32>>);

impl Sharing for Owner {}
impl Sharing for Shared {}

mod sealed {
    use core::ptr::NonNull;

    use crate::free_list::FreeList;

    #[allow(unnameable_types, private_bounds, reason = "sealed")]
    pub trait List: FreeList {
        /// A list over numbers which are all zero.
        ///
        /// # Safety
        /// They are there for as long as the list, which alone reaches them.
        unsafe fn over(numbers: NonNull<[u32]>) -> Self;
    }
}

/// The list's storage, which lies in the pool's block behind what it hands out.
#[derive(Debug)]
struct Numbers<N>(NonNull<[N]>);

impl<N> AsRef<[N]> for Numbers<N> {
    #[inline]
    fn as_ref(&self) -> &[N] {
        // SAFETY: `over` was promised that they are there, and the list's alone.
        unsafe { self.0.as_ref() }
    }
}

impl sealed::List for Owner {
    unsafe fn over(numbers: NonNull<[u32]>) -> Self {
        // A `Cell` is laid out as what it has.
        Owner(OwnerList::new(Numbers(NonNull::slice_from_raw_parts(numbers.cast(), numbers.len()))))
    }
}

impl sealed::List for Shared {
    unsafe fn over(numbers: NonNull<[u32]>) -> Self {
        // An atomic of 32 bits is laid out as a number of 32 bits.
        Shared(SharedList::new(Numbers(NonNull::slice_from_raw_parts(numbers.cast(), numbers.len()))))
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
    pub(super) const fn taken(&self) -> u32 {
        self.0.taken()
    }
}
