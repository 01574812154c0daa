use core::cell::Cell;

use super::FreeList;

/// Stack of free numbers, for one thread.
///
/// Entries from index `taken` on are the free numbers, the next one first, minus their index.
#[derive(Debug)]
pub(crate) struct OwnerList<S> {
    taken: Cell<u32>,
    entries: S,
}

impl<S> OwnerList<S> {
    pub(crate) const fn new(entries: S) -> Self {
        OwnerList { taken: Cell::new(0), entries }
    }

    pub(crate) const fn taken(&self) -> u32 {
        self.taken.get()
    }
}

impl<S: AsRef<[Cell<u32>]>> FreeList for OwnerList<S> {
    #[inline]
    fn take(&self) -> Option<u32> {
        let place = self.taken.get();
        let entry = self.entries.as_ref().get(place as usize)?;
        self.taken.set(place + 1);
        Some(entry.get().wrapping_add(place))
    }

    #[inline]
    fn put(&self, number: u32) {
        let entries = self.entries.as_ref();
        let place = self.taken.get().wrapping_sub(1);
        debug_assert!((number as usize) < entries.len(), "{number} is none of the list's");
        debug_assert!((place as usize) < entries.len(), "{number} is not taken");
        // Never hand out a number that cannot have been taken.
        if let Some(entry) = entries.get(place as usize).filter(|_| (number as usize) < entries.len()) {
            entry.set(number.wrapping_sub(place));
            self.taken.set(place);
        }
    }
}
