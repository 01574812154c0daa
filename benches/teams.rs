//! Growth of the time of a collective with the number of members: `cargo bench --bench teams`.
//!
//! All members are on one thread, over the software transport. The total time is that of their
//! messages, and divided by the number of members it is the time of one.

#![allow(clippy::unwrap_used, reason = "there is memory for all of it")]

mod measure;

use loom_fabric::loom_core::allocator_api2::alloc::Global;
use loom_fabric::loom_core::soft::{Network, NetworkAttr, Soft};
use loom_fabric::loom_core::{Domain, EndpointAddr};
use loom_group::collective::{Combine, Element, Running, Sum, Team, TeamAttr};
use loom_group::{Group, PeerIndex, Prepared};

use crate::measure::{median, metric, per_operation, ratio};

const ROUNDS: usize = 11;
/// Collectives of all members in a round, divided by the members.
const ROUND: u32 = 4000;
const FEW: u32 = 10;
const MANY: u32 = 1000;

type S = Soft<'static>;
type One = Group<'static, S, Vec<u8>, Global>;
type Members<'g> = Team<'g, 'static, S, Vec<u8>, Global>;
type Started<'t, 'b, E, C> = Running<'t, 'b, 'static, S, Vec<u8>, Global, E, C>;

fn groups(members: u32) -> Vec<One> {
    let endpoints = u16::try_from(members).unwrap();
    // A member has one message in transit to each of its few targets.
    let network = Network::new(NetworkAttr { endpoints, ..NetworkAttr::DEFAULT }).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let size = usize::from(endpoints);
    let prepared: Vec<_> = (0..members).map(|_| Prepared::open(&domain, size, 8).unwrap()).collect();
    let addresses: Vec<EndpointAddr> = prepared.iter().map(|it| it.address().unwrap()).collect();
    prepared.into_iter().map(|it| it.connect(&addresses).unwrap()).collect()
}

fn team(group: &One, members: u32, rank: u32) -> Members<'_> {
    let packets = std::iter::repeat_with(|| Vec::with_capacity(64));
    let attr = TeamAttr::new(1).with_packets(2).with_scratch(64);
    Team::open(group, attr, (0..members).map(PeerIndex), rank, packets).unwrap()
}

/// Drives all operations until they are completed.
fn finish<E: Element, C: Combine<E>>(mut running: Vec<Started<'_, '_, E, C>>) {
    let mut left = running.len();
    let mut over = vec![false; left];
    while left > 0 {
        for (running, over) in running.iter_mut().zip(&mut over) {
            if !*over && running.turn().unwrap() {
                *over = true;
                left -= 1;
            }
        }
    }
}

/// Nanoseconds per member, in a barrier and in an all-reduce of a word.
struct Times {
    barrier: f64,
    all_reduce: f64,
}

fn times(teams: &[Members<'_>]) -> Times {
    let members = f64::from(teams[0].size());
    let count = ROUND / teams[0].size();
    let barrier = per_operation(count, |count| {
        for _ in 0..count {
            finish(teams.iter().map(|team| team.barrier().unwrap()).collect());
        }
    });
    let mut sums = vec![[0]; teams.len()];
    let all_reduce = per_operation(count, |count| {
        for _ in 0..count {
            let begun = teams.iter().zip(&mut sums).map(|(team, sum)| team.all_reduce(Sum, &[1_u64], sum).unwrap());
            finish(begun.collect());
        }
    });
    assert!(sums.iter().all(|[sum]| *sum == teams.len() as u64), "every member has the sum");
    Times { barrier: barrier / members, all_reduce: all_reduce / members }
}

fn main() {
    let groups = [FEW, MANY].map(groups);
    let teams = [FEW, MANY].map(|members| {
        let [few, many] = &groups;
        let groups = if members == FEW { few } else { many };
        (0..).zip(groups).map(|(rank, group)| team(group, members, rank)).collect::<Vec<_>>()
    });
    let mut barriers = [const { Vec::new() }; 2];
    let mut all_reduces = [const { Vec::new() }; 2];
    for round in 0..=ROUNDS {
        for ((teams, barriers), all_reduces) in teams.iter().zip(&mut barriers).zip(&mut all_reduces) {
            let times = times(teams);
            // The first round warms up.
            if round > 0 {
                barriers.push(times.barrier);
                all_reduces.push(times.all_reduce);
            }
        }
    }
    println!("{FEW} and {MANY} members on one thread; software transport; ns of one member");
    for (name, [few, many]) in [("barrier", &barriers), ("all_reduce.8B", &all_reduces)] {
        // Messages of a member: the base-2 logarithm of the members, rounded up. An all-reduce has
        // two more for the members beyond a power of two.
        println!("    {name}: {:.0} and {:.0}", median(few), median(many));
        metric(&format!("{name}.{FEW}.ns"), median(few), "ns");
        metric(&format!("{name}.{MANY}.ns"), median(many), "ns");
        let levels = |members: u32| f64::from(members).log2().ceil();
        let growth = ratio(many, few) / (levels(MANY) / levels(FEW));
        metric(&format!("{name}.growth_over_log2"), growth, "ratio");
    }
}
