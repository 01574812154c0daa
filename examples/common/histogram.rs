//! Histogram of fixed size, with a resolution of 1/64 of each value. Requires neither `std` nor an
//! allocator.

/// Number of bits kept after the first one.
const BITS: u32 = 6;
const EACH: usize = 1 << BITS;
/// One group for each position of the first bit, and one for smaller values.
const GROUPS: usize = (u64::BITS - BITS) as usize + 1;

pub(crate) struct Histogram {
    counts: [u64; GROUPS * EACH],
    count: u64,
    pub(crate) longest: u64,
}

impl Histogram {
    pub(crate) const fn new() -> Self {
        Histogram { counts: [0; GROUPS * EACH], count: 0, longest: 0 }
    }

    #[inline]
    pub(crate) fn record(&mut self, value: u64) {
        self.counts[index(value)] += 1;
        self.count += 1;
        self.longest = self.longest.max(value);
    }

    /// Smallest value that is not exceeded by `of_million` of a million values.
    pub(crate) fn quantile(&self, of_million: u64) -> u64 {
        let wanted = (u128::from(self.count) * u128::from(of_million)).div_ceil(1_000_000).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += u128::from(*count);
            if seen >= wanted {
                return highest(index).min(self.longest);
            }
        }
        self.longest
    }
}

fn index(value: u64) -> usize {
    let Some(shift) = (u64::BITS - value.leading_zeros()).checked_sub(BITS + 1) else {
        return usize::try_from(value).unwrap_or(0);
    };
    // The first bit is set, so the shift determines the group.
    (shift as usize) * EACH + usize::try_from(value >> shift).unwrap_or(0)
}

fn highest(index: usize) -> u64 {
    if index < 2 * EACH {
        return index as u64;
    }
    let shift = index / EACH - 1;
    let first = (EACH + index % EACH) as u64;
    (first << shift) + ((1 << shift) - 1)
}

#[cfg(test)]
#[path = "../../tests/examples/histogram.rs"]
mod tests;
