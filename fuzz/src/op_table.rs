//! The op table against its oracle.

use arbitrary::{Arbitrary, Unstructured};
use loom_core::engine::op_table::{ContextKind, Direction};

use crate::world::{Action, Said, World};

/// Step before its numbers are resolved to existing operations.
#[derive(Arbitrary, Debug)]
enum Step {
    Post { receive: bool, endpoint: u8 },
    Refused { receive: bool },
    Complete { nth: u8, beyond: i8 },
    Fail { nth: u8, len: u8, keep: bool },
    Park { nth: u8, beyond: i8 },
    Late { nth: u8, keep: bool },
    Foreign { keep: bool },
    Abandon { endpoint: u8 },
    TakeParked { receive: bool },
    Take { nth: u8 },
    Drained,
}

const fn direction(receive: bool) -> Direction {
    if receive { Direction::Receive } else { Direction::Transmit }
}

impl Step {
    fn action<const N: usize>(self, world: &World<N>) -> Option<Action> {
        let in_flight = |nth: u8| usize::from(nth).checked_rem(world.in_flight().len());
        // One of the last sixteen, because older ones are alike.
        let recent = |nth: u8| {
            let ever = world.posted_ever();
            (ever > 0).then(|| ever - 1 - usize::from(nth) % ever.min(16))
        };
        let success = |beyond: i8| Said::Success { beyond: isize::from(beyond) };
        Some(match self {
            Step::Post { receive, endpoint } => {
                Action::Post { direction: direction(receive), endpoint: u16::from(endpoint % 3) }
            }
            Step::Refused { receive } => Action::Refused { direction: direction(receive) },
            Step::Complete { nth, beyond } => Action::Complete { nth: in_flight(nth)?, said: success(beyond) },
            Step::Park { nth, beyond } => Action::Park { nth: in_flight(nth)?, said: success(beyond) },
            Step::Fail { nth, len, keep } => {
                let (nth, said) = (in_flight(nth)?, Said::Failure { len: usize::from(len) });
                if keep { Action::Park { nth, said } } else { Action::Complete { nth, said } }
            }
            Step::Late { nth, keep } => Action::Late { op: recent(nth).filter(|op| world.may_be_late(*op))?, keep },
            Step::Foreign { keep } => Action::Foreign { keep },
            Step::Abandon { endpoint } => Action::Abandon { endpoint: u16::from(endpoint % 3) },
            Step::TakeParked { receive } => Action::TakeParked { direction: direction(receive) },
            Step::Take { nth } => Action::Take { op: recent(nth)? },
            Step::Drained => Action::Drained,
        })
    }
}

/// Plays posts, events, late and foreign events, and closing endpoints, on tables of one to four
/// slots, with both kinds of contexts.
pub fn op_table(data: &[u8]) -> usize {
    let mut bytes = Unstructured::new(data);
    let Ok((slots, pointers, horizon)) = bytes.arbitrary::<(u8, bool, u8)>() else { return 0 };
    let kind = if pointers { ContextKind::Space } else { ContextKind::Word };
    let horizon = u32::from(horizon % 8);
    match slots % 3 {
        0 => play(World::<1>::new(kind, horizon), bytes),
        1 => play(World::<2>::new(kind, horizon), bytes),
        _ => play(World::<4>::new(kind, horizon), bytes),
    }
}

fn play<const N: usize>(mut world: World<N>, mut bytes: Unstructured<'_>) -> usize {
    /// Limit of steps. Longer stories add no states on tables of a few slots.
    const MOST: usize = 48;
    let mut played = 0;
    while played < MOST && !bytes.is_empty() {
        let Ok(step) = bytes.arbitrary::<Step>() else { break };
        if let Some(action) = step.action(&world) {
            world.apply(action);
            played += 1;
        }
    }
    world.close();
    played
}
