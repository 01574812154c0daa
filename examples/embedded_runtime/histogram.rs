//! Times in places of fixed number: each is known to a sixteenth of its value.

use std::fmt;
use std::time::Duration;

/// Bits of a value that are kept behind its first one.
const BITS: u32 = 4;
const EACH: usize = 1 << BITS;
/// One group for each place of the first bit, and one for the values below.
const GROUPS: usize = (u64::BITS - BITS) as usize + 1;

pub(crate) struct Histogram {
    counts: Box<[u64]>,
    count: u64,
    longest: u64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Histogram { counts: vec![0; GROUPS * EACH].into_boxed_slice(), count: 0, longest: 0 }
    }

    pub(crate) fn record(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.counts[place(nanos)] += 1;
        self.count += 1;
        self.longest = self.longest.max(nanos);
    }

    /// The least time, in ns, that so many of a million are not above.
    fn quantile(&self, of_million: u64) -> u64 {
        let wanted = (u128::from(self.count) * u128::from(of_million)).div_ceil(1_000_000).max(1);
        let mut seen = 0;
        for (place, count) in self.counts.iter().enumerate() {
            seen += u128::from(*count);
            if seen >= wanted {
                return highest(place).min(self.longest);
            }
        }
        self.longest
    }
}

/// Where a value is counted.
fn place(value: u64) -> usize {
    let Some(shift) = (u64::BITS - value.leading_zeros()).checked_sub(BITS + 1) else {
        return usize::try_from(value).unwrap_or(0);
    };
    // The first bit is one: the group follows from the shift.
    (shift as usize) * EACH + usize::try_from(value >> shift).unwrap_or(0)
}

/// The highest value of a place.
fn highest(place: usize) -> u64 {
    if place < 2 * EACH {
        return place as u64;
    }
    let shift = place / EACH - 1;
    let first = (EACH + place % EACH) as u64;
    (first << shift) + ((1 << shift) - 1)
}

impl fmt::Display for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from due to answered, in us:")?;
        for (name, of_million) in
            [("p50", 500_000), ("p90", 900_000), ("p99", 990_000), ("p99.9", 999_000), ("p99.99", 999_900)]
        {
            let nanos = self.quantile(of_million);
            write!(f, "  {name} {}.{:02}", nanos / 1000, nanos % 1000 / 10)?;
        }
        write!(f, "  longest {}.{:02}", self.longest / 1000, self.longest % 1000 / 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_place_that_holds_it_to_a_sixteenth() {
        let values = (0..70_000)
            .chain((0..63).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1, 3 << bit]))
            .chain([u64::MAX]);
        for value in values {
            let at = place(value);
            assert!(at < GROUPS * EACH, "{value}");
            assert!(
                highest(at) >= value && highest(at) - value <= value / 16,
                "{value} at {at}: up to {}",
                highest(at)
            );
            assert!(at == 0 || highest(at - 1) < value, "{value}");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.quantile(500_000), 0);
        (1..=1000).for_each(|micros| histogram.record(Duration::from_micros(micros)));
        for (of_million, micros) in [(500_000, 500), (990_000, 990), (1_000_000, 1000), (0, 1)] {
            let found = histogram.quantile(of_million);
            assert!((micros * 1000..=micros * 1000 * 17 / 16).contains(&found), "{found}");
        }
    }
}
