mod world;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tasks_are_woken_and_no_work_is_lost_in_random_stories(story in prop::collection::vec(any::<u8>(), 0..800)) {
        world::play(&story);
    }
}

#[test]
fn stories_are_played() {
    let story: Vec<u8> = (0..600_u32).map(|at| ((at * at) >> 3).to_le_bytes()[0]).collect();
    assert!(world::play(&story) > 20);
}
