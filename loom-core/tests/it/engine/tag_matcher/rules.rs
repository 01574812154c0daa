//! Rules of the tag matcher, one by one.

use loom_core::allocator_api2::alloc::Global;
use loom_core::engine::tag_matcher::{Envelope, TagMatcher, TagMatcherAttr, Want};
use loom_core::error::OpenError;
use loom_core::vocabulary::{FabricAddr, Tag, TagMatch};

use crate::engine::tag_matcher::world::{Action, Colliding, World};

const ATTR: TagMatcherAttr = TagMatcherAttr { receives: 4, messages: 4, masks: 1, seed: 1 };
const ANYBODY: FabricAddr = FabricAddr::UNSPEC;

fn want(tag: u64, ignore: u64, source: FabricAddr) -> Want {
    Want { tag: TagMatch { tag: Tag(tag), ignore }, source }
}

fn envelope(tag: u64, source: u64) -> Envelope {
    Envelope { tag: Tag(tag), source: FabricAddr(source) }
}

#[test]
fn receive_accepts_its_tags_from_its_source() {
    let accepts = |want: Want| [(5, 1), (4, 1), (5, 2)].map(|(tag, source)| want.accepts(&envelope(tag, source)));
    assert_eq!(accepts(want(5, 0, ANYBODY)), [true, false, true]);
    assert_eq!(accepts(want(5, 0, FabricAddr(1))), [true, false, false]);
    assert_eq!(accepts(want(4, 1, FabricAddr(1))), [true, true, false]);
    assert_eq!(accepts(want(0, u64::MAX, ANYBODY)), [true; 3]);
    // A message of an unknown sender.
    assert!(!want(5, 0, FabricAddr(1)).accepts(&Envelope { tag: Tag(5), source: ANYBODY }));
}

#[test]
fn oldest_accepting_receive_is_found_for_every_kind_of_match() {
    let ways = [want(5, 0, ANYBODY), want(5, 0, FabricAddr(1)), want(4, 1, ANYBODY), want(0, u64::MAX, ANYBODY)];
    // Every rotation of the order, from each start.
    for first in 0..ways.len() {
        let mut matcher = TagMatcher::new_in(ATTR, Global).unwrap();
        let mut posted = vec![];
        for turn in 0..ways.len() {
            posted.push(matcher.post(ways[(first + turn) % ways.len()]).unwrap());
        }
        for receive in posted {
            assert_eq!(matcher.receive_for(&envelope(5, 1)), Some(receive));
            assert!(matcher.remove_receive(receive).is_some());
        }
        assert_eq!(matcher.receive_for(&envelope(5, 1)), None);
    }
}

#[test]
fn oldest_accepted_message_is_found_by_every_kind_of_match() {
    let mut matcher = TagMatcher::new_in(ATTR, Global).unwrap();
    let kept: Vec<_> =
        [(5, 1), (4, 1), (5, 2), (9, 2)].map(|(tag, source)| matcher.keep(envelope(tag, source)).unwrap()).into();
    let ways = [
        (want(0, u64::MAX, ANYBODY), 0),
        (want(5, 0, ANYBODY), 0),
        (want(5, 0, FabricAddr(2)), 2),
        (want(0, u64::MAX, FabricAddr(2)), 2),
        (want(0xd, 0xc, ANYBODY), 0),
        (want(8, 1, ANYBODY), 3),
        (want(4, 1, FabricAddr(2)), 2),
        (want(8, 1, ANYBODY), 3),
    ];
    for (want, expected) in ways {
        assert_eq!(matcher.message_for(&want), Some(kept[expected]), "{want:?}");
    }
    assert_eq!(matcher.message_for(&want(4, 0, FabricAddr(2))), None);
    assert_eq!(matcher.message_for(&want(2, 1, ANYBODY)), None);
}

#[test]
fn message_of_an_unknown_peer_matches_receives_from_any_peer() {
    let mut matcher = TagMatcher::new_in(ATTR, Global).unwrap();
    let from_anybody = matcher.post(want(5, 0, ANYBODY)).unwrap();
    matcher.post(want(5, 0, FabricAddr(1))).unwrap();
    let unknown = Envelope { tag: Tag(5), source: ANYBODY };
    assert_eq!(matcher.receive_for(&unknown), Some(from_anybody));
    matcher.remove_receive(from_anybody);
    assert_eq!(matcher.receive_for(&unknown), None);
    matcher.keep(unknown).unwrap();
    assert_eq!(matcher.message_for(&want(0, u64::MAX, FabricAddr(1))), None);
}

