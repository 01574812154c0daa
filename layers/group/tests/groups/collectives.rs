use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use loom_core::allocator_api2::alloc::Global;
use loom_core::soft::{Every, Network, NetworkAttr, Plan as Faults, Soft};
use loom_core::{Deadline, Domain, EndpointAddr};
use loom_group::CollectiveError;
use loom_group::collective::{Associative, Combine, Element, Running, Sum, Team, TeamAttr};
use loom_group::schedule::{Blocks, Switch, Table};
use loom_group::{Group, GroupAttr, PeerIndex, Prepared};

type Side = Soft<'static>;
type Members<'g> = Team<'g, 'static, Side, Vec<u8>, Global>;
type Started<'t, 'b, E, C> = Result<Running<'t, 'b, 'static, Side, Vec<u8>, Global, E, C>, CollectiveError>;

#[derive(Clone, Copy)]
struct Yielding(Instant);

impl Deadline for Yielding {
    fn passed(&mut self) -> bool {
        thread::yield_now();
        Instant::now() >= self.0
    }
}

fn soon() -> Yielding {
    Yielding(Instant::now() + Duration::from_secs(20))
}

const NUMBER: u8 = 3;

fn attr(table: Table) -> TeamAttr {
    TeamAttr::new(NUMBER).with_packets(4).with_scratch(1 << 10).with_table(table)
}

/// ThreadSanitizer does not see the synchronisation of the barrier in `std`.
fn meet(came: &AtomicU32, n: u32) {
    came.fetch_add(1, Ordering::AcqRel);
    while came.load(Ordering::Acquire) < n {
        thread::yield_now();
    }
}

/// Locks without sleep, for ThreadSanitizer: see `meet`.
fn locked<V, R>(lock: &Mutex<V>, look: impl FnOnce(&mut V) -> R) -> R {
    loop {
        if let Ok(mut value) = lock.try_lock() {
            return look(&mut value);
        }
        thread::yield_now();
    }
}

