//! [`Owner`] and [`Shared`]: who uses a pool or a slab.

#![allow(unsafe_code, reason = "keeps numbers in memory that a pool or a slab owns")]

use core::cell::Cell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::free_list::{FreeList, OwnerList, SharedList};

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

    use super::Parts;
    use crate::free_list::FreeList;

    #[allow(unnameable_types, private_bounds, reason = "sealed")]
    pub trait List: FreeList {
        /// A number that as many threads use.
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

/// Of something that was taken from a list and cut into parts: how many parts there are besides the first one. Fewer than 2^32.
pub(crate) trait Parts {
    /// One part has become two.
    fn split(&self);

    /// Two parts have become one.
    fn joined(&self);

    /// A part has ended. Whether it was the last one; then the number is zero again.
    fn ended(&self) -> bool;
}

impl Parts for Cell<u32> {
    #[inline]
    fn split(&self) {
        self.set(self.get().wrapping_add(1));
    }

    #[inline]
    fn joined(&self) {
        self.set(self.get().wrapping_sub(1));
    }

    #[inline]
    fn ended(&self) -> bool {
        let left = self.get().checked_sub(1);
        self.set(left.unwrap_or(0));
        left.is_none()
    }
}

impl Parts for AtomicU32 {
    // Relaxed: whoever splits a part, or joins two, has them, and does nothing that somebody else has to see. What is in them
    // goes from thread to thread with the parts.

    #[inline]
    fn split(&self) {
        self.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    fn joined(&self) {
        self.fetch_sub(1, Ordering::Relaxed);
    }

    #[inline]
    fn ended(&self) -> bool {
        // Release: what was done with the part comes before the whole is taken again. Acquire: the same of the other parts, for
        // whoever ends the last one and puts the whole on the list.
        let last = self.fetch_sub(1, Ordering::AcqRel) == 0;
        if last {
            // Relaxed: nobody has a part any more, and the list publishes it to the next one who has.
            self.store(0, Ordering::Relaxed);
        }
        last
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
