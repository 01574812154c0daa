//! Stories of leases, shared with the fuzz target `registered`.

use std::cell::RefCell;
use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any};
use proptest::test_runner::TestRunner;

use crate::registered::world;

#[test]
fn leases_agree_with_their_account() {
    let happened = RefCell::new(HashMap::<_, u32>::new());
    let config = ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() };
    let played = TestRunner::new(config).run(&vec(any::<u8>(), 200..600), |bytes| {
        world::play(&bytes, |what| *happened.borrow_mut().entry(what).or_default() += 1);
        Ok(())
    });
    played.unwrap_or_else(|error| panic!("{error:#}"));
    let happened = happened.into_inner();
    for what in [
        "taken",
        "none left",
        "split",
        "not split",
        "alone",
        "joined",
        "a gap",
        "no neighbours",
        "written",
        "no room",
        "read",
        "no data",
        "changed",
        "set",
        "not so long",
        "cleared",
        "dropped",
        "forgotten",
        "to be received into",
        "nothing to send",
        "sent",
        "cut short",
        "cancelled",
    ] {
        assert!(happened.get(what).is_some_and(|count| *count > 20), "{what}: {happened:?}");
    }
}
