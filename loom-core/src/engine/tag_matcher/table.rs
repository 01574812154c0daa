//! [`Table`]: an array in memory that somebody else keeps, reached by numbers that are known to lie in it.

#![allow(unsafe_code, reason = "an array in memory that the caller provides")]

use core::ptr::NonNull;

/// Values, one after the other.
#[derive(Debug)]
pub(crate) struct Table<V> {
    first: NonNull<V>,
    len: u32,
}

impl<V> Clone for Table<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Table<V> {}

impl<V> Table<V> {
    /// A table of values that have been written.
    ///
    /// # Safety
    /// From `first` on there are `len` values, which stay where they are and are reached by shared references only, from one
    /// thread at a time unless they are `Sync`, as long as the table or a copy of it is used. No number that is not below `len` is ever
    /// [looked up](Self::at).
    pub(crate) const unsafe fn new(first: NonNull<V>, len: u32) -> Self {
        Table { first, len }
    }

    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    /// The value of this number.
    #[inline(always)]
    pub(crate) fn at(&self, number: u32) -> &V {
        debug_assert!(number < self.len, "{number} of {}", self.len);
        // SAFETY: the promise of `new`: the number lies in the table.
        let value = unsafe { self.first.add(number as usize) };
        // SAFETY: as above: the value is there, and is not borrowed exclusively.
        unsafe { value.as_ref() }
    }
}

#[cfg(test)]
impl<V: 'static> Table<V> {
    /// A table for a test, whose memory is not freed.
    pub(crate) fn leaked(values: impl IntoIterator<Item = V>) -> Self {
        let values: &'static mut [V] = values.into_iter().collect::<std::vec::Vec<V>>().leak();
        let len = u32::try_from(values.len()).expect("a short table");
        let first = NonNull::from(values).cast();
        // SAFETY: the values are there for good, and reached through the table alone; a test looks up what it has put in.
        unsafe { Table::new(first, len) }
    }
}
