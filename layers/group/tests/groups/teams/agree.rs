use loom_group::collective::TeamAttr;
use loom_group::schedule::{Switch, Table};

use crate::teams::calls::{Call, KINDS, Kind, check};
use crate::teams::world::{FINE, Members, Size, groups, teams};

fn is_at_rest(teams: &[Members<'_>]) {
    for team in teams {
        assert_eq!((team.under_way(), team.is_over(), team.group().cq().in_flight()), (0, false, 0));
    }
}

fn attr(switch: Switch, packets: usize) -> TeamAttr {
    TeamAttr::new(1).with_packets(packets).with_table(Table::of(switch))
}

fn agree(members: impl Iterator<Item = u32>, packets: usize, capacity: usize, counts: impl Fn(u32) -> Vec<usize>) {
    for n in members {
        let groups = groups(Size::new(n), |_| FINE);
        let ranks: Vec<u32> = (0..n).collect();
        for switch in [Switch::ALWAYS, Switch::NEVER] {
            let teams = teams(&groups, &ranks, attr(switch, packets), capacity);
            let mut seed = u64::from(n);
            for (kind, count) in KINDS.into_iter().flat_map(|kind| counts(n).into_iter().map(move |c| (kind, c))) {
                seed += 1;
                check(&teams, &Call::new(kind, n, count, seed));
            }
            is_at_rest(&teams);
        }
    }
}

/// Packets of five elements, two in each direction.
#[test]
fn collectives_agree_with_a_plain_computation_in_groups_of_1_to_33() {
    agree(1..=33, 4, 40, |n| if n < 10 { vec![0, 1, 2, 5, 6, 13, n as usize + 3] } else { vec![0, 1, 7] });
}

#[test]
fn long_algorithms_agree_with_a_plain_computation() {
    agree([4, 7, 16, 33].into_iter(), 2, 128, |n| vec![n as usize, 2 * n as usize + 1]);
}

#[test]
fn collectives_agree_with_a_plain_computation_in_a_group_of_64() {
    agree([64].into_iter(), 8, 64, |_| vec![1]);
}

#[test]
fn long_messages_agree_with_a_plain_computation() {
    for (packets, capacity) in [(2, 8), (3, 200), (8, 4096)] {
        agree([1, 2, 3, 5, 8].into_iter(), packets, capacity, |_| vec![30, 301]);
    }
}

fn agree_in_a_large_group(members: u32, calls: &[(Kind, usize)]) {
    let groups = groups(Size { depth: 8, tx_depth: 4, ..Size::new(members) }, |_| FINE);
    let ranks: Vec<u32> = (0..members).collect();
    let all = teams(&groups, &ranks, attr(Switch::NEVER, 2), 1024);
    for (kind, count) in calls {
        check(&all, &Call::new(*kind, members, *count, 333));
    }
    is_at_rest(&all);
    drop(all);
    let all = teams(&groups, &ranks, attr(Switch::ALWAYS, 2), 1024);
    for kind in [Kind::Gather, Kind::Scatter] {
        check(&all, &Call::new(kind, members, 1, 717));
    }
    is_at_rest(&all);
}

#[test]
fn collectives_agree_with_a_plain_computation_in_a_group_of_1000() {
    agree_in_a_large_group(
        1000,
        &[
            (Kind::Barrier, 0),
            (Kind::Broadcast, 3),
            (Kind::Reduce, 2),
            (Kind::AllReduce, 2),
            (Kind::Scan, 1),
            (Kind::Gather, 2),
            (Kind::Scatter, 2),
        ],
    );
}

#[test]
fn collectives_of_all_pairs_agree_with_a_plain_computation_in_a_group_of_300() {
    agree_in_a_large_group(
        300,
        &[(Kind::ReduceScatter, 1), (Kind::AllGather, 1), (Kind::AllToAll, 1), (Kind::AllToAllBlocks, 1)],
    );
}
