use core::ops::Range;

use super::array::Array;

/// Disjoint ranges by address.
pub(super) struct Ordered {
    starts: Array<usize>,
    entries: Array<u32>,
    len: usize,
}

impl Ordered {
    pub(super) const fn new(starts: Array<usize>, entries: Array<u32>) -> Self {
        Ordered { starts, entries, len: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn at_or_before(&self, addr: usize) -> Option<u32> {
        let behind = self.starts[..self.len].partition_point(|start| *start <= addr);
        Some(self.entries[behind.checked_sub(1)?])
    }

    pub(super) fn overlapping(&self, range: &Range<usize>, end_of: impl Fn(u32) -> usize) -> Range<usize> {
        let behind = self.starts[..self.len].partition_point(|start| *start < range.end);
        let mut first = behind;
        while first > 0 && end_of(self.entries[first - 1]) > range.start {
            first -= 1;
        }
        first..behind
    }

    pub(super) fn get(&self, place: usize) -> u32 {
        self.entries[..self.len][place]
    }

    /// Requires room and no overlap.
    pub(super) fn insert(&mut self, start: usize, entry: u32) {
        let place = self.starts[..self.len].partition_point(|other| *other < start);
        self.starts.copy_within(place..self.len, place + 1);
        self.entries.copy_within(place..self.len, place + 1);
        (self.starts[place], self.entries[place]) = (start, entry);
        self.len += 1;
    }

    pub(super) fn remove(&mut self, places: Range<usize>) {
        self.starts.copy_within(places.end..self.len, places.start);
        self.entries.copy_within(places.end..self.len, places.start);
        self.len -= places.len();
    }
}
