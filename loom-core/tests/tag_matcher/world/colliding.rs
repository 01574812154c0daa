//! Tags that a tag matcher has trouble with, for whoever knows its seed.

use loom_core::vocabulary::Tag;

/// Tags which receives that are exact and name no source have in the same place of a matcher of this seed, however many places it
/// has: up to 2 to the power of 30 of them, or so.
#[allow(unreachable_pub, reason = "others include this file")]
pub fn colliding_tags(seed: u64) -> impl Fn(u64) -> Tag {
    let mut state = seed;
    let [of_tag, of_source] = [(); 2].map(|()| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) | 1
    });
    // The hash, of which the first bits count, backwards.
    move |nth| Tag(inverse(of_tag).wrapping_mul(nth.wrapping_sub(of_source.wrapping_mul(u64::MAX))))
}

/// By Newton's iteration: each step doubles the bits that are right, of which there are three at first.
fn inverse(odd: u64) -> u64 {
    (0..5).fold(odd, |inverse, _| inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse))))
}
