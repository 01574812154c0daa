//! [`SipHash`]: SipHash-1-3 over words with a seed, for hashes that a peer must not predict.

#[derive(Clone, Copy, Debug)]
pub(crate) struct SipHash([u64; 4]);

impl SipHash {
    /// State for a seed. The key's other half is a constant, because 64 unpredictable bits suffice.
    pub(crate) const fn of(seed: u64) -> Self {
        const OTHER_HALF: u64 = 0x6c6f_6f6d_2061_7620;
        SipHash([
            seed ^ 0x736f_6d65_7073_6575,
            OTHER_HALF ^ 0x646f_7261_6e64_6f6d,
            seed ^ 0x6c79_6765_6e65_7261,
            OTHER_HALF ^ 0x7465_6462_7974_6573,
        ])
    }

    #[inline]
    const fn round(self) -> Self {
        let [mut a, mut b, mut c, mut d] = self.0;
        a = a.wrapping_add(b);
        c = c.wrapping_add(d);
        b = b.rotate_left(13) ^ a;
        d = d.rotate_left(16) ^ c;
        a = a.rotate_left(32);
        c = c.wrapping_add(b);
        a = a.wrapping_add(d);
        b = b.rotate_left(17) ^ c;
        d = d.rotate_left(21) ^ a;
        c = c.rotate_left(32);
        SipHash([a, b, c, d])
    }

    #[inline]
    pub(crate) const fn word(mut self, word: u64) -> Self {
        self.0[3] ^= word;
        self = self.round();
        self.0[0] ^= word;
        self
    }

    /// If sequences have different lengths, their words must encode the length.
    #[inline]
    pub(crate) const fn finish(mut self) -> u64 {
        self.0[2] ^= 0xff;
        let [a, b, c, d] = self.round().round().round().0;
        a ^ b ^ c ^ d
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(deprecated, reason = "the one hasher of which the core says which function it is")]
    fn rounds_are_those_of_siphash() {
        use core::hash::{Hasher, SipHasher};
        let two_four = |key: [u64; 2], word: u64| {
            let mut state = SipHash::of(key[0]);
            state.0[1] = key[1] ^ 0x646f_7261_6e64_6f6d;
            state.0[3] = key[1] ^ 0x7465_6462_7974_6573;
            for word in [word, 8 << 56] {
                state.0[3] ^= word;
                state = state.round().round();
                state.0[0] ^= word;
            }
            state.0[2] ^= 0xff;
            let [a, b, c, d] = state.round().round().round().round().0;
            a ^ b ^ c ^ d
        };
        for (key, word) in [([0, 0], 0), ([1, 2], 3), ([u64::MAX, 7], 1 << 63), ([42, u64::MAX], 0x0123_4567_89ab_cdef)]
        {
            let mut known = SipHasher::new_with_keys(key[0], key[1]);
            known.write(&u64::to_le_bytes(word));
            assert_eq!(two_four(key, word), known.finish());
        }
    }

    /// Values from another program.
    #[test]
    fn words_are_hashed_with_siphash_1_3() {
        let hash = |seed, words: &[u64]| words.iter().fold(SipHash::of(seed), |state, word| state.word(*word)).finish();
        assert_eq!(hash(0, &[]), 0x9ea3_8447_f3e6_5d2c);
        assert_eq!(hash(0, &[0]), 0x4868_ddf6_c53b_497a);
        assert_eq!(hash(1, &[2]), 0x5e8b_285a_a6ee_3adb);
        assert_eq!(hash(0xdead_beef, &[0x0123_4567_89ab_cdef, 1 << 63]), 0xaa9f_fefa_30a3_a72b);
    }
}
