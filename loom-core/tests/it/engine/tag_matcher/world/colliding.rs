//! Tags that collide in a tag matcher with a known seed.

#![allow(unreachable_pub, reason = "others include this file")]

use loom_core::vocabulary::Tag;

/// Tags of exact receives without a source that share one place of a matcher of any size. About 2
/// to the power of 30 of them exist.
#[derive(Clone, Copy)]
pub struct Colliding {
    // Inverses of the matcher's factors.
    of_tag: u64,
    last: u64,
    of_source: u64,
}

impl Colliding {
    /// Creates the tags for a matcher of this seed.
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        let [of_tag, of_source, _, last] = [(); 4].map(|()| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ mixed >> 31) | 1
        });
        Colliding { of_tag: inverse(of_tag), last: inverse(last), of_source: of_source.wrapping_mul(u64::MAX) }
    }

    /// Computes the hash backwards. Its first bits choose the place, and one hash in sixteen has a
    /// tag.
    pub fn tag(self, nth: u64) -> Tag {
        let tags = (nth * 1024..).filter_map(|hash| {
            let folded = self.last.wrapping_mul(hash);
            let sum = folded ^ folded >> 32;
            let block = self.of_tag.wrapping_mul(sum.wrapping_sub(self.of_source));
            // The lowest bits choose the place in the line: always the same one.
            (block >> 60 == 0).then_some(block << 4 | hash >> 16 & 15)
        });
        tags.map(Tag).next().expect("there are enough")
    }
}

/// Inverts by Newton's iteration. Each step doubles the number of correct bits, at first three.
fn inverse(odd: u64) -> u64 {
    (0..5).fold(odd, |inverse, _| inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse))))
}
