//! One rank of loom's side.

use std::env;
use std::time::{Duration, Instant};

use loom_fabric::loom_core::deadline::Yielding;
use loom_fabric::loom_core::vocabulary::{Caps, EndpointAddr};
use loom_fabric::loom_core::{Domain, Forever, Hints, Info};
use loom_fabric::ofi::{Local, Ofi};
use loom_group::bootstrap::{Bootstrap, Pmi, Slots};
use loom_group::collective::{Sum, Team, TeamAttr};
use loom_group::{PeerIndex, Prepared};

use crate::measure::{median, per_operation};

type T = Ofi<Local>;

/// Length of the messages of two ranks that all-reduce 1 MiB in a ring, which MPICH also sends
/// whole. Packets of 16 KiB take several times as long.
const PACKET: usize = 512 << 10;
const PACKETS: usize = 4;
/// Bytes of the longest message.
const SCRATCH: usize = 1 << 20;
/// Maximum bytes of an address.
const ADDRESS: usize = 256;

fn info(provider: &str) -> Info<T> {
    let node = (provider != "shm").then_some("127.0.0.1");
    let caps = Caps::MSG | Caps::TAGGED;
    let hints = Hints { caps, provider: Some(provider), node, listen: node.is_some(), ..Hints::default() };
    T::query(&hints).unwrap().find(|info| info.provider() == provider && info.caps().contains(caps)).unwrap()
}

/// Runs a rank, with the arguments of the side of MPI.
pub(crate) fn run(arguments: &[String]) {
    let provider = env::var("FI_PROVIDER").unwrap();
    let until = &mut (Instant::now() + Duration::from_secs(60));
    // SAFETY: a launcher has started this process, which does not use the descriptor elsewhere.
    let mut ranks = unsafe { Pmi::from_env(ADDRESS, until) }.unwrap();
    let (rank, size) = (ranks.rank(), ranks.size());
    let domain = Domain::open(&info(&provider)).unwrap();
    let prepared = Prepared::open(&domain, size as usize, 64).unwrap();
    let mut memory = vec![0; Slots::memory_len(size as usize, ADDRESS)];
    let mut all = Slots::new(&mut memory, size);
    let mine = prepared.address().unwrap();
    ranks.all_gather(mine.bytes(), &mut all, until).unwrap();
    let addresses = all.iter().map(|bytes| EndpointAddr::new(mine.format(), bytes).unwrap());
    let group = prepared.connect(addresses).unwrap();
    let attr = TeamAttr::new(1).with_packets(PACKETS).with_scratch(SCRATCH);
    let packets = std::iter::repeat_with(|| Vec::with_capacity(PACKET));
    let team = Team::open(&group, attr, (0..size).map(PeerIndex), rank, packets).unwrap();
    if rank == 0 {
        println!("libfabric provider: {provider} ");
    }
    // Beyond the number of processors, a waiting rank yields, as in MPICH.
    let spins = if std::thread::available_parallelism().unwrap().get() < size as usize { 0 } else { u32::MAX };
    let patient = Yielding { until: Forever, spins };
    for [bytes, blocks, each] in arguments[2..].as_chunks::<3>().0 {
        let count = bytes.parse::<usize>().unwrap() / 8;
        let input: Vec<_> = (0..count as u64).map(|at| u64::from(rank) + 1 + at).collect();
        let mut output = vec![0; count];
        let mut times = Vec::new();
        for block in 0..=blocks.parse::<usize>().unwrap() {
            let time = per_operation(each.parse().unwrap(), |each| {
                (0..each).for_each(|_| team.all_reduce(Sum, &input, &mut output).unwrap().wait(patient).unwrap());
            });
            if block > 0 {
                times.push(time);
            }
        }
        let size = u64::from(size);
        assert!((0..).zip(&output).all(|(at, sum)| *sum == size * (size + 1) / 2 + size * at), "other sums");
        if rank == 0 {
            println!("median {bytes} {:.1}", median(&times));
        }
    }
    team.barrier().unwrap().wait(Forever).unwrap();
    // The queue is driven so that pending messages are sent.
    let end = Instant::now() + Duration::from_millis(50);
    while Instant::now() < end {
        group.cq().progress().unwrap();
    }
    ranks.barrier(until).unwrap();
}
