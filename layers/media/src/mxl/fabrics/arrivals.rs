//! [`Arrivals`]: immediate data of writes that have arrived, matched with the headers in memory.
//!
//! Memory may be ahead of the queue: the header of a slot may belong to a later write, which is in
//! progress or has its immediate data still in the queue. Writes of a connection arrive in order
//! and go around the ring, so that of the immediate data in the queue before the headers are read:
//! - Of a slot, only the last may belong to the header, and only if no other follows after the
//!   headers are read.
//! - The newest one belongs to its header, unless the others follow around the ring.
//! - From the newest one back, indices decrease. Another header belongs to a write in progress.

use std::vec::Vec;

/// Slot or entry of a write, and its number of valid slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) place: usize,
    pub(super) end: u16,
}

pub(super) type Match<H> = (Mark, Option<H>);

/// Memory for one mark of each place.
pub(super) struct Arrivals<H> {
    places: usize,
    /// In the order of arrival.
    marks: Vec<Mark>,
    /// Headers of the first marks.
    headers: Vec<Option<(u64, H)>>,
    /// The next one is the last.
    matches: Vec<Match<H>>,
}

impl<H: Copy> Arrivals<H> {
    pub(super) fn new(places: usize) -> Self {
        let (marks, headers) = (Vec::with_capacity(places), Vec::with_capacity(places));
        Arrivals { places, marks, headers, matches: Vec::with_capacity(places) }
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
    }

    pub(super) fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    pub(super) fn read(&mut self, header: impl Fn(&Mark) -> Option<(u64, H)>) {
        self.headers.clear();
        self.headers.extend(self.marks.iter().map(header));
    }

    /// Matches the marks that were read with their headers. Marks noted meanwhile stay: all of the
    /// queue, or some.
    pub(super) fn accept(&mut self, all: bool) {
        let later = self.marks.len() - self.headers.len();
        let mut bound = if all && later + 1 < self.places { u64::MAX } else { 0 };
        self.matches.clear();
        for (mark, header) in self.marks.drain(..self.headers.len()).zip(self.headers.drain(..)).rev() {
            match header {
                Some((number, header)) if number < bound => {
                    bound = number;
                    self.matches.push((mark, Some(header)));
                }
                Some(_) => {}
                None => self.matches.push((mark, None)),
            }
        }
    }

    pub(super) fn next(&mut self) -> Option<Match<H>> {
        self.matches.pop()
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
        arrivals.read(|mark| Some((in_slot(mark.place), in_slot(mark.place))));
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
    fn places_without_header_are_reported_without_it() {
        let mut arrivals = Arrivals::<()>::new(2);
        arrivals.note(Mark { place: 1, end: 4 });
        arrivals.read(|_| None);
        arrivals.accept(true);
        assert_eq!(arrivals.next(), Some((Mark { place: 1, end: 4 }, None)));
    }
}
