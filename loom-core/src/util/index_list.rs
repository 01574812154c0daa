//! [`List`]: elements of a table, linked by their indices. Each operation takes constant time.

use core::cell::Cell;

/// Index without an element. Users may use the highest bit of an index.
pub(crate) const NONE: u32 = u32::MAX >> 1;

/// Neighbours of an element, which is in at most one list.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) next: Cell<u32>,
    pub(crate) previous: Cell<u32>,
}

impl Links {
    pub(crate) const fn new(next: u32) -> Self {
        Links { next: Cell::new(next), previous: Cell::new(NONE) }
    }
}

/// Table of linked elements.
pub(crate) trait Linked {
    /// Returns `None` for [`NONE`].
    fn links(&self, index: u32) -> Option<&Links>;
}

#[derive(Debug)]
pub(crate) struct List {
    first: Cell<u32>,
    last: Cell<u32>,
}

impl List {
    pub(crate) const fn new() -> Self {
        List { first: Cell::new(NONE), last: Cell::new(NONE) }
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        Some(self.first.get()).filter(|first| *first != NONE)
    }

    #[inline]
    pub(crate) fn after(&self, table: &(impl Linked + ?Sized), index: u32) -> Option<u32> {
        Some(self.next(table, index).get()).filter(|next| *next != NONE)
    }

    #[inline]
    pub(crate) fn push(&self, table: &(impl Linked + ?Sized), index: u32) {
        let last = self.last.replace(index);
        if let Some(links) = table.links(index) {
            links.next.set(NONE);
            links.previous.set(last);
        }
        self.next(table, last).set(index);
    }

    pub(crate) fn push_front(&self, table: &(impl Linked + ?Sized), index: u32) {
        let first = self.first.replace(index);
        if let Some(links) = table.links(index) {
            links.next.set(first);
            links.previous.set(NONE);
        }
        self.previous(table, first).set(index);
    }

    /// The element is in this list.
    #[inline]
    pub(crate) fn remove(&self, table: &(impl Linked + ?Sized), index: u32) {
        let Some(links) = table.links(index) else { return };
        let (next, previous) = (links.next.get(), links.previous.get());
        self.next(table, previous).set(next);
        self.previous(table, next).set(previous);
    }

    #[inline]
    fn next<'l>(&'l self, table: &'l (impl Linked + ?Sized), index: u32) -> &'l Cell<u32> {
        table.links(index).map_or(&self.first, |links| &links.next)
    }

    #[inline]
    fn previous<'l>(&'l self, table: &'l (impl Linked + ?Sized), index: u32) -> &'l Cell<u32> {
        table.links(index).map_or(&self.last, |links| &links.previous)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::vec::Vec;

    use super::*;
    use crate::util::random::Random;

    impl Linked for [Links] {
        fn links(&self, index: u32) -> Option<&Links> {
            self.get(index as usize)
        }
    }

    #[test]
    fn list_keeps_the_order_of_a_deque() {
        let table: Vec<Links> = (0..8).map(|_| Links::new(NONE)).collect();
        let (list, mut expected, mut random) = (List::new(), VecDeque::new(), Random::new(1));
        for _ in 0..10_000 {
            let index = u32::try_from(random.next() % 8).expect("below 8");
            if let Some(at) = expected.iter().position(|other| *other == index) {
                expected.remove(at);
                list.remove(&table[..], index);
            } else if random.next().is_multiple_of(2) {
                expected.push_back(index);
                list.push(&table[..], index);
            } else {
                expected.push_front(index);
                list.push_front(&table[..], index);
            }
            let listed = core::iter::successors(list.first(), |index| list.after(&table[..], *index));
            assert!(listed.eq(expected.iter().copied()));
        }
    }
}
