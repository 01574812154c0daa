//! Collectives of threads over the software transport, with packets of one element or more.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use loom_core::soft::{Every, Network, NetworkAttr, Plan as Faults, Soft};
use loom_core::{Av, Cq, Deadline, Domain, EndpointAddr};
use loom_group::collective::{Buffers, CollectiveError, Collectives, Element};
use loom_group::schedule::{Blocks, Commutes, Plan, Schedule, Switch, Table};

type Group<'c> = Collectives<'c, 'static, Soft<'static>, Vec<u8>>;

/// A deadline that leaves the processor to the other members.
#[derive(Clone, Copy)]
struct Yielding(Instant);

impl Deadline for Yielding {
    fn passed(&mut self) -> bool {
        thread::yield_now();
        Instant::now() >= self.0
    }
}

/// Far more than a collective takes on a busy machine.
fn soon() -> Yielding {
    Yielding(Instant::now() + Duration::from_secs(20))
}

/// Runs `story` as each member of a group, on a thread each, with `packets` packets of `capacity` bytes.
fn members<R: Send>(n: u32, packets: usize, capacity: usize, story: impl Fn(&mut Group<'_>) -> R + Sync) -> Vec<R> {
    with_faults(Faults::new(0), n, packets, capacity, story)
}

fn with_faults<R: Send>(
    faults: Faults,
    n: u32,
    packets: usize,
    capacity: usize,
    story: impl Fn(&mut Group<'_>) -> R + Sync,
) -> Vec<R> {
    let network = Network::new(NetworkAttr { endpoints: 64, ..NetworkAttr::default() }).unwrap();
    let addresses: Mutex<Vec<Option<EndpointAddr>>> = Mutex::new(vec![None; n as usize]);
    let ready = Barrier::new(n as usize);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..n)
            .map(|rank| {
                let (network, addresses, ready, story) = (network.clone(), &addresses, &ready, &story);
                scope.spawn(move || {
                    let domain = Domain::open(&network.info_with_faults(faults)).unwrap();
                    let (av, cq) = (Av::open(&domain, 64).unwrap(), Cq::open(&domain, 64).unwrap());
                    let endpoint = cq.endpoint(&av).unwrap();
                    addresses.lock().unwrap()[rank as usize] = Some(endpoint.address().unwrap());
                    ready.wait();
                    let all = addresses.lock().unwrap().clone();
                    let peers: Vec<_> = all.iter().flatten().map(|address| av.insert(address).unwrap()).collect();
                    let mut packets: Vec<_> = (0..packets).map(|_| Some(Vec::with_capacity(capacity))).collect();
                    let mut group = Collectives::new(&endpoint, &peers, rank, 3, &mut packets).unwrap();
                    // The others wait here for a member that panics, too. Their deadlines end what they wait for before.
                    let result = catch_unwind(AssertUnwindSafe(|| story(&mut group)));
                    ready.wait();
                    result.unwrap_or_else(|panic| resume_unwind(panic))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Runs a plan. Gives the output, which was `given` before.
fn run<E: Element>(group: &mut Group<'_>, plan: Plan<'_>, zero: E, given: &[E], op: impl Fn(E, E) -> E) -> Vec<E> {
    let needs = plan.needs();
    let (mut output, mut scratch) = (vec![zero; needs.output], vec![zero; needs.scratch]);
    let input = if needs.input > 0 { given } else { &[] };
    if needs.input == 0 && needs.output == given.len() {
        output.copy_from_slice(given);
    }
    let buffers = Buffers { input, output: &mut output, scratch: &mut scratch };
    group.run(&plan, buffers, op, soon()).unwrap();
    output
}

fn values(rank: u32, len: usize) -> Vec<u64> {
    (0..len as u64).map(|place| u64::from(rank) * 1000 + place).collect()
}

/// All collectives, one after the other, with short and long algorithms.
fn all(group: &mut Group<'_>, table: Table) {
    let (member, rank, n) = (group.member(), group.member().rank(), group.member().members());
    let (size, root, count) = (n as usize, n - 1, 2 * n as usize + 3);
    let sum = |a: u64, b: u64| a + b;
    let sums = |ranks: u32| -> Vec<u64> { (0..count).map(|p| (0..ranks).map(|r| values(r, count)[p]).sum()).collect() };
    let add = |group: &mut Group<'_>, plan| run(group, plan, 0, &values(rank, count), sum);
    let only = |at_root: Vec<u64>| if rank == root { at_root } else { vec![] };

    group.barrier(soon()).unwrap();
    let plan = table.broadcast(member, root, count, 8).unwrap();
    let given = if rank == root { values(7, count) } else { vec![0; count] };
    assert_eq!(run(group, plan, 0, &given, sum), values(7, count));
    assert_eq!(add(group, table.reduce(member, root, count).unwrap()), only(sums(n)));
    assert_eq!(add(group, table.all_reduce(member, count, 8, Commutes::Yes).unwrap()), sums(n));
    assert_eq!(add(group, table.scan(member, count)), sums(rank + 1));
    let blocks = Blocks::Split(count);
    let own = |all: &[u64]| {
        let start = |rank: usize| count / size * rank + rank.min(count % size);
        all[start(rank as usize)..start(rank as usize + 1)].to_vec()
    };
    assert_eq!(add(group, table.reduce_scatter(member, blocks).unwrap()), own(&sums(n)));
    let block = own(&values(0, count));
    assert_eq!(run(group, table.gather(member, root, blocks, 8).unwrap(), 0, &block, sum), only(values(0, count)));
    assert_eq!(run(group, table.all_gather(member, blocks, 8).unwrap(), 0, &block, sum), values(0, count));
    let plan = table.scatter(member, root, blocks, 8).unwrap();
    assert_eq!(run(group, plan, 0, &only(values(9, count)), sum), own(&values(9, count)));
    let plan = table.all_to_all(member, 2, 8).unwrap();
    let columns: Vec<_> = (0..n).flat_map(|r| values(r, 2 * size)[2 * rank as usize..][..2].to_vec()).collect();
    assert_eq!(run(group, plan, 0, &values(rank, 2 * size), sum), columns);
}

#[test]
fn members_get_what_the_collectives_say() {
    let [long, short] = [Switch::ALWAYS, Switch::NEVER].map(|s| Table {
        broadcast: s,
        all_reduce: s,
        gather: s,
        scatter: s,
        all_gather: s,
        all_to_all: s,
    });
    for n in [1, 2, 3, 5, 8] {
        // From one element for each packet, and one packet for each direction, to all of a message in one.
        for (packets, capacity) in [(2, 8), (5, 20), (8, 4096)] {
            members(n, packets, capacity, |group| {
                all(group, short);
                all(group, long);
            });
        }
    }
}

/// Operations that are associative and not commutative: the operands stand on the side that the schedule says.
#[test]
fn operands_keep_the_order_of_ranks() {
    for n in [2, 3, 6] {
        members(n, 4, 64, |group| {
            let (member, rank, last) = (group.member(), group.member().rank(), n - 1);
            let (of, root) = (|rank| values(rank, n as usize), n / 2);
            let block = |rank: u32, of: u32| values(of, n as usize)[rank as usize..][..1].to_vec();
            let plans = [
                Table::DEFAULT.all_reduce(member, n as usize, 8, Commutes::No).unwrap(),
                Table::DEFAULT.scan(member, n as usize),
                Table::DEFAULT.reduce(member, root, n as usize).unwrap(),
                Table::DEFAULT.reduce_scatter(member, Blocks::Equal(1)).unwrap(),
            ];
            let [all, scan, reduce, scatter] =
                plans.map(|plan| [run(group, plan, 0, &of(rank), |a, _| a), run(group, plan, 0, &of(rank), |_, b| b)]);
            assert_eq!(all, [of(0), of(last)]);
            assert_eq!(scan, [of(0), of(rank)]);
            assert_eq!(reduce, if rank == root { [of(0), of(last)] } else { [vec![], vec![]] });
            assert_eq!(scatter, [block(rank, 0), block(rank, last)]);
        });
    }
}

/// Posts that are refused for the moment, and messages that come late and in another order.
#[test]
fn refusals_and_delays_change_nothing() {
    let table = Table { all_reduce: Switch::ALWAYS, broadcast: Switch::ALWAYS, ..Table::DEFAULT };
    for seed in 0..10 {
        let faults = Faults::new(seed).refuse(Every::About(2)).delay(5).reorder(5);
        with_faults(faults, 4, 4, 16, |group| all(group, table));
    }
}

/// An operation fails: the member says so, and the group is over.
#[test]
fn failure_of_an_operation_ends_the_group() {
    let ends = with_faults(Faults::new(1).fail(Every::Nth(9)), 3, 4, 64, |group| {
        let soon = Instant::now() + Duration::from_millis(200);
        let end = (0..100).find_map(|_| group.barrier(soon).err());
        (end, group.barrier(soon))
    });
    assert!(ends.iter().any(|(end, _)| matches!(end, Some(CollectiveError::Operation(_)))), "{ends:?}");
    for (end, after) in ends {
        assert!(matches!(end, Some(CollectiveError::Operation(_) | CollectiveError::TimedOut)), "{end:?}");
        assert_eq!(after, Err(CollectiveError::Over));
    }
}

/// The numbers of collectives begin again; members that run ahead do not confuse them.
#[test]
fn numbers_of_collectives_are_used_again() {
    members(3, 4, 64, |group| {
        let (member, rank) = (group.member(), group.member().rank());
        for turn in 0..600_u64 {
            let given = [if rank == 0 { turn } else { 0 }];
            let plan = Table::DEFAULT.broadcast(member, 0, 1, 8).unwrap();
            assert_eq!(run(group, plan, 0, &given, |a, _| a), [turn]);
        }
    });
}

#[test]
fn floating_point_sums_have_the_same_bits() {
    let outputs = members(5, 4, 64, |group| {
        let rank = group.member().rank();
        let given: Vec<f64> = (0..20).map(|place| 1.0 / f64::from(1 + rank * 20 + place)).collect();
        let plan = Table::DEFAULT.all_reduce(group.member(), 20, 8, Commutes::No).unwrap();
        run(group, plan, 0.0, &given, |a, b| a + b).iter().map(|x| x.to_bits()).collect::<Vec<_>>()
    });
    assert!(outputs.iter().all(|output| *output == outputs[0]));
}

/// A member that does not come: the others give up at their deadline, and the group is over.
#[test]
fn deadline_ends_a_collective_without_a_member() {
    let ends = members(3, 4, 64, |group| {
        if group.member().rank() == 1 {
            return None;
        }
        let soon = Instant::now() + Duration::from_millis(50);
        Some((group.barrier(soon), group.barrier(soon)))
    });
    for (rank, end) in ends.into_iter().enumerate() {
        assert_eq!(end, (rank != 1).then_some((Err(CollectiveError::TimedOut), Err(CollectiveError::Over))));
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    members(2, 2, 4, |group| {
        let (mut output, none) = ([0_u32; 1], &mut []);
        let plan = Table::DEFAULT.all_reduce(group.member(), 2, 4, Commutes::No).unwrap();
        let buffers = Buffers { input: &[1, 2], output: &mut output, scratch: none };
        assert_eq!(group.run(&plan, buffers, |a, b| a + b, soon()), Err(CollectiveError::Lengths));
        // Packets of four bytes do not take an element of eight. Nothing was posted, and the group goes on.
        let buffers = Buffers::<u64> { input: &[], output: &mut [], scratch: &mut [] };
        assert_eq!(
            group.run(&Table::DEFAULT.barrier(group.member()), buffers, |a, _| a, soon()),
            Err(CollectiveError::Lengths)
        );
        group.barrier(soon()).unwrap();
    });
}
