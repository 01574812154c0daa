//! Long random sequences on a table of eight slots.

use loom_core::engine::op_table::{ContextKind, Direction};
use proptest::prelude::*;

use crate::engine::op_table::world::{Action, Said, World};

/// An action before its choices are known.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Post(Direction, u16),
    Refused(Direction),
    Complete(usize, Said),
    Park(usize, Said),
    Late(usize, bool),
    Foreign(bool),
    Abandon(u16),
    TakeParked(Direction),
    Take(usize),
    Drained,
}

impl Wish {
    fn action<const N: usize>(self, world: &World<N>) -> Option<Action> {
        let in_flight = world.in_flight().len();
        let ever = world.posted_ever();
        // The last sixteen: older operations behave alike.
        let recent = |n: usize| (ever > 0).then(|| ever - 1 - n % ever.min(16));
        Some(match self {
            Wish::Post(direction, endpoint) => Action::Post { direction, endpoint },
            Wish::Refused(direction) => Action::Refused { direction },
            Wish::Complete(n, said) => Action::Complete { nth: n.checked_rem(in_flight)?, said },
            Wish::Park(n, said) => Action::Park { nth: n.checked_rem(in_flight)?, said },
            Wish::Late(n, keep) => Action::Late { op: recent(n).filter(|op| world.may_be_late(*op))?, keep },
            Wish::Foreign(keep) => Action::Foreign { keep },
            Wish::Abandon(endpoint) => Action::Abandon { endpoint },
            Wish::TakeParked(direction) => Action::TakeParked { direction },
            Wish::Take(n) => Action::Take { op: recent(n)? },
            Wish::Drained => Action::Drained,
        })
    }
}

fn direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::Transmit), Just(Direction::Receive)]
}

fn said() -> impl Strategy<Value = Said> {
    prop_oneof![
        3 => (-9isize..3).prop_map(|beyond| Said::Success { beyond }),
        1 => (0usize..20).prop_map(|len| Said::Failure { len }),
    ]
}

fn wish() -> impl Strategy<Value = Wish> {
    let n = 0usize..64;
    prop_oneof![
        12 => (direction(), 0u16..3).prop_map(|(direction, endpoint)| Wish::Post(direction, endpoint)),
        1 => direction().prop_map(Wish::Refused),
        5 => (n.clone(), said()).prop_map(|(n, said)| Wish::Complete(n, said)),
        4 => (n.clone(), said()).prop_map(|(n, said)| Wish::Park(n, said)),
        2 => (n.clone(), any::<bool>()).prop_map(|(n, keep)| Wish::Late(n, keep)),
        1 => any::<bool>().prop_map(Wish::Foreign),
        1 => (0u16..3).prop_map(Wish::Abandon),
        3 => direction().prop_map(Wish::TakeParked),
        3 => n.prop_map(Wish::Take),
        1 => Just(Wish::Drained),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn long_sequences_on_eight_slots(
        pointers in any::<bool>(),
        horizon in 0u32..12,
        wishes in prop::collection::vec(wish(), 0..400),
    ) {
        let kind = if pointers { ContextKind::Space } else { ContextKind::Word };
        let mut world = World::<8>::new(kind, horizon);
        for wish in wishes {
            if let Some(action) = wish.action(&world) {
                world.apply(action);
            }
        }
        world.close();
    }
}
