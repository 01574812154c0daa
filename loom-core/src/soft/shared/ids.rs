//! [`Ids`]: numbers that a network issues once each, under its lock, for domains and region keys.

use crate::util::siphash::SipHash;
use crate::vocabulary::Errno;

pub(crate) const DRAWN_BITS: u32 = 46;

const HALF: u32 = DRAWN_BITS / 2;
const HALF_MASK: u64 = (1 << HALF) - 1;

/// Separates the key function from other functions of the same seed.
const LABEL: u64 = 0x6b65_7973 << 32;

#[derive(Debug)]
pub(crate) struct Ids {
    seed: u64,
    regions: u64,
    domains: u32,
}

impl Ids {
    pub(crate) const fn new(seed: u64) -> Self {
        Ids { seed, regions: 0, domains: 0 }
    }

    /// Numbers are never reused, so that endpoints of one domain cannot reach regions of another.
    ///
    /// # Errors
    /// `EOVERFLOW` if all numbers are used up.
    pub(crate) fn domain(&mut self) -> Result<u32, Errno> {
        self.domains = self.domains.checked_add(1).ok_or(Errno::EOVERFLOW)?;
        Ok(self.domains)
    }

    /// Draws `DRAWN_BITS` bits, never zero, for a region key.
    ///
    /// Draws repeat only after all others, so the key of a closed region stays unused as long.
    pub(crate) fn key(&mut self) -> u64 {
        loop {
            let number = self.regions;
            self.regions = (number + 1) & ((1 << DRAWN_BITS) - 1);
            let drawn = permuted(self.seed, number);
            if drawn != 0 {
                return drawn;
            }
        }
    }
}

#[cfg(test)]
impl Ids {
    pub(crate) const fn leave_one_domain(&mut self) {
        self.domains = u32::MAX - 1;
    }
}

fn permuted(seed: u64, number: u64) -> u64 {
    const ROUNDS: u64 = 6;
    let (mut high, mut low) = (number >> HALF, number & HALF_MASK);
    for round in 0..ROUNDS {
        let mixed = SipHash::of(seed).word(LABEL | round).word(low).finish() & HALF_MASK;
        (high, low) = (low, high ^ mixed);
    }
    high << HALF | low
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::collections::HashSet;
    use std::vec::Vec;

    use super::*;

    fn keys(seed: u64, count: usize) -> Vec<u64> {
        let mut numbers = Ids::new(seed);
        (0..count).map(|_| numbers.key()).collect()
    }

    #[test]
    fn domains_are_refused_when_their_numbers_are_used_up() {
        let mut numbers = Ids::new(0);
        assert_eq!([numbers.domain(), numbers.domain()], [Ok(1), Ok(2)]);
        numbers.leave_one_domain();
        assert_eq!(numbers.domain(), Ok(u32::MAX));
        for _ in 0..3 {
            assert_eq!(numbers.domain(), Err(Errno::EOVERFLOW), "and no domain gets the number of another");
        }
    }

    #[test]
    fn keys_are_drawn_without_putting_back() {
        let drawn = keys(7, 100_000);
        assert!(drawn.iter().all(|key| *key != 0 && *key >> DRAWN_BITS == 0));
        assert_eq!(drawn.iter().collect::<HashSet<_>>().len(), drawn.len());
    }

    #[test]
    fn keys_are_those_of_the_seed() {
        assert_eq!(keys(7, 100), keys(7, 100));
        let of_seeds: HashSet<u64> = (0..100).flat_map(|seed| keys(seed, 100)).collect();
        assert!(of_seeds.len() > 9990, "seeds have keys of their own: {} of 10,000", of_seeds.len());
    }

    #[test]
    fn keys_do_not_follow_from_each_other() {
        let drawn = keys(1, 10_000);
        let open = |count: usize| (4700..5300).contains(&count);
        for bit in 0..DRAWN_BITS {
            assert!(open(drawn.iter().filter(|key| **key >> bit & 1 == 1).count()), "bit {bit}");
            let changes = drawn.windows(2).filter(|two| (two[0] ^ two[1]) >> bit & 1 == 1).count();
            assert!(open(changes), "bit {bit} changes {changes} times");
        }
    }

    #[test]
    fn numbers_begin_again_when_all_were_drawn() {
        let mut numbers = Ids::new(3);
        let first = numbers.key();
        numbers.regions = (1 << DRAWN_BITS) - 1;
        let last = numbers.key();
        assert_ne!(first, last);
        assert_eq!(numbers.key(), first);
    }
}
