//! Completions over a transport that reports arbitrary events. Each buffer is returned once, and
//! each completion matches its event.

mod world;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_buffer_comes_back_once_for_any_events_of_a_provider(story in prop::collection::vec(any::<u8>(), 0..800)) {
        world::play(&story);
    }
}

#[test]
fn stories_are_played() {
    let story: Vec<u8> = (0..600_u32).map(|at| ((at * at) >> 3).to_le_bytes()[0]).collect();
    assert!(world::play(&story) > 20);
}
