//! [`Arrivals`]: immediate data of writes that have arrived, matched with the headers in memory.
//!
//! Memory may be ahead of the queue: the header of a slot may belong to a later write, which is in
//! progress or has its immediate data still in the queue. Initiators go around the ring. With less
//! immediate data than slots since the queue was empty, each belongs to its header. Otherwise,
//! writes are in order, so that of the immediate data in the queue before the headers are read:
//! - Of a slot, only the last may belong to the header, and only if no other follows.
//! - The newest one belongs to its header, unless the others follow around the ring.
//! - From the newest one back, indices decrease. Another header belongs to a write in progress.

use core::cmp::Reverse;
use std::vec::Vec;

/// Slot or entry of a write, and its number of valid slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) place: usize,
    pub(super) end: u16,
}

pub(super) type Match<H> = (Mark, Option<H>);

pub(super) struct Arrivals<H> {
    places: usize,
    marks: Vec<Mark>,
    /// Headers of the first marks.
    headers: Vec<Option<(u64, H)>>,
    /// The next one is the last.
    matches: Vec<(u64, Match<H>)>,
    /// Marks since the queue was empty, now and at the last reading.
    noted: usize,
    read: usize,
    was_quiet: bool,
}

impl<H: Copy> Arrivals<H> {
    pub(super) fn new(places: usize) -> Self {
        let (marks, headers) = (Vec::with_capacity(places), Vec::with_capacity(places));
        let matches = Vec::with_capacity(places);
        Arrivals { places, marks, headers, matches, noted: 0, read: 0, was_quiet: true }
    }

    /// Takes the place of earlier immediate data of the slot.
    pub(super) fn note(&mut self, mark: Mark) {
        if let Some(at) = self.marks.iter().position(|earlier| earlier.place == mark.place) {
            self.marks.remove(at);
            if at < self.headers.len() {
                self.headers.remove(at);
            }
        }
        self.marks.push(mark);
        self.noted = self.noted.saturating_add(1);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    pub(super) fn read(&mut self, was_quiet: bool, header: impl Fn(&Mark) -> Option<(u64, H)>) {
        (self.was_quiet, self.read) = (was_quiet, self.noted);
        self.headers.clear();
        self.headers.extend(self.marks.iter().map(header));
    }

    /// Matches the marks that were read with their headers. Marks noted meanwhile stay: all of the
    /// queue, or some.
    pub(super) fn accept(&mut self, all: bool) {
        let is_round = !all || self.noted >= self.places;
        let later = self.marks.len() - self.headers.len();
        let mut bound = if all && later + 1 < self.places { u64::MAX } else { 0 };
        self.matches.clear();
        for (mark, header) in self.marks.drain(..self.headers.len()).zip(self.headers.drain(..)).rev() {
            match header {
                Some((number, header)) if number < bound || !is_round => {
                    bound = number;
                    self.matches.push((number, (mark, Some(header))));
                }
                Some(_) => {}
                None => self.matches.push((0, (mark, None))),
            }
        }
        if !is_round {
            self.matches.sort_unstable_by_key(|(number, _)| Reverse(*number));
        }
        if self.was_quiet {
            self.noted -= self.read;
        }
    }

    pub(super) fn next(&mut self) -> Option<Match<H>> {
        self.matches.pop().map(|(_, found)| found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reported grains of those up to `last` before the headers are read, with `later` ones after,
    /// and memory `ahead`.
    fn reported(slots: u64, last: u64, ahead: u64, later: u64) -> Vec<u64> {
        let place = |index: u64| usize::try_from(index % slots).expect("few");
        let mut arrivals = Arrivals::new(usize::try_from(slots).expect("few"));
        for index in 0..=last {
            arrivals.note(Mark { place: place(index), end: 17 });
        }
        let newest = last + ahead;
        let in_slot = |place: usize| newest - (newest + slots - place as u64) % slots;
        arrivals.read(true, |mark| Some((in_slot(mark.place), in_slot(mark.place))));
        for index in last + 1..=last + later {
            arrivals.note(Mark { place: place(index), end: 17 });
        }
        arrivals.accept(true);
        assert_eq!(arrivals.is_empty(), later == 0);
        core::iter::from_fn(|| arrivals.next()).filter_map(|(_, header)| header).collect()
    }

    #[test]
    fn a_header_of_a_write_in_progress_is_not_reported() {
        assert_eq!(reported(3, 9, 0, 0), [7, 8, 9]);
        assert_eq!(reported(3, 9, 1, 0), [8, 9]);
        assert_eq!(reported(5, 2, 1, 0), [0, 1, 2]);
        assert_eq!(reported(2, 7, 1, 0), [7]);
    }

    #[test]
    fn a_header_of_a_later_write_is_not_reported() {
        // In progress, or complete, when the headers are read.
        for ahead in 0..3 {
            assert_eq!(reported(5, 9, ahead, 2), [7, 8, 9]);
        }
        assert_eq!(reported(5, 9, 3, 2), [8, 9]);
        // Once around the ring.
        assert!(reported(5, 9, 4, 4).is_empty());
        assert!(reported(5, 9, 5, 4).is_empty());
    }

    #[test]
    fn grains_of_less_than_a_round_arrive_in_any_order() {
        let mut arrivals = Arrivals::new(5);
        let mut matched = |indices: &[u64]| {
            for index in indices {
                arrivals.note(Mark { place: usize::try_from(index % 5).expect("few"), end: 17 });
            }
            let header =
                |mark: &Mark| indices.iter().find(|index| **index % 5 == mark.place as u64).map(|of| (*of, *of));
            arrivals.read(true, header);
            arrivals.accept(true);
            core::iter::from_fn(|| arrivals.next()).filter_map(|(_, header)| header).collect::<Vec<_>>()
        };
        assert_eq!(matched(&[1, 0, 3, 2]), [0, 1, 2, 3]);
        assert_eq!(matched(&[6, 4]), [4, 6]);
        // Some may be of the round before.
        assert_eq!(matched(&[5, 7, 8, 9, 11]), [5, 7, 8, 9, 11]);
        assert_eq!(matched(&[12, 10, 13, 14, 16]), [10, 13, 14, 16]);
    }

    #[test]
    fn places_without_header_are_reported_without_it() {
        let mut arrivals = Arrivals::<()>::new(2);
        arrivals.note(Mark { place: 1, end: 4 });
        arrivals.read(true, |_| None);
        arrivals.accept(true);
        assert_eq!(arrivals.next(), Some((Mark { place: 1, end: 4 }, None)));
    }
}
