//! [`Table`]: an array in borrowed memory, with unchecked lookups of numbers known to be in range.

#![allow(unsafe_code, reason = "an array in memory that the caller provides")]

use core::ptr::NonNull;

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
    /// Creates a table of initialised values.
    ///
    /// # Safety
    /// `first` points to `len` values. While the table or a copy of it is used, they stay in place
    /// and are reached only by shared references, and only from one thread at a time unless they
    /// are `Sync`. Every number passed to [`at`](Self::at) is below `len`.
    pub(crate) const unsafe fn new(first: NonNull<V>, len: u32) -> Self {
        Table { first, len }
    }

    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    #[inline(always)]
    pub(crate) fn at(&self, number: u32) -> &V {
        debug_assert!(number < self.len, "{number} of {}", self.len);
        // SAFETY: the caller of `new` guarantees that `number` is below `len`.
        let value = unsafe { self.first.add(number as usize) };
        // SAFETY: the caller of `new` guarantees that the value is initialised and only shared.
        unsafe { value.as_ref() }
    }
}

#[cfg(test)]
impl<V: 'static> Table<V> {
    pub(crate) fn leaked(values: impl IntoIterator<Item = V>) -> Self {
        let values: &'static mut [V] = values.into_iter().collect::<std::vec::Vec<V>>().leak();
        let len = u32::try_from(values.len()).expect("a short table");
        let first = NonNull::from(values).cast();
        // SAFETY: the leaked values are reached only through the table, and a test looks up only
        // numbers in range.
        unsafe { Table::new(first, len) }
    }
}
