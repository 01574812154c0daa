use heapless::Vec;

/// Ranges of numbers that have arrived beyond a number below which all have.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    /// All below it have arrived, or are given up.
    start: u64,
    /// Disjoint, in order, none of them at `start`.
    beyond: Vec<(u64, u64), { Ranges::MAX }>,
}

impl Ranges {
    /// Transfers that may overtake each other: as many as an engine has numbers for.
    pub(crate) const MAX: usize = 16;

    pub(crate) const fn new(start: u64) -> Self {
        Ranges { start, beyond: Vec::new() }
    }

    pub(crate) const fn start(&self) -> u64 {
        self.start
    }

    /// Adds a range. Returns `false` if it is one too many.
    pub(crate) fn insert(&mut self, from: u64, to: u64) -> bool {
        let (mut from, mut to) = (from.max(self.start), to);
        if from >= to {
            return true;
        }
        self.beyond.retain(|&(start, end)| {
            let touches = start <= to && from <= end;
            if touches {
                (from, to) = (from.min(start), to.max(end));
            }
            !touches
        });
        if from == self.start {
            self.start = to;
            return true;
        }
        let at = self.beyond.iter().position(|range| range.0 > from).unwrap_or(self.beyond.len());
        self.beyond.insert(at, (from, to)).is_ok()
    }

    pub(crate) fn give_up(&mut self, below: u64) -> Option<(u64, u64)> {
        if self.start >= below {
            return None;
        }
        let from = self.start;
        let to = match self.beyond.first() {
            Some(&(start, end)) if start <= below => {
                self.beyond.remove(0);
                self.start = end;
                start
            }
            _ => {
                self.start = below;
                below
            }
        };
        Some((from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_in_any_order_join() {
        let mut ranges = Ranges::new(0);
        for (from, to) in [(4, 6), (8, 10), (2, 3), (6, 8), (0, 1), (3, 4)] {
            assert!(ranges.insert(from, to));
        }
        assert_eq!((ranges.start(), &ranges.beyond[..]), (1, &[(2, 10)][..]));
        assert!(ranges.insert(0, 2));
        assert_eq!((ranges.start(), ranges.beyond.len()), (10, 0));
        assert!(ranges.insert(3, 5), "a range that has arrived");
        assert_eq!(ranges.start(), 10);
    }

    #[test]
    fn missing_ranges_are_given_up_once() {
        let mut ranges = Ranges::new(10);
        assert!(ranges.insert(12, 14) && ranges.insert(20, 21));
        assert_eq!(ranges.give_up(17), Some((10, 12)));
        assert_eq!(ranges.give_up(17), Some((14, 17)));
        assert_eq!(ranges.give_up(17), None);
        assert_eq!(ranges.give_up(20), Some((17, 20)));
        assert_eq!((ranges.give_up(21), ranges.start()), (None, 21));
    }

    #[test]
    fn one_range_too_many_is_refused() {
        let mut ranges = Ranges::new(0);
        assert!((1..=16).all(|at| ranges.insert(2 * at, 2 * at + 1)));
        assert!(!ranges.insert(100, 101));
        assert!(ranges.insert(3, 4), "it joins two");
    }
}
