//! [`Sharing`]: whether the leases of a slab stay on its thread, and the books that are kept either way.

#![allow(unsafe_code, reason = "keeps books in memory that the slab owns")]

use core::cell::Cell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::free_list::{FreeList, OwnerList, SharedList};

/// Whether the leases of a slab stay on its thread ([`Local`]) or go anywhere ([`Shared`]).
pub trait Sharing: sealed::Books {}

/// One thread has the slab and all of its leases.
#[derive(Debug)]
pub struct Local {
    free: OwnerList<Entries<Cell<u32>>>,
    others: Entries<Cell<u32>>,
}

/// Any number of threads take leases of the slab, send them around, and drop them; lock-free.
#[derive(Debug)]
pub struct Shared {
    free: SharedList<Entries<AtomicU32>>,
    others: Entries<AtomicU32>,
}

impl Sharing for Local {}
impl Sharing for Shared {}

/// One entry for each buffer, in memory that belongs to a slab.
#[derive(Debug)]
pub(super) struct Entries<V>(NonNull<[V]>);

// SAFETY: the entries belong to the one slab whose books they are, and go with it.
unsafe impl<V: Send> Send for Entries<V> {}
// SAFETY: shared references to the entries are all that it gives.
unsafe impl<V: Sync> Sync for Entries<V> {}

impl<V> AsRef<[V]> for Entries<V> {
    #[inline]
    fn as_ref(&self) -> &[V] {
        // SAFETY: valid and initialised for as long as the books are used, and changed through shared references only:
        // `Books::over`.
        unsafe { self.0.as_ref() }
    }
}

impl<V> Entries<V> {
    #[inline]
    fn of(&self, number: u32) -> Option<&V> {
        self.as_ref().get(number as usize)
    }
}

/// The two arrays of a table.
///
/// # Safety
/// The table has `count` entries.
unsafe fn arrays<V>(table: NonNull<[u32; 2]>, count: usize) -> [Entries<V>; 2] {
    const { assert!(size_of::<V>() == size_of::<u32>() && align_of::<V>() == align_of::<u32>()) };
    let first = table.cast::<V>();
    // SAFETY: half of the table.
    let second = unsafe { first.add(count) };
    [first, second].map(|array| Entries(NonNull::slice_from_raw_parts(array, count)))
}

pub(super) mod sealed {
    use super::NonNull;

    /// Which buffers are free, and of those that are not, how many parts are out besides the first one.
    #[expect(unnameable_types, reason = "sealed")]
    pub trait Books: Sized {
        /// Books in which all buffers are free.
        ///
        /// # Safety
        /// The table has `count` entries, all of them zero, which nobody else uses for as long as these books are used.
        unsafe fn over(table: NonNull<[u32; 2]>, count: usize) -> Self;

        /// A buffer that nobody has.
        fn take(&self) -> Option<u32>;

        /// A buffer that was taken, and of which all parts have come back.
        fn put(&self, number: u32);

        /// One part has become two.
        fn split(&self, number: u32);

        /// Two parts have become one.
        fn joined(&self, number: u32);

        /// A part has come back. Whether it was the last one.
        fn ended(&self, number: u32) -> bool;
    }
}

impl sealed::Books for Local {
    unsafe fn over(table: NonNull<[u32; 2]>, count: usize) -> Self {
        // SAFETY: the caller's promise.
        let [free, others] = unsafe { arrays(table, count) };
        Local { free: OwnerList::new(free), others }
    }

    #[inline]
    fn take(&self) -> Option<u32> {
        self.free.take()
    }

    #[inline]
    fn put(&self, number: u32) {
        self.free.put(number);
    }

    // Parts have at least one byte each and do not overlap, so that there are fewer than 2^32 of a buffer.

    #[inline]
    fn split(&self, number: u32) {
        if let Some(others) = self.others.of(number) {
            others.set(others.get().wrapping_add(1));
        }
    }

    #[inline]
    fn joined(&self, number: u32) {
        if let Some(others) = self.others.of(number) {
            others.set(others.get().wrapping_sub(1));
        }
    }

    #[inline]
    fn ended(&self, number: u32) -> bool {
        let Some(others) = self.others.of(number) else { return false };
        match others.get().checked_sub(1) {
            Some(left) => {
                others.set(left);
                false
            }
            None => true,
        }
    }
}

impl sealed::Books for Shared {
    unsafe fn over(table: NonNull<[u32; 2]>, count: usize) -> Self {
        // SAFETY: the caller's promise.
        let [free, others] = unsafe { arrays(table, count) };
        Shared { free: SharedList::new(free), others }
    }

    #[inline]
    fn take(&self) -> Option<u32> {
        self.free.take()
    }

    #[inline]
    fn put(&self, number: u32) {
        self.free.put(number);
    }

    // Relaxed: whoever splits a part, or joins two, has them, and does nothing that somebody else has to see. Their bytes go
    // from thread to thread with the leases.

    #[inline]
    fn split(&self, number: u32) {
        if let Some(others) = self.others.of(number) {
            others.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[inline]
    fn joined(&self, number: u32) {
        if let Some(others) = self.others.of(number) {
            others.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[inline]
    fn ended(&self, number: u32) -> bool {
        let Some(others) = self.others.of(number) else { return false };
        // Release: what was done with the part comes before the buffer is taken again. Acquire: the same of the other parts, for
        // whoever drops the last one and puts the buffer on the list.
        let last = others.fetch_sub(1, Ordering::AcqRel) == 0;
        if last {
            // Relaxed: nobody has a part any more, and the list publishes it to the next one who has.
            others.store(0, Ordering::Relaxed);
        }
        last
    }
}
