//! Controls: the simulator detects broken schedules, and invalid schedules are refused.

use loom_group::CollectiveError;
use loom_group::schedule::*;

use crate::schedules::simulator::{Broken, Sends, run};
use crate::schedules::{group, values};

#[derive(Debug)]
struct Changed<S> {
    inner: S,
    member: Member,
    change: fn(u32, u32, Op) -> Option<Op>,
}

impl<S: Schedule> Schedule for Changed<S> {
    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    fn rounds(&self) -> u32 {
        self.inner.rounds()
    }

    fn width(&self, round: u32) -> u32 {
        self.inner.width(round)
    }

    fn op(&self, round: u32, index: u32) -> Option<Op> {
        self.inner.op(round, index).and_then(|op| (self.change)(self.member.rank(), round, op))
    }
}

fn broken(sends: Sends, change: fn(u32, u32, Op) -> Option<Op>) -> Option<Broken> {
    let members = group(5, |member| Changed { inner: AllReduceRing::new(member, 10).unwrap(), member, change });
    run(&members, sends, (0..5).map(|r| values(r, 10)).collect(), vec![vec![]; 5], |a, b| a.wrapping_add(*b)).err()
}

#[test]
fn simulator_detects_broken_schedules() {
    assert_eq!(broken(Sends::Buffered, |_, _, op| Some(op)), None);

    let dropped = |member, round, op| (!matches!((member, round, op), (2, 7, Op::Send { .. }))).then_some(op);
    assert_eq!(broken(Sends::Buffered, dropped), Some(Broken::Deadlock { waiting: 1 }));
    assert!(matches!(broken(Sends::Synchronous, dropped), Some(Broken::Deadlock { .. })));
    let early = |member, round, op| (!matches!((member, round, op), (2, 1, Op::Send { .. }))).then_some(op);
    assert_eq!(broken(Sends::Buffered, early), Some(Broken::Mismatch { member: 3, peer: 2, round: 1 }));

    let deaf = |member, round, op| (!matches!((member, round, op), (2, 7, Op::Recv { .. }))).then_some(op);
    assert_eq!(broken(Sends::Buffered, deaf), Some(Broken::LeftOver(1)));
    assert!(matches!(broken(Sends::Synchronous, deaf), Some(Broken::Deadlock { .. })));

    let unheard = |member, round, op| (!matches!((member, round, op), (3, 0, Op::Recv { .. }))).then_some(op);
    assert!(matches!(broken(Sends::Buffered, unheard), Some(Broken::Unwritten { member: 3, round: 0, .. })));

    let short = |member, round, op| match (member, round, op) {
        (1, 3, Op::Send { peer, from }) => Some(Op::Send { peer, from: Part { len: from.len - 1, ..from } }),
        _ => Some(op),
    };
    assert_eq!(broken(Sends::Buffered, short), Some(Broken::Mismatch { member: 2, peer: 1, round: 3 }));

    let written = |member, round, op| match (member, round, op) {
        (1, 4, Op::Recv { peer, into }) => Some(Op::Recv { peer, into: Part { buffer: Which::Input, ..into } }),
        _ => Some(op),
    };
    assert!(matches!(broken(Sends::Buffered, written), Some(Broken::Outside { member: 1, round: 4, .. })));
    let outside = |member, round, op| match (member, round, op) {
        (1, 4, Op::Recv { peer, into }) => Some(Op::Recv { peer, into: Part { start: 9, ..into } }),
        _ => Some(op),
    };
    assert!(matches!(broken(Sends::Buffered, outside), Some(Broken::Outside { member: 1, round: 4, .. })));
    let over = |member, round, op| match (member, round, op) {
        (1, 4, Op::Recv { peer, into }) => Some(Op::Recv { peer, into: Part { start: 2, ..into } }),
        _ => Some(op),
    };
    assert_eq!(broken(Sends::Buffered, over), Some(Broken::Overlap { member: 1, round: 4 }));

    let itself = |member, round, op| match (member, round, op) {
        (1, 4, Op::Send { from, .. }) => Some(Op::Send { peer: 1, from }),
        _ => Some(op),
    };
    assert_eq!(broken(Sends::Buffered, itself), Some(Broken::Rule(4)));
}