fn groups<R: Send>(
    faults: Faults,
    n: u32,
    story: impl Fn(&Group<'static, Side, Vec<u8>, Global>, u32) -> R + Sync,
) -> Vec<R> {
    let network = Network::new(NetworkAttr { endpoints: 64, ..NetworkAttr::default() }).unwrap();
    let addresses: Mutex<Vec<Option<EndpointAddr>>> = Mutex::new(vec![None; n as usize]);
    let [ready, over] = [const { AtomicU32::new(0) }; 2];
    thread::scope(|scope| {
        let threads: Vec<_> = (0..n)
            .map(|rank| {
                let (network, addresses, ready, over, story) = (network.clone(), &addresses, &ready, &over, &story);
                scope.spawn(move || {
                    let domain = Domain::open(&network.info_with_faults(faults)).unwrap();
                    let prepared = Prepared::open(&domain, 64, 64).unwrap();
                    let address = prepared.address().unwrap();
                    locked(addresses, |addresses| addresses[rank as usize] = Some(address));
                    meet(ready, n);
                    let all = locked(addresses, |addresses| addresses.clone());
                    let group = prepared.connect(all.iter().flatten()).unwrap();
                    // A member that panics also arrives: the others wait for it.
                    let result = catch_unwind(AssertUnwindSafe(|| story(&group, rank)));
                    meet(over, n);
                    result.unwrap_or_else(|panic| resume_unwind(panic))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn members<R: Send>(n: u32, attr: TeamAttr, capacity: usize, story: impl Fn(&Members<'_>) -> R + Sync) -> Vec<R> {
    with_faults(Faults::new(0), n, attr, capacity, story)
}

fn with_faults<R: Send>(
    faults: Faults,
    n: u32,
    attr: TeamAttr,
    capacity: usize,
    story: impl Fn(&Members<'_>) -> R + Sync,
) -> Vec<R> {
    groups(faults, n, |group, rank| story(&team(group, attr, capacity, rank, 0..n)))
}

fn packets(capacity: usize) -> impl Iterator<Item = Vec<u8>> {
    std::iter::repeat_with(move || Vec::with_capacity(capacity))
}

fn team<'g>(
    group: &'g Group<'static, Side, Vec<u8>, Global>,
    attr: TeamAttr,
    capacity: usize,
    rank: u32,
    members: impl ExactSizeIterator<Item = u32>,
) -> Members<'g> {
    Team::open(group, attr, members.map(PeerIndex), rank, packets(capacity)).unwrap()
}

fn done<E: Element, C: Combine<E>>(running: Started<'_, '_, E, C>) {
    running.unwrap().wait(soon()).unwrap();
}

fn values(rank: u32, len: usize) -> Vec<u64> {
    (0..len as u64).map(|place| u64::from(rank) * 1000 + place).collect()
}

fn out(len: usize, run: impl FnOnce(&mut [u64])) -> Vec<u64> {
    let mut output = vec![0; len];
    run(&mut output);
    output
}

fn all(team: &Members<'_>) {
    let (rank, n) = (team.rank(), team.size());
    let (size, root, count) = (n as usize, n - 1, 2 * n as usize + 3);
    let sums = |ranks: u32| -> Vec<u64> { (0..count).map(|p| (0..ranks).map(|r| values(r, count)[p]).sum()).collect() };
    let mine = &values(rank, count);
    let only = |at_root: Vec<u64>| if rank == root { at_root } else { vec![] };
    let at_root = |len| if rank == root { len } else { 0 };

    done(team.barrier());
    let mut elements = if rank == root { values(7, count) } else { vec![0; count] };
    done(team.broadcast(root, &mut elements));
    assert_eq!(elements, values(7, count));
    assert_eq!(out(at_root(count), |out| done(team.reduce(root, Sum, mine, out))), only(sums(n)));
    assert_eq!(out(count, |out| done(team.all_reduce(Sum, mine, out))), sums(n));
    assert_eq!(out(count, |out| done(team.scan(Sum, mine, out))), sums(rank + 1));
    let blocks = Blocks::Split(count);
    let own = |all: &[u64]| {
        let start = |rank: usize| count / size * rank + rank.min(count % size);
        all[start(rank as usize)..start(rank as usize + 1)].to_vec()
    };
    let block = &own(&values(0, count));
    let len = block.len();
    assert_eq!(out(len, |out| done(team.reduce_scatter_blocks(Sum, blocks, mine, out))), own(&sums(n)));
    assert_eq!(out(at_root(count), |out| done(team.gather_blocks(root, blocks, block, out))), only(values(0, count)));
    assert_eq!(out(count, |out| done(team.all_gather_blocks(blocks, block, out))), values(0, count));
    let given = &only(values(9, count));
    assert_eq!(out(len, |out| done(team.scatter_blocks(root, blocks, given, out))), own(&values(9, count)));

    let of = |rank: u32| values(rank, 2 * size);
    let column = |of: &[u64]| of[2 * rank as usize..][..2].to_vec();
    let columns: Vec<_> = (0..n).flat_map(|rank| column(&of(rank))).collect();
    assert_eq!(out(2 * size, |out| done(team.all_to_all(&of(rank), out))), columns);
    let two = Blocks::Equal(2);
    assert_eq!(out(2 * size, |out| done(team.all_to_all_blocks(two, two, &of(rank), out))), columns);
    let total: Vec<u64> = (0..2 * size).map(|p| (0..n).map(|r| of(r)[p]).sum()).collect();
    assert_eq!(out(2, |out| done(team.reduce_scatter(Sum, &of(rank), out))), column(&total));
    let firsts: Vec<_> = (0..n).flat_map(|rank| values(rank, 2)).collect();
    assert_eq!(out(at_root(2 * size), |out| done(team.gather(root, &mine[..2], out))), only(firsts.clone()));
    assert_eq!(out(2 * size, |out| done(team.all_gather(&mine[..2], out))), firsts);
    let given = &only(of(9));
    assert_eq!(out(2, |out| done(team.scatter(root, given, out))), column(&of(9)));
}

#[test]
fn members_on_threads_get_the_results_of_collectives() {
    for n in [1, 2, 3, 5, 8] {
        for switch in [Switch::ALWAYS, Switch::NEVER] {
            for (packets, capacity) in [(2, 8), (5, 20), (8, 4096)] {
                members(n, attr(Table::of(switch)).with_packets(packets), capacity, all);
            }
        }
    }
}

#[test]
fn operands_keep_the_order_of_ranks() {
    for n in [2, 3, 6] {
        members(n, attr(Table::DEFAULT), 64, |team| {
            let (rank, last, root, count) = (team.rank(), n - 1, n / 2, n as usize);
            let (of, mine) = (|rank| values(rank, count), &values(rank, count));
            let (first, second) = (Associative(|a: u64, _| a), Associative(|_, b: u64| b));
            let at_root = if rank == root { count } else { 0 };

            let all = [
                out(count, |out| done(team.all_reduce(first, mine, out))),
                out(count, |out| done(team.all_reduce(second, mine, out))),
            ];
            assert_eq!(all, [of(0), of(last)]);
            let scan = [
                out(count, |out| done(team.scan(first, mine, out))),
                out(count, |out| done(team.scan(second, mine, out))),
            ];
            assert_eq!(scan, [of(0), of(rank)]);
            let reduce = [
                out(at_root, |out| done(team.reduce(root, first, mine, out))),
                out(at_root, |out| done(team.reduce(root, second, mine, out))),
            ];
            assert_eq!(reduce, if rank == root { [of(0), of(last)] } else { [vec![], vec![]] });
            let scatter = [
                out(1, |out| done(team.reduce_scatter(first, mine, out))),
                out(1, |out| done(team.reduce_scatter(second, mine, out))),
            ];
            assert_eq!(scatter, [0, last].map(|of| vec![values(of, count)[rank as usize]]));
        });
    }
}

#[test]
fn refusals_and_delays_do_not_change_results() {
    let table = Table { all_reduce: Switch::ALWAYS, broadcast: Switch::ALWAYS, ..Table::DEFAULT };
    for seed in 0..10 {
        let faults = Faults { refuse: Every::About(2), delay: 5, reorder: 5, ..Faults::new(seed) };
        with_faults(faults, 4, attr(table), 16, all);
    }
}

#[test]
fn collectives_of_threads_that_are_under_way_together_do_not_mix() {
    for n in [2, 3, 4] {
        groups(Faults { refuse: Every::About(3), delay: 3, reorder: 3, ..Faults::new(7) }, n, |group, rank| {
            let whole = team(group, attr(Table::DEFAULT).with_at_once(3), 16, rank, 0..n);
            let backwards = TeamAttr { number: 4, ..attr(Table::DEFAULT) };
            let backwards = team(group, backwards, 16, n - 1 - rank, (0..n).rev());
            for turn in 0..100_u64 {
                let given = |which: u64| [turn * 10 + which + u64::from(rank), u64::from(rank)];
                let [mut a, mut b, mut d] = [[0; 2]; 3];
                let mut c = [turn, 99];
                let [x, y, z] = [1, 2, 3].map(given);
                let mut first = whole.all_reduce(Sum, &x, &mut a).unwrap();
                let mut second = whole.scan(Sum, &y, &mut b).unwrap();
                let mut third = whole.broadcast(0, &mut c).unwrap();
                assert!(matches!(whole.barrier(), Err(CollectiveError::Busy)) && whole.under_way() == 3);
                let mut other = backwards.scan(Sum, &z, &mut d).unwrap();
                other.wait(soon()).unwrap();
                third.wait(soon()).unwrap();
                first.wait(soon()).unwrap();
                second.wait(soon()).unwrap();
                let sum = |which: u64, ranks: std::ops::Range<u32>| -> [u64; 2] {
                    let of = |rank: u32| [turn * 10 + which + u64::from(rank), u64::from(rank)];
                    ranks.map(of).fold([0; 2], |[a, b], [c, d]| [a + c, b + d])
                };
                drop((first, second, third, other));
                assert_eq!((a, b, d), (sum(1, 0..n), sum(2, 0..rank + 1), sum(3, rank..n)));
                assert_eq!(c, [turn, 99]);
            }
            done(whole.barrier());
        });
    }
}

#[test]
fn collective_that_stays_behind_holds_up_the_63rd_after_it() {
    members(2, attr(Table::DEFAULT).with_at_once(2), 64, |team| {
        let mut word = [u64::from(team.rank())];
        let mut slow = team.broadcast(0, &mut word).unwrap();
        for _ in 0..62 {
            done(team.barrier());
        }
        assert_eq!(team.barrier().map(drop), Err(CollectiveError::Busy));
        slow.wait(soon()).unwrap();
        drop(slow);
        assert_eq!(word, [0]);
        done(team.barrier());
    });
}

#[test]
fn failure_of_an_operation_ends_the_team() {
    let ends = with_faults(Faults { fail: Every::Nth(9), ..Faults::new(1) }, 3, attr(Table::DEFAULT), 64, |team| {
        let soon = Instant::now() + Duration::from_millis(200);
        let end = (0..100).find_map(|_| team.barrier().and_then(|mut barrier| barrier.wait(soon)).err());
        (end, team.barrier().map(|_| ()), team.is_over())
    });
    assert!(ends.iter().any(|(end, ..)| matches!(end, Some(CollectiveError::Operation { .. }))), "{ends:?}");
    for (end, after, over) in ends {
        assert!(matches!(end, Some(CollectiveError::Operation { .. } | CollectiveError::TimedOut { .. })), "{end:?}");
        assert_eq!((after, over), (Err(CollectiveError::Over), true));
    }
}

#[test]
fn numbers_of_collectives_are_used_again() {
    members(3, attr(Table::DEFAULT), 64, |team| {
        for turn in 0..600_u64 {
            let mut word = [if team.rank() == 0 { turn } else { 0 }];
            done(team.broadcast(0, &mut word));
            assert_eq!(word, [turn]);
        }
    });
}

#[test]
fn floating_point_sums_have_the_same_bits() {
    let outputs = members(5, attr(Table::DEFAULT), 64, |team| {
        let given: Vec<f64> = (0..20).map(|place| 1.0 / f64::from(1 + team.rank() * 20 + place)).collect();
        let mut output = [0.0; 20];
        done(team.all_reduce(Sum, &given, &mut output));
        output.map(f64::to_bits)
    });
    assert!(outputs.iter().all(|output| *output == outputs[0]));
}

#[test]
fn deadline_ends_a_wait_for_a_member_that_does_not_come() {
    groups(Faults::new(0), 3, |group, rank| {
        if rank == 1 {
            return;
        }
        let missing = team(group, attr(Table::DEFAULT), 64, rank, 0..3);
        let mut barrier = missing.barrier().unwrap();
        let mut soon = soon();
        let mut named = 0;
        while named < 2 {
            let ended = barrier.wait(Instant::now() + Duration::from_millis(20));
            let Err(CollectiveError::TimedOut { member: Some(member) }) = ended else { panic!("{ended:?}") };
            assert!(member == 1 || (rank, member) == (0, 2), "of member {rank}: {member}");
            named += u32::from(member == 1);
            assert!(!soon.passed(), "the other comes");
        }
        drop(barrier);
        assert!(missing.is_over());
        assert_eq!(missing.barrier().map(drop), Err(CollectiveError::Over));
        drop(missing);
        let again = Team::open(group, attr(Table::DEFAULT), (0..3).map(PeerIndex), rank, packets(64));
        assert_eq!(again.map(drop), Err(CollectiveError::NumberTaken));
        assert_eq!(group.cq().in_flight(), 0);
    });
}

#[test]
fn removed_member_is_named() {
    let ends = groups(Faults::new(0), 2, |group, rank| {
        let pair = team(group, attr(Table::DEFAULT), 64, rank, 0..2);
        assert!(group.remove(PeerIndex(1 - rank)));
        pair.barrier().map(drop)
    });
    for (rank, end) in (0..).zip(ends) {
        let error = loom_core::error::PostError::UnknownPeer;
        assert_eq!(end, Err(CollectiveError::Post { member: 1 - rank, error }));
    }
}

#[test]
fn invalid_teams_and_calls_are_refused() {
    groups(Faults::new(0), 2, |group, rank| {
        let open = |attr: TeamAttr, members: u32, rank: u32, there: usize| {
            Team::open(group, attr, (0..members).map(PeerIndex), rank, packets(4).take(there))
        };
        let attr = TeamAttr::new(1).with_packets(2).with_scratch(4);
        assert_eq!(open(attr, 2, rank, 1).map(drop), Err(CollectiveError::Packets));
        assert_eq!(open(attr.with_packets(1), 2, rank, 8).map(drop), Err(CollectiveError::Packets));
        assert_eq!(open(attr.with_packets(33), 2, rank, 99).map(drop), Err(CollectiveError::Packets));
        assert_eq!(open(attr.with_at_once(0), 2, rank, 8).map(drop), Err(CollectiveError::Packets));
        assert!(matches!(open(attr, 2, 2, 8), Err(CollectiveError::Rank)));
        assert!(matches!(open(attr, 0, 0, 8), Err(CollectiveError::Members)));
        assert!(matches!(open(attr, (1 << 16) + 1, 0, 8), Err(CollectiveError::Members)));
        let team = open(attr, 2, rank, 2).unwrap();
        assert_eq!(open(attr, 2, rank, 2).map(drop), Err(CollectiveError::NumberTaken));

        let mut output = [0_u32; 2];
        assert_eq!(team.all_reduce(Sum, &[1], &mut output).map(drop), Err(CollectiveError::Lengths));
        let short = team.all_reduce(Sum, &[1; 5], &mut [0_u32; 5]).map(drop);
        assert_eq!(short, Err(CollectiveError::Scratch { needs: 20 }));
        assert_eq!(team.broadcast(0, &mut [0_u64]).map(drop), Err(CollectiveError::Packets));
        assert!(matches!(team.broadcast(2, &mut output).map(drop), Err(CollectiveError::Root)));
        assert!(!team.is_over() && team.under_way() == 0);
        done(team.barrier());
    });
}

#[test]
fn member_that_takes_a_place_is_not_in_the_team() {
    for begun in [false, true] {
        let network = Network::new(NetworkAttr { endpoints: 8, ..NetworkAttr::default() }).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let attr = GroupAttr::new(2).with_replacements(1);
        let [here, before, newcomer] = [(); 3].map(|()| Prepared::open(&domain, attr, 64).unwrap());
        let [own, old, new] = [&here, &before, &newcomer].map(|it| it.address().unwrap());
        let (here, newcomer) = (here.connect([&own, &old]).unwrap(), newcomer.connect([&own, &new]).unwrap());
        let ours = team(&here, self::attr(Table::DEFAULT), 64, 0, 0..2);
        let under_way = begun.then(|| ours.barrier().unwrap());
        here.set(PeerIndex(1), &new).unwrap();
        let theirs = team(&newcomer, self::attr(Table::DEFAULT), 64, 1, 0..2);
        let mut other = theirs.barrier().unwrap();
        let ended = match under_way {
            None => ours.barrier().map(drop).unwrap_err(),
            Some(mut ours) => {
                let mut turns = 0..1000;
                loop {
                    turns.next().expect("it ends");
                    let _ = other.turn();
                    match ours.turn() {
                        Ok(over) => assert!(!over, "it is over without its member"),
                        Err(ended) => break ended,
                    }
                }
            }
        };
        assert_eq!(ended, CollectiveError::Post { member: 1, error: loom_core::error::PostError::UnknownPeer });
        assert!(ours.is_over());
    }
}

/// A forgotten collective keeps its receives posted.
#[test]
fn number_of_a_forgotten_collective_stays_taken() {
    groups(Faults::new(0), 2, |group, rank| {
        let forgetful = team(group, attr(Table::DEFAULT), 64, rank, 0..2);
        std::mem::forget(forgetful.barrier().unwrap());
        assert_eq!(forgetful.under_way(), 1);
        drop(forgetful);
        let again = Team::open(group, attr(Table::DEFAULT), (0..2).map(PeerIndex), rank, packets(64));
        assert_eq!(again.map(drop), Err(CollectiveError::NumberTaken));
        let other = TeamAttr { number: 9, ..attr(Table::DEFAULT) };
        done(team(group, other, 64, rank, 0..2).barrier());
    });
}
