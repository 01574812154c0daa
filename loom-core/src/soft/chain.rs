//! [`Chain`]: a list that one thread keeps, of numbered places which are linked through themselves.

use core::cell::Cell;

use super::list::NIL;

/// Places, oldest first. A place is in one chain at most.
#[derive(Debug)]
pub(super) struct Chain {
    first: Cell<u32>,
    /// Means something while there is a first.
    last: Cell<u32>,
}

impl Chain {
    pub(super) fn new() -> Self {
        Chain { first: Cell::new(NIL), last: Cell::new(NIL) }
    }

    /// The oldest place.
    #[inline]
    pub(super) fn first(&self) -> u32 {
        self.first.get()
    }

    /// Appends a place which is in no chain. `next_of` is the link of each place.
    #[inline]
    pub(super) fn append<'p>(&self, place: u32, next_of: impl Fn(u32) -> &'p Cell<u32>) {
        next_of(place).set(NIL);
        match self.first.get() {
            NIL => self.first.set(place),
            _ => next_of(self.last.get()).set(place),
        }
        self.last.set(place);
    }

    /// Takes a place out that comes after `before`, or first.
    #[inline]
    pub(super) fn remove<'p>(&self, before: u32, place: u32, next_of: impl Fn(u32) -> &'p Cell<u32>) {
        let next = next_of(place).get();
        match before {
            NIL => self.first.set(next),
            _ => next_of(before).set(next),
        }
        if next == NIL {
            self.last.set(before);
        }
    }

    /// Empties the chain, and returns its first place.
    pub(super) fn take(&self) -> u32 {
        self.first.replace(NIL)
    }
}