#[test]
fn more_than_there_are_places_for_is_refused_and_leaves_the_rest() {
    let mut matcher = TagMatcher::new_in(ATTR, Global).unwrap();
    let first = matcher.post(want(1, 0, ANYBODY)).unwrap();
    let receives: Vec<_> = (1..4).map(|tag| matcher.post(want(tag, tag, ANYBODY)).unwrap()).collect();
    assert_eq!(matcher.post(want(1, 0, ANYBODY)), None);
    assert_eq!(matcher.receive_for(&envelope(1, 0)), Some(first));
    for receive in receives.into_iter().chain([first]) {
        assert!(matcher.remove_receive(receive).is_some());
    }
    let kept: Vec<_> = (0..4).map(|tag| matcher.keep(envelope(tag, 0)).unwrap()).collect();
    assert_eq!(matcher.keep(envelope(0, 0)), None);
    assert_eq!(matcher.messages().map(|(id, _)| id).collect::<Vec<_>>(), kept);
}

#[test]
fn sizes_that_make_no_sense_are_refused() {
    for attr in [
        TagMatcherAttr { receives: 0, ..ATTR },
        TagMatcherAttr { messages: 0, ..ATTR },
        TagMatcherAttr { receives: u32::MAX, ..ATTR },
        TagMatcherAttr { receives: (1 << 28) + 1, ..ATTR },
        TagMatcherAttr { messages: u32::MAX, ..ATTR },
        TagMatcherAttr { messages: 1 << 29, ..ATTR },
        TagMatcherAttr { masks: 255, ..ATTR },
        TagMatcherAttr { masks: u32::MAX, ..ATTR },
    ] {
        assert_eq!(attr.layout(), Err(OpenError::Size), "{attr:?}");
    }
    for receives in [1, 1 << 28] {
        assert!(TagMatcherAttr { receives, messages: 1, masks: 0, seed: u64::MAX }.layout().is_ok(), "{receives}");
    }
}

#[test]
fn every_mask_is_served_however_few_are_kept() {
    const MASKS: u64 = 40;
    let mut world = World::new(TagMatcherAttr { receives: 64, messages: 64, masks: 2, seed: 0 });
    for tag in 0..MASKS {
        world.apply(Action::Arrive { envelope: envelope(tag, tag % 3), multi: false });
    }
    for round in 0..3 {
        for mask in 0..MASKS {
            let source = if mask % 2 == 0 { ANYBODY } else { FabricAddr(1) };
            world.apply(Action::Peek { want: want(mask + round, mask << 1, source), claim: mask % 7 == 0 });
        }
    }
    for mask in 0..MASKS {
        world.apply(Action::Post(want(mask + 100, mask << 1, ANYBODY)));
    }
    world.close();
}

/// Few entries are searched in a list, many in an index. The counts cross the threshold in both
/// directions, with posts, cancels and lookups in between.
#[test]
fn order_holds_while_few_become_many_and_few_again() {
    let ways = [want(5, 0, ANYBODY), want(5, 0, FabricAddr(1)), want(4, 1, ANYBODY), want(0, u64::MAX, ANYBODY)];
    for (count, first) in (1..24).flat_map(|count| [0, 1, 2, 3].map(|first| (count, first))) {
        let way = |nth: usize| ways[(first + nth) % ways.len()];
        let arrives = |tag, source| Action::Arrive { envelope: envelope(tag, source), multi: false };
        let mut world = World::new(TagMatcherAttr { receives: 32, messages: 32, masks: 1, seed: 1 });
        for turn in 0..3 {
            (0..count).for_each(|nth| world.apply(Action::Post(way(nth))));
            world.apply(Action::Cancel { nth: count / 2 });
            world.apply(Action::Post(way(turn)));
            world.apply(arrives(9, 3));
            (0..count).for_each(|_| world.apply(arrives(5, 1)));
            // The rest is cancelled from its end on.
            (0..count).rev().for_each(|nth| world.apply(Action::Cancel { nth }));
        }
        for turn in 0..3 {
            (0..count).for_each(|nth| world.apply(arrives(4 + nth as u64 % 2, nth as u64 % 3)));
            world.apply(Action::Revoke { nth: count / 2 });
            world.apply(Action::Peek { want: way(turn), claim: turn == 1 });
            (0..count / 2).for_each(|nth| world.apply(Action::Post(way(nth + turn))));
            (0..count).rev().for_each(|nth| world.apply(Action::Revoke { nth }));
            world.apply(Action::Post(want(7, 0, FabricAddr(2))));
        }
        world.close();
    }
}

/// All keys in one bucket, which is one deep tree.
#[test]
fn tags_that_all_collide_are_distinguished() {
    let tags = |nth| Colliding::new(3).tag(nth);
    let mut world = World::new(TagMatcherAttr { receives: 300, messages: 300, masks: 1, seed: 3 });
    for nth in 0..300 {
        world.apply(Action::Post(Want { tag: TagMatch::exact(tags(nth)), source: ANYBODY }));
    }
    // From the middle, so that forks lose the leaves above which they stand.
    for nth in (0..300).rev().step_by(3) {
        world.apply(Action::Cancel { nth });
    }
    for nth in 0..300 {
        world.apply(Action::Arrive {
            envelope: Envelope { tag: tags(nth * 7 % 300), source: FabricAddr(nth % 2) },
            multi: false,
        });
    }
    for nth in (0..100).rev().step_by(3) {
        world.apply(Action::Revoke { nth });
    }
    world.close();
}
