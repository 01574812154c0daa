//! Random stories compared with the model.

use proptest::collection::vec;
use proptest::prelude::*;

use super::world::nodes::FITS;
use super::world::{Action, NODES, Then, play};

fn action() -> impl Strategy<Value = Action> {
    let node = || 0..NODES;
    let from = || prop_oneof![2 => Just(None), 1 => any::<bool>().prop_map(|which| Some(usize::from(which)))];
    let tag = || 0u64..4;
    let ignore = || prop_oneof![3 => Just(0), 1 => Just(1), 1 => Just(2), 1 => Just(u64::MAX)];
    let len = || prop_oneof![Just(0), 1..FITS, Just(FITS), Just(FITS + 1), FITS..10 * FITS];
    let then = prop_oneof![Just(Then::Nothing), Just(Then::Claim), Just(Then::Discard)];
    let any = any::<usize>;
    prop_oneof![
        8 => (node(), any(), tag(), len(), proptest::option::of(1u64..9))
            .prop_map(|(from, to, tag, len, data)| Action::Send { from, to, tag, len, data }),
        7 => (node(), from(), tag(), ignore(), len())
            .prop_map(|(at, from, tag, ignore, room)| Action::Receive { at, from, tag, ignore, room }),
        2 => (node(), from(), tag(), ignore(), then)
            .prop_map(|(at, from, tag, ignore, then)| Action::Peek { at, from, tag, ignore, then }),
        1 => (node(), any(), len()).prop_map(|(at, nth, room)| Action::Fetch { at, nth, room }),
        1 => (node(), any()).prop_map(|(at, nth)| Action::Discard { at, nth }),
        1 => (node(), any()).prop_map(|(at, nth)| Action::CancelReceive { at, nth }),
        1 => (node(), any()).prop_map(|(at, nth)| Action::CancelSend { at, nth }),
        2 => Just(Action::Settle),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn stories_go_as_a_walk_along_lists_has_it(
        shuffled in proptest::option::of(any::<usize>()),
        actions in vec(action(), 0..150),
    ) {
        play(shuffled, actions);
    }
}
