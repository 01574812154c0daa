//! Long random stories.

use loom_core::engine::tag_matcher::{Envelope, TagMatcherAttr, Want};
use loom_core::vocabulary::{FabricAddr, Tag, TagMatch};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::engine::tag_matcher::world::{Action, Colliding, World};

const SEED: u64 = 7;

/// Few tags, so that they collide. Some differ in one bit only, and some collide in the matcher.
fn tag() -> impl Strategy<Value = Tag> {
    prop_oneof![
        (0u64..6).prop_map(Tag),
        (0u32..64).prop_map(|bit| Tag(1 << bit)),
        (0u64..40).prop_map(|nth| Colliding::new(SEED).tag(nth)),
    ]
}

fn ignore() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => Just(0),
        2 => Just(u64::MAX),
        3 => prop_oneof![Just(1), Just(0xff), Just(0xff << 56), Just(!1), Just(!0xff), Just(0xf0)],
        1 => any::<u64>(),
    ]
}

fn source(unknown: u32) -> impl Strategy<Value = FabricAddr> {
    prop_oneof![unknown => Just(FabricAddr::UNSPEC), 3 => (0u64..3).prop_map(FabricAddr)]
}

fn want() -> impl Strategy<Value = Want> {
    let tag = (tag(), ignore()).prop_map(|(tag, ignore)| TagMatch { tag, ignore });
    (tag, source(3)).prop_map(|(tag, source)| Want { tag, source })
}

fn action() -> impl Strategy<Value = Action> {
    let envelope = || (tag(), source(1)).prop_map(|(tag, source)| Envelope { tag, source });
    prop_oneof![
        6 => (envelope(), any::<bool>()).prop_map(|(envelope, multi)| Action::Arrive { envelope, multi }),
        6 => want().prop_map(Action::Post),
        2 => (want(), any::<bool>()).prop_map(|(want, claim)| Action::Peek { want, claim }),
        2 => any::<usize>().prop_map(|nth| Action::Cancel { nth }),
        1 => any::<usize>().prop_map(|nth| Action::Revoke { nth }),
        1 => any::<usize>().prop_map(|nth| Action::Stale { nth }),
    ]
}

/// Many actions of one kind in a row: lists become indices, and lists again.
fn burst() -> impl Strategy<Value = Vec<Action>> {
    let envelope = (tag(), source(1)).prop_map(|(tag, source)| Envelope { tag, source });
    prop_oneof![
        2 => vec(want().prop_map(Action::Post), 0..14),
        2 => (want(), 0..14_usize).prop_map(|(want, count)| vec![Action::Post(want); count]),
        2 => vec(envelope.prop_map(|envelope| Action::Arrive { envelope, multi: false }), 0..14),
        1 => vec(any::<usize>().prop_map(|nth| Action::Cancel { nth }), 0..14),
        1 => vec(any::<usize>().prop_map(|nth| Action::Revoke { nth }), 0..14),
        2 => vec(action(), 0..6),
    ]
}

fn played(attr: TagMatcherAttr, actions: impl IntoIterator<Item = Action>) {
    let mut world = World::new(attr);
    for action in actions {
        world.apply(action);
    }
    world.close();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(120) })]

    #[test]
    fn stories_go_as_a_walk_along_lists_has_it(
        receives in 1u32..70,
        messages in 1u32..70,
        masks in 0u32..8,
        actions in vec(action(), 0..500),
    ) {
        played(TagMatcherAttr { receives, messages, masks, seed: SEED }, actions);
    }

    #[test]
    fn stories_of_bursts_go_as_a_walk_along_lists_has_it(masks in 0u32..8, bursts in vec(burst(), 0..60)) {
        played(TagMatcherAttr { receives: 30, messages: 30, masks, seed: SEED }, bursts.into_iter().flatten());
    }
}
