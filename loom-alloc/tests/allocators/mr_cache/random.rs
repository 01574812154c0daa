//! Long random stories beside the oracle.

use proptest::prelude::*;

use crate::mr_cache::world::memory::{PAGE, Use};
use crate::mr_cache::world::oracle::Limits;
use crate::mr_cache::world::{Action, PAGES, play};

fn use_() -> impl Strategy<Value = Use> {
    prop_oneof![Just(Use::Read), Just(Use::Write), Just(Use::Both)]
}

/// Begin and length of a range in the memory: short ones, and some pages.
fn range() -> impl Strategy<Value = (usize, usize)> {
    const ALL: usize = PAGES * PAGE;
    (0..ALL, prop_oneof![0..64usize, 1..2 * PAGE, 1..5 * PAGE]).prop_map(|(at, len)| (at, len.min(ALL - at)))
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        16 => (range(), prop_oneof![3 => Just(0), 1 => 0..100usize], use_())
            .prop_map(|((at, len), headroom, use_)| Action::Register { at, len, headroom, use_ }),
        1 => (range(), use_(), range())
            .prop_map(|((at, len), use_, pages)| Action::RegisterMeanwhile { at, len, use_, pages }),
        6 => any::<usize>().prop_map(|nth| Action::Use { nth }),
        12 => any::<usize>().prop_map(|nth| Action::Release { nth }),
        1 => any::<usize>().prop_map(|nth| Action::Forget { nth }),
        2 => range().prop_map(|(at, len)| Action::Invalidate { at, len }),
        1 => Just(Action::Flush),
        3 => range().prop_map(|(at, len)| Action::Notify { at, len }),
        1 => Just(Action::Flood),
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    let bytes = prop_oneof![Just(usize::MAX), (1..PAGES).prop_map(|pages| pages * PAGE)];
    let merged = prop_oneof![2 => Just(usize::MAX), 1 => (0..PAGES).prop_map(|pages| pages * PAGE)];
    (1..7u32, bytes, merged, 1..8usize).prop_map(|(capacity, bytes, merged, regions)| Limits {
        capacity,
        bytes,
        merged,
        regions,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_cache_keeps_its_rules(limits in limits(), actions in prop::collection::vec(action(), 0..200)) {
        play(limits, actions);
    }
}
