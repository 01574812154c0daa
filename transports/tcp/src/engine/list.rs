//! Lists of indices, linked through the elements of a table.

use super::NIL;

/// Element with a link to the next one of its list.
pub(crate) trait Linked {
    fn next(&mut self) -> &mut u32;
}

/// First in, first out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    first: u32,
    last: u32,
}

impl List {
    pub(crate) const fn new() -> Self {
        List { first: NIL, last: NIL }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.first == NIL
    }

    pub(crate) fn first(&self) -> Option<u32> {
        (self.first != NIL).then_some(self.first)
    }

    pub(crate) fn push(&mut self, table: &mut [impl Linked], index: u32) {
        *table[index as usize].next() = NIL;
        if self.first == NIL {
            self.first = index;
        } else {
            *table[self.last as usize].next() = index;
        }
        self.last = index;
    }

    pub(crate) fn pop(&mut self, table: &mut [impl Linked]) -> Option<u32> {
        let first = self.first()?;
        self.first = *table[first as usize].next();
        if self.first == NIL {
            self.last = NIL;
        }
        Some(first)
    }

    /// Removes the first element that fits.
    pub(crate) fn remove<V: Linked>(&mut self, table: &mut [V], fits: impl Fn(&V) -> bool) -> Option<u32> {
        let (mut before, mut at) = (NIL, self.first);
        while at != NIL {
            let next = *table[at as usize].next();
            if fits(&table[at as usize]) {
                if before == NIL {
                    self.first = next;
                } else {
                    *table[before as usize].next() = next;
                }
                if next == NIL {
                    self.last = before;
                }
                return Some(at);
            }
            (before, at) = (at, next);
        }
        None
    }
}

/// Free elements: last in, first out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Free {
    first: u32,
    count: u32,
}

impl Free {
    /// The list of `count` elements from `first` on, whose links are [`chained`](Self::chained).
    pub(crate) const fn all(first: u32, count: u32) -> Self {
        Free { first: if count == 0 { NIL } else { first }, count }
    }

    /// Link of element `index` of those that end before `end`.
    pub(crate) const fn chained(index: u32, end: u32) -> u32 {
        if index + 1 == end { NIL } else { index + 1 }
    }

    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn take(&mut self, table: &mut [impl Linked]) -> Option<u32> {
        if self.first == NIL {
            return None;
        }
        let index = self.first;
        self.first = *table[index as usize].next();
        self.count -= 1;
        Some(index)
    }

    pub(crate) fn give_back(&mut self, table: &mut [impl Linked], index: u32) {
        *table[index as usize].next() = self.first;
        self.first = index;
        self.count += 1;
    }
}
