/// Each word stands for 64 words of the level below.
const LEVELS: usize = 6;

/// One bit for each place, set while it is free. Above them, one bit for each nonzero word, and so
/// on up to a single word.
#[derive(Debug)]
pub(super) struct Free<'s> {
    words: &'s mut [u64],
    /// Begin of each level, then the end of the last one.
    levels: [usize; LEVELS + 1],
    count: usize,
}

const fn levels(places: usize) -> ([usize; LEVELS + 1], usize, usize) {
    let mut begins = [0; LEVELS + 1];
    let (mut level, mut words, mut len) = (0, 0, places);
    loop {
        len = len.div_ceil(64);
        words += len;
        level += 1;
        begins[level] = words;
        if len <= 1 || level == LEVELS {
            return (begins, level, words);
        }
    }
}

pub(super) const fn words_for(places: usize) -> usize {
    levels(places).2
}

impl<'s> Free<'s> {
    pub(super) fn new(words: &'s mut [u64], places: usize) -> Self {
        let (levels, count, _) = levels(places);
        let free = Free { words, levels, count };
        let mut len = places;
        for level in 0..count {
            let (begin, end) = (levels[level], levels[level + 1]);
            for (at, word) in free.words.get_mut(begin..end).unwrap_or_default().iter_mut().enumerate() {
                let rest = len - at * 64;
                *word = if rest >= 64 { u64::MAX } else { (1 << rest) - 1 };
            }
            len = end - begin;
        }
        free
    }

    #[inline]
    pub(super) fn lowest(&self) -> Option<usize> {
        let mut at = 0;
        for level in (0..self.count).rev() {
            let word = self.words.get(self.levels[level] + at).copied().filter(|word| *word != 0)?;
            at = at * 64 + word.trailing_zeros() as usize;
        }
        Some(at)
    }

    pub(super) fn lowest_from(&self, place: usize) -> Option<usize> {
        let mut at = place;
        for level in 0..self.count {
            let words = self.words.get(self.levels[level]..self.levels[level + 1])?;
            let rest = words.get(at / 64)? & u64::MAX << (at % 64);
            if rest != 0 {
                at = at / 64 * 64 + rest.trailing_zeros() as usize;
                return (0..level).rev().try_fold(at, |at, below| {
                    let word = self.words.get(self.levels[below] + at)?;
                    Some(at * 64 + word.trailing_zeros() as usize)
                });
            }
            at = at / 64 + 1;
        }
        None
    }

    #[inline]
    pub(super) fn set(&mut self, place: usize) {
        let mut at = place;
        for level in 0..self.count {
            let Some(word) = self.words.get_mut(self.levels[level] + at / 64) else { return };
            let had = *word != 0;
            *word |= 1 << (at % 64);
            if had {
                return;
            }
            at /= 64;
        }
    }

    #[inline]
    pub(super) fn clear(&mut self, place: usize) {
        let mut at = place;
        for level in 0..self.count {
            let Some(word) = self.words.get_mut(self.levels[level] + at / 64) else { return };
            *word &= !(1 << (at % 64));
            if *word != 0 {
                return;
            }
            at /= 64;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::collections::BTreeSet;
    use std::vec;

    use super::*;

    #[test]
    fn lowest_free_place_is_found_beside_a_set() {
        for places in [1, 2, 63, 64, 65, 4095, 4096, 4097, 300_000] {
            let mut words = vec![0; words_for(places)];
            let mut free = Free::new(&mut words, places);
            let mut oracle: BTreeSet<usize> = (0..places).collect();
            let mut state = 1_u64;
            for step in 0..4 * places.min(5000) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let place = usize::try_from(state >> 33).unwrap() % places;
                if step < places.min(5000) {
                    let lowest = free.lowest().unwrap();
                    free.clear(lowest);
                    oracle.remove(&lowest);
                } else if state & 1 << 20 == 0 {
                    free.clear(place);
                    oracle.remove(&place);
                } else {
                    free.set(place);
                    oracle.insert(place);
                }
                assert_eq!(free.lowest(), oracle.first().copied());
                for from in [place, place + 1, places, places + 64] {
                    assert_eq!(free.lowest_from(from), oracle.range(from..).next().copied(), "{from} of {places}");
                }
            }
            while let Some(lowest) = free.lowest().filter(|_| places < 5000) {
                assert_eq!(oracle.pop_first(), Some(lowest));
                free.clear(lowest);
            }
        }
    }
}