#[test]
fn invalid_arguments_are_refused() {
    assert_eq!(Member::new(0, 0), Err(CollectiveError::Members));
    assert_eq!(Member::new(0, Member::MOST + 1), Err(CollectiveError::Members));
    assert_eq!(Member::new(3, 3), Err(CollectiveError::Rank));
    let member = Member::new(2, 3).unwrap();
    assert_eq!(BroadcastTree::new(member, 3, 1), Err(CollectiveError::Root));
    assert_eq!(BroadcastRing::new(member, 3, 1), Err(CollectiveError::Root));
    assert_eq!(ReduceTree::new(member, 3, 1), Err(CollectiveError::Root));
    assert_eq!(ReduceTree::new(member, 2, usize::MAX), Err(CollectiveError::Size));
    for bounds in [&[0usize, 1, 2] as &[usize], &[0, 1, 2, 3, 4], &[0, 2, 1, 3], &[]] {
        assert_eq!(GatherTree::new(member, 0, Blocks::Bounds(bounds)), Err(CollectiveError::Bounds));
        assert_eq!(ReduceScatter::new(member, Blocks::Bounds(bounds)), Err(CollectiveError::Bounds));
    }
    let far = Blocks::Equal(usize::MAX / 2);
    assert_eq!(AllGatherRing::new(member, far), Err(CollectiveError::Size));
    assert_eq!(AllToAllBruck::new(member, usize::MAX / 2), Err(CollectiveError::Size));
    assert_eq!(AllToAllPairwise::new(member, Blocks::Equal(1), Blocks::Equal(2)), Err(CollectiveError::Bounds));
}

#[test]
fn largest_group_does_not_overflow() {
    let edges = [0, 1, 2, 29, 30, 31, 32, 1 << 29, (1 << 30) - 2, (1 << 30) - 1, 1 << 30, 1 << 31, u32::MAX];
    let table = |switch| Table {
        broadcast: switch,
        all_reduce: switch,
        gather: switch,
        scatter: switch,
        all_gather: switch,
        all_to_all: switch,
    };
    for members in [1, 2, 3, Member::MOST - 1, Member::MOST] {
        let at = |rank: u32| (rank < members).then_some(rank);
        for (rank, root) in
            edges.into_iter().filter_map(at).flat_map(|r| edges.into_iter().filter_map(at).map(move |s| (r, s)))
        {
            let member = Member::new(rank, members).unwrap();
            for (count, table) in [0, 1, usize::MAX >> 33, usize::MAX]
                .into_iter()
                .flat_map(|count| [Switch::ALWAYS, Switch::NEVER].map(|switch| (count, table(switch))))
            {
                let blocks = Blocks::Equal(count);
                let plans = [
                    Ok(table.barrier(member)),
                    table.broadcast(member, root, count, 8),
                    table.reduce(member, root, count),
                    table.all_reduce(member, count, 8, Commutes::Yes),
                    Ok(table.scan(member, count)),
                    table.reduce_scatter(member, blocks),
                    table.gather(member, root, blocks, 8),
                    table.scatter(member, root, blocks, 8),
                    table.all_gather(member, Blocks::Split(count), 8),
                    table.all_to_all(member, count, 8),
                ];
                for plan in plans.into_iter().flatten() {
                    plan.needs();
                    for (round, index) in edges.into_iter().flat_map(|r| edges.into_iter().map(move |i| (r, i))) {
                        let op = plan.op(round, index);
                        assert!(op.is_none() || (round < plan.rounds() && index < plan.width(round)), "{plan:?}");
                    }
                }
            }
        }
    }
}
