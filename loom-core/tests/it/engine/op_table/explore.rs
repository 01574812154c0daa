//! Every sequence of actions up to a depth, on tables of one, two and three slots.

use loom_core::engine::op_table::{ContextKind, Direction};

use crate::daily_share;
use crate::engine::op_table::world::{Action, Said, World};

const DIRECTIONS: [Direction; 2] = [Direction::Transmit, Direction::Receive];

/// Possible next actions. Late events are tried only for the last few completed operations, because
/// older ones behave alike.
fn actions<const N: usize>(world: &World<N>) -> Vec<Action> {
    let said = Said::Success { beyond: 0 };
    let mut actions = Vec::new();
    for direction in DIRECTIONS {
        for endpoint in [0, 1] {
            actions.push(Action::Post { direction, endpoint });
        }
        actions.push(Action::TakeParked { direction });
    }
    actions.push(Action::Refused { direction: Direction::Transmit });
    for nth in 0..world.in_flight().len() {
        actions.push(Action::Complete { nth, said });
        actions.push(Action::Park { nth, said });
    }
    for op in 0..world.posted_ever() {
        if world.may_be_late(op) {
            actions.push(Action::Late { op, keep: false });
        }
        actions.push(Action::Take { op });
    }
    actions.push(Action::Foreign { keep: true });
    for endpoint in [0, 1] {
        actions.push(Action::Abandon { endpoint });
    }
    actions.push(Action::Drained);
    actions
}

/// Runs every sequence of `depth` actions that begins with one of today's. Returns their number.
fn explore<const N: usize>(kind: ContextKind, depth: usize) -> u64 {
    // For each step: the index of the action, and the number of actions.
    let mut path: Vec<(usize, usize)> = Vec::new();
    let mut sequences = 0;
    let (first, distance) = daily_share::of_first_steps();
    loop {
        let mut world = World::<N>::new(kind, 2);
        let mut done = Vec::new();
        for step in 0..depth {
            let actions = actions(&world);
            if path.len() == step {
                path.push((if step == 0 { first } else { 0 }, actions.len()));
            }
            let action = actions[path[step].0];
            done.push(action);
            let story = Story(&done);
            world.apply(action);
            core::mem::forget(story);
        }
        let story = Story(&done);
        world.close();
        core::mem::forget(story);
        sequences += 1;
        loop {
            let Some((taken, count)) = path.pop() else { return sequences };
            let next = taken + if path.is_empty() { distance } else { 1 };
            if next < count {
                path.push((next, count));
                break;
            }
        }
    }
}

/// Prints the actions when an assertion fails.
struct Story<'a>(&'a [Action]);

impl Drop for Story<'_> {
    fn drop(&mut self) {
        eprintln!("after {:#?}", self.0);
    }
}

#[track_caller]
fn explore_both<const N: usize>(depth: usize, at_least: u64) {
    for kind in [ContextKind::Word, ContextKind::Space] {
        let sequences = explore::<N>(kind, depth);
        println!("{N} slots, {kind:?}: {sequences} sequences of {depth} actions");
        assert!(sequences > at_least, "only {sequences} sequences were explored");
    }
}

#[test]
fn every_sequence_on_one_slot() {
    explore_both::<1>(5, 50_000);
}

#[test]
fn every_sequence_on_two_slots() {
    explore_both::<2>(5, 50_000);
}

#[test]
fn every_sequence_on_three_slots() {
    explore_both::<3>(5, 50_000);
}
