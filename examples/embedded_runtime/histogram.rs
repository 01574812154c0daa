//! Values in places of fixed number: each is known to one part in 64. Needs neither `std` nor an allocator.

/// Bits of a value that are kept behind its first one.
const BITS: u32 = 6;
const EACH: usize = 1 << BITS;
/// One group for each place of the first bit, and one for the values below.
const GROUPS: usize = (u64::BITS - BITS) as usize + 1;

pub(crate) struct Histogram {
    counts: [u64; GROUPS * EACH],
    count: u64,
    longest: u64,
}

impl Histogram {
    pub(crate) const fn new() -> Self {
        Histogram { counts: [0; GROUPS * EACH], count: 0, longest: 0 }
    }

    #[inline]
    pub(crate) fn record(&mut self, value: u64) {
        self.counts[place(value)] += 1;
        self.count += 1;
        self.longest = self.longest.max(value);
    }

    /// The least value that so many of a million are not above.
    pub(crate) fn quantile(&self, of_million: u64) -> u64 {
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

    pub(crate) const fn longest(&self) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_place_that_holds_it_to_one_part_in_64() {
        let values = (0..70_000)
            .chain((0..63).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1, 3 << bit]))
            .chain([u64::MAX]);
        for value in values {
            let at = place(value);
            assert!(at < GROUPS * EACH, "{value}");
            assert!(
                highest(at) >= value && highest(at) - value <= value / 64,
                "{value} at {at}: up to {}",
                highest(at)
            );
            assert!(at == 0 || highest(at - 1) < value, "{value}");
        }
    }

    /// Compares every percentile with the values in order: those in a row, those that grow fast, and few of them.
    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        assert_eq!(Histogram::new().quantile(500_000), 0);
        let mut state = 1_u64;
        let mut random = |bits: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> (64 - bits)
        };
        let scattered = (0..200_000).map(|round| random(1 + round % 40)).collect();
        for mut values in [(1..=1000).rev().collect(), scattered, vec![7], vec![0, u64::MAX]] {
            let mut histogram = Histogram::new();
            values.iter().for_each(|value| histogram.record(*value));
            values.sort_unstable();
            for of_million in [0, 1, 500_000, 900_000, 990_000, 999_000, 999_900, 999_990, 1_000_000] {
                let rank = (values.len() * of_million).div_ceil(1_000_000).max(1);
                let exact = values[rank - 1];
                let found = histogram.quantile(of_million as u64);
                assert!(found >= exact && found - exact <= exact / 64, "{of_million}: {found}, and not {exact}");
            }
            assert_eq!(Some(&histogram.longest()), values.last());
        }
    }
}
