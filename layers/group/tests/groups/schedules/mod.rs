mod broken;
mod combining;
mod moving;
mod simulator;

use std::fmt::Debug;

use loom_group::schedule::{Blocks, Member, Schedule};
use simulator::{Outcome, Sends};

pub(crate) fn sizes() -> impl Iterator<Item = u32> {
    (1..=33).chain([64])
}

pub(crate) fn roots(members: u32) -> Vec<u32> {
    if members <= 12 {
        return (0..members).collect();
    }
    vec![0, 1, members / 2, members - 2, members - 1]
}

pub(crate) fn counts(members: u32) -> Vec<usize> {
    let members = members as usize;
    let mut counts = vec![0, 1, 2, 7, members, 2 * members + 3];
    counts.dedup();
    counts
}

/// Bounds of blocks of 0 to 4 elements plus `least`, from element `begin` on.
pub(crate) fn bounds(members: u32, begin: usize, least: usize) -> Vec<usize> {
    let mut at = begin;
    let mut bounds = vec![at];
    for member in 0..members as usize {
        at += (member * 7 + 3) % 5 + least;
        bounds.push(at);
    }
    bounds
}

pub(crate) fn ranges(blocks: Blocks<'_>, members: u32) -> Vec<std::ops::Range<usize>> {
    let members = members as usize;
    match blocks {
        Blocks::Equal(count) => (0..members).map(|r| r * count..(r + 1) * count).collect(),
        Blocks::Bounds(bounds) => bounds.windows(2).map(|pair| pair[0]..pair[1]).collect(),
        Blocks::Split(total) => {
            let mut at = 0;
            let lens = (0..members).map(|r| total / members + usize::from(r < total % members));
            lens.map(|len| (at..at + len, at += len).0).collect()
        }
    }
}

pub(crate) fn group<S>(members: u32, schedule: impl Fn(Member) -> S) -> Vec<S> {
    (0..members).map(|rank| schedule(Member::new(rank, members).unwrap())).collect()
}

pub(crate) fn value(rank: usize, place: usize) -> u64 {
    (rank as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (place as u64 + 1).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

pub(crate) fn values(rank: usize, len: usize) -> Vec<u64> {
    (0..len).map(|place| value(rank, place)).collect()
}

/// Sends are buffered if the number of members is even.
pub(crate) fn outcome<S: Schedule + Debug, E: Clone>(
    schedules: &[S],
    inputs: Vec<Vec<E>>,
    combine: impl Fn(&E, &E) -> E,
) -> Outcome<E> {
    let sends = if schedules.len().is_multiple_of(2) { Sends::Buffered } else { Sends::Synchronous };
    let given = inputs.iter().map(|_| vec![]).collect();
    simulator::run(schedules, sends, inputs, given, combine)
        .unwrap_or_else(|broken| panic!("{broken:?} of {} members: {:?}", schedules.len(), schedules[0]))
}

pub(crate) fn levels(members: u32) -> u64 {
    (0..).find(|level| 1u64 << level >= u64::from(members)).unwrap()
}

pub(crate) fn edges(rank: u32, root: u32) -> u64 {
    if rank == root {
        return 0;
    }
    let highest = (rank ^ root).ilog2();
    u64::from(1 + (rank & ((1 << highest) - 1)).count_ones())
}
