use std::panic::{AssertUnwindSafe, catch_unwind};

use loom_core::Spins;
use loom_group::CollectiveError;
use loom_group::PeerIndex;
use loom_group::collective::{Associative, Sum, Team, TeamAttr};

use crate::teams::world::{FINE, Members, Size, Turn, finish, groups, packets, teams};

const ATTR: TeamAttr = TeamAttr::new(1).with_packets(2);

fn pair<R>(attr: TeamAttr, story: impl FnOnce(&[Members<'_>]) -> R) -> R {
    let groups = groups(Size { depth: 600, tx_depth: 1024, ..Size::new(2) }, |_| FINE);
    story(&teams(&groups, &[0, 1], attr, 64))
}

#[test]
fn completed_collective_makes_room_for_the_next() {
    pair(ATTR, |teams| {
        let (mut kept, mut words) = (vec![], vec![[7_u64], [0]]);
        let runs = words.iter_mut().zip(teams).map(|(word, team)| team.broadcast(0, word).unwrap());
        let mut runs: Vec<_> = runs.collect();
        (0..100).for_each(|_| runs.iter_mut().for_each(|run| assert!(run.turn().is_ok())));
        for team in teams {
            assert_eq!(team.under_way(), 0);
            kept.push(team.barrier().unwrap());
        }
        assert!(runs.iter_mut().all(|run| run.turn() == Ok(true) && run.wait(Spins(0)) == Ok(())));
        drop(runs);
        finish(kept);
        assert_eq!(words, [[7], [7]]);
    });
}

#[test]
fn number_of_a_dropped_team_is_free_and_those_of_others_are_not() {
    let groups = groups(Size::new(2), |_| FINE);
    let open = |number| teams(&groups, &[0, 1], TeamAttr::new(number).with_packets(2), 64);
    let is_free = |number| {
        let peers = [0, 1].map(PeerIndex).into_iter();
        Team::open(&groups[0], TeamAttr::new(number).with_packets(2), peers, 0, packets(64)).is_ok()
    };
    let (first, _second) = (open(1), open(2));
    assert_eq!([1, 2, 3].map(is_free), [false, false, true]);
    drop(first);
    assert_eq!([1, 2, 3].map(is_free), [true, false, true]);
    let mut words = [[7_u64], [0]];
    let again = open(1);
    finish(words.iter_mut().zip(&again).map(|(word, team)| team.broadcast(0, word).unwrap()).collect());
    assert_eq!(words, [[7], [7]]);
}

#[test]
fn free_room_is_found_behind_a_completed_collective() {
    pair(ATTR.with_at_once(2), |teams| {
        let barriers = || teams.iter().map(|team| team.barrier().unwrap()).collect::<Vec<_>>();
        let (mut first, second) = (barriers(), barriers());
        (0..100).for_each(|_| first.iter_mut().for_each(|run| assert!(run.turn().is_ok())));
        let third = barriers();
        assert!(teams.iter().all(|team| team.under_way() == 2));
        finish(second);
        finish(third);
        drop(first);
    });
}

/// A panic ends the team. Otherwise its operands would be combined twice.
#[test]
fn panic_of_a_combination_ends_the_team() {
    pair(ATTR, |teams| {
        let panics = Associative(|_: u64, _: u64| panic!("planted"));
        let mut outputs = [[0_u64]; 2];
        let runs = outputs.iter_mut().zip(teams).map(|(out, team)| team.all_reduce(panics, &[1], out).unwrap());
        let mut runs: Vec<_> = runs.collect();
        for run in &mut runs {
            let turns = || (0..100).find_map(|_| run.turn().err());
            let ended = catch_unwind(AssertUnwindSafe(turns));
            if ended.is_err() {
                assert_eq!(run.turn(), Err(CollectiveError::Over));
            }
        }
        assert!(teams.iter().any(Team::is_over));
        drop(runs);
        assert!(teams.iter().all(|team| team.under_way() == 0 && team.group().cq().in_flight() == 0));
    });
}

#[test]
fn member_that_runs_ahead_waits_for_the_others() {
    pair(ATTR, |teams| {
        let alone = |limit: usize| {
            (0..limit).take_while(|_| teams[0].broadcast(0, &mut [3_u64]).unwrap().wait(Spins(50)).is_ok()).count()
        };
        assert_eq!(alone(300), 63);
        assert!(teams[0].is_over());
    });
}

#[test]
fn collective_with_a_number_far_from_a_running_one_is_refused() {
    pair(ATTR.with_at_once(2), |teams| {
        let (mut first, mut second) = ([0_u64], [7_u64]);
        let waits = teams[0].broadcast(1, &mut first).unwrap();
        let alone = (0..300).take_while(|_| match teams[0].broadcast(0, &mut [3_u64]) {
            Ok(mut run) => run.wait(Spins(50)).is_ok(),
            Err(error) => {
                assert_eq!(error, CollectiveError::Busy);
                false
            }
        });
        assert_eq!(alone.count(), 62);
        assert!(!teams[0].is_over());
        finish(vec![waits, teams[1].broadcast(1, &mut second).unwrap()]);
        for _ in 0..62 {
            let mut word = [0_u64];
            finish(vec![teams[1].broadcast(0, &mut word).unwrap()]);
            assert_eq!(word, [3]);
        }
        finish(teams.iter().map(|team| team.barrier().unwrap()).collect());
        assert_eq!(first, [7]);
    });
}

/// Receives that fill the queue would block sends.
#[test]
fn queue_without_a_place_for_each_packet_is_refused() {
    let groups = groups(Size { depth: 8, ..Size::new(1) }, |_| FINE);
    let capacity = groups[0].cq().capacity();
    let open = |attr: TeamAttr| Team::open(&groups[0], attr, [PeerIndex(0)].into_iter(), 0, packets(8)).map(drop);
    assert_eq!(open(ATTR.with_at_once(capacity / 2)), Ok(()));
    let needs = capacity / 2 * 2 + 2;
    assert_eq!(open(ATTR.with_at_once(capacity / 2 + 1)), Err(CollectiveError::Depth { needs }));
    assert_eq!(open(ATTR.with_at_once(usize::MAX)), Err(CollectiveError::Depth { needs: usize::MAX }));
}

#[test]
fn message_of_another_length_names_its_sender() {
    pair(ATTR, |teams| {
        let (mut one, mut two) = ([1_u64; 2], [0_u64; 4]);
        let sent = teams[0].broadcast(0, &mut one).unwrap();
        let mut received = teams[1].broadcast(0, &mut two).unwrap();
        let end = (0..100).find_map(|_| received.turn().err());
        assert_eq!(end, Some(CollectiveError::Mismatch { member: 0 }));
        assert!(teams[1].is_over());
        drop((sent, received));
    });
}

#[test]
fn member_that_closes_in_the_middle_leaves_no_packet_behind() {
    let mut groups = groups(Size::new(3), |_| FINE);
    let gone = groups.pop().unwrap();
    let ranks = || (0..3).map(PeerIndex);
    let attr = ATTR.with_packets(4);
    let mut outputs = vec![vec![0_u64; 300]; 3];
    let [first, second, third] = &mut outputs[..] else { unreachable!() };
    let input = vec![1_u64; 300];
    let stay: Vec<_> =
        (0..2).map(|rank| Team::open(&groups[rank], attr, ranks(), rank as u32, packets(64)).unwrap()).collect();
    let mut runs: Vec<_> =
        stay.iter().zip([first, second]).map(|(team, out)| team.all_reduce(Sum, &input, out).unwrap()).collect();
    {
        let team = Team::open(&gone, attr, ranks(), 2, packets(64)).unwrap();
        let mut run = team.all_reduce(Sum, &input, third).unwrap();
        for _ in 0..20 {
            assert_eq!(run.turn(), Ok(false));
            runs.iter_mut().for_each(|run| assert_eq!(Turn::turn(run), Ok(false)));
        }
    }
    drop(gone);
    let ends: Vec<_> = runs.iter_mut().map(|run| run.wait(Spins(5000))).collect();
    // Sends to the closed member fail. A member that only receives reaches its deadline.
    for (rank, end) in (0..).zip(ends) {
        let (CollectiveError::Operation { member, .. }
        | CollectiveError::Post { member, .. }
        | CollectiveError::TimedOut { member: Some(member) }) = end.unwrap_err()
        else {
            panic!("{end:?}")
        };
        assert!(member < 3 && member != rank, "{end:?} of member {rank}");
    }
    drop(runs);
    assert!(groups.iter().all(|group| group.cq().in_flight() == 0));
}

#[test]
fn floating_point_results_have_the_same_bits_in_every_run() {
    use loom_group::schedule::{Switch, Table};
    for switch in [Switch::ALWAYS, Switch::NEVER] {
        for n in [2, 3, 5, 7, 8, 13] {
            let run = |seed: u64, packets: usize, capacity: usize| {
                let groups = groups(Size::new(n), |_| crate::teams::world::harmless(seed));
                let attr = ATTR.with_packets(packets).with_table(Table::of(switch));
                let ranks: Vec<u32> = (0..n).collect();
                let teams = teams(&groups, &ranks, attr, capacity);
                let inputs: Vec<Vec<f64>> = (0..n)
                    .map(|rank| {
                        (0..40_u32).map(|place| f64::from(place % 7).exp() / f64::from(1 + rank * 40 + place)).collect()
                    })
                    .collect();
                let mut all = vec![vec![0.0; 40]; n as usize];
                let mut scans = all.clone();
                let runs = teams
                    .iter()
                    .zip(&inputs)
                    .zip(&mut all)
                    .map(|((team, input), out)| team.all_reduce(Sum, input, out));
                finish(runs.map(Result::unwrap).collect());
                let runs =
                    teams.iter().zip(&inputs).zip(&mut scans).map(|((team, input), out)| team.scan(Sum, input, out));
                finish(runs.map(Result::unwrap).collect());
                let bits = |lists: Vec<Vec<f64>>| -> Vec<Vec<u64>> {
                    lists.into_iter().map(|list| list.into_iter().map(f64::to_bits).collect()).collect()
                };
                (bits(all), bits(scans))
            };
            let first = run(0, 2, 8);
            assert!(first.0.iter().all(|bits| *bits == first.0[0]), "the same on all members");
            for (seed, packets, capacity) in [(1, 4, 24), (2, 8, 512), (3, 2, 40)] {
                assert_eq!(run(seed, packets, capacity), first, "the same in every run of {n} members");
            }
        }
    }
}
