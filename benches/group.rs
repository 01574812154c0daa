//! Cost of a group over a loop by hand: `cargo bench --bench group`.
//!
//! Times are in nanoseconds per scatter: medians of rounds that alternate between the sides.

#![allow(clippy::unwrap_used, reason = "there is memory for all of it")]

mod measure;

use loom_fabric::loom_core::soft::{Network, NetworkAttr, Soft};
use loom_fabric::loom_core::{Av, Cq, Domain, Endpoint, EndpointAddr, Forever, OpKey, Peer, Source};
use loom_group::{Group, PeerIndex, Place, Prepared};

use crate::measure::{median, metric, per_operation, ratio};

const ROUNDS: usize = 31;
/// Scatters in a round.
const ROUND: u32 = 20_000;
const LEN: usize = 64;
const PEERS: usize = 8;

type S = Soft<'static>;
type Bytes = Box<[u8]>;
type All = Group<'static, S, Bytes, loom_fabric::loom_core::allocator_api2::alloc::Global>;

/// A peer with its own queue and one posted receive.
struct Receiver {
    cq: Cq<'static, S, Bytes>,
    endpoint: Endpoint<'static, S, Bytes>,
    posted: OpKey,
}

impl Receiver {
    fn open(domain: &Domain<'static, S>) -> Self {
        let av = Av::open(domain, 2).unwrap();
        let cq = Cq::open(domain, 16).unwrap();
        let endpoint = cq.endpoint(&av).unwrap();
        let posted = endpoint.recv(Source::Any, bytes()).unwrap();
        Receiver { cq, endpoint, posted }
    }

    fn address(&self) -> EndpointAddr {
        self.endpoint.address().unwrap()
    }

    /// Takes the message, and posts the receive again.
    fn take(&mut self) {
        let (buf, result) = self.cq.wait(self.posted, Forever).unwrap().unwrap().into_parts();
        assert_eq!(result.unwrap().len, LEN, "the message is whole");
        self.posted = self.endpoint.recv(Source::Any, buf).unwrap();
    }
}

fn bytes() -> Bytes {
    vec![1; LEN].into()
}

/// Scatters by [`Group::scatter_send`].
#[inline(never)]
fn grouped(group: &All, receivers: &mut [Receiver], buffers: &mut [Option<Bytes>; PEERS], count: u32) {
    let mut places = [const { Place::EMPTY }; PEERS];
    for _ in 0..count {
        let messages = buffers.iter_mut().map(|buf| buf.take().unwrap());
        let summary = group.scatter_send((0..).map(PeerIndex).zip(messages), &mut places, Forever).unwrap();
        assert!(summary.is_complete(), "all messages are sent");
        for (place, buf) in places.iter_mut().zip(&mut *buffers) {
            *buf = place.take_buf();
        }
        receivers.iter_mut().for_each(Receiver::take);
    }
}

/// Scatters by hand, over the same endpoint and queue.
#[inline(never)]
fn by_hand(
    group: &All,
    peers: &[Peer; PEERS],
    receivers: &mut [Receiver],
    buffers: &mut [Option<Bytes>; PEERS],
    count: u32,
) {
    let (endpoint, cq) = (group.endpoint().unwrap(), group.cq());
    let mut keys = [None; PEERS];
    for _ in 0..count {
        for ((peer, buf), key) in peers.iter().zip(&mut *buffers).zip(&mut keys) {
            *key = Some(endpoint.send(*peer, buf.take().unwrap()).unwrap());
        }
        for (key, back) in keys.iter().zip(&mut *buffers) {
            let (buf, result) = cq.wait(key.unwrap(), Forever).unwrap().unwrap().into_parts();
            result.unwrap();
            *back = Some(buf);
        }
        receivers.iter_mut().for_each(Receiver::take);
    }
}

struct Sides {
    group: All,
    peers: [Peer; PEERS],
    receivers: Vec<Receiver>,
    buffers: [Option<Bytes>; PEERS],
}

impl Sides {
    fn open() -> Self {
        let endpoints = u16::try_from(PEERS + 1).unwrap();
        let network = Network::new(NetworkAttr { endpoints, ..NetworkAttr::DEFAULT }).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let receivers: Vec<_> = (0..PEERS).map(|_| Receiver::open(&domain)).collect();
        let group = Prepared::open(&domain, PEERS, 2 * PEERS).unwrap();
        let group = group.connect(receivers.iter().map(Receiver::address)).unwrap();
        let peers = core::array::from_fn(|number| group.peer(PeerIndex(u32::try_from(number).unwrap())).unwrap());
        Sides { group, peers, receivers, buffers: core::array::from_fn(|_| Some(bytes())) }
    }

    fn run(&mut self, side: &str, count: u32) {
        match side {
            "grouped" => grouped(&self.group, &mut self.receivers, &mut self.buffers, count),
            "by_hand" => by_hand(&self.group, &self.peers, &mut self.receivers, &mut self.buffers, count),
            _ => panic!("sides: grouped, by_hand"),
        }
    }
}

/// Instructions of one scatter.
fn counted(side: &str) -> f64 {
    const SCATTERS: u32 = 1_000;
    measure::instructions(&format!("group::{side}*"), &["--only", side, &SCATTERS.to_string()]) / f64::from(SCATTERS)
}

fn main() {
    let mut sides = Sides::open();
    // Cargo adds `--bench`.
    let args: Vec<_> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let [only, side, count] = &args[..] {
        assert_eq!(only, "--only", "arguments: none, or --only SIDE COUNT");
        return sides.run(side, count.parse().unwrap());
    }
    let [mut of_group, mut of_loop] = [const { Vec::new() }; 2];
    for round in 0..=ROUNDS {
        let times = ["grouped", "by_hand"].map(|side| per_operation(ROUND, |count| sides.run(side, count)));
        // The first round warms up.
        if round > 0 {
            for (figures, time) in [&mut of_group, &mut of_loop].into_iter().zip(times) {
                figures.push(time);
            }
        }
    }
    println!("a scatter of {LEN} bytes to {PEERS} peers, which take them; software transport, one thread");
    println!("    by a loop {:.1} ns, by a group {:.1} ns", median(&of_loop), median(&of_group));
    metric("loop.scatter.64B.ns", median(&of_loop), "ns");
    metric("group.scatter.64B.ns", median(&of_group), "ns");
    metric("group_over_loop.scatter.64B", ratio(&of_group, &of_loop), "ratio");
    let [grouped, by_hand] = ["grouped", "by_hand"].map(counted);
    println!("    by a loop {by_hand:.0} instructions, by a group {grouped:.0}");
    metric("group_over_loop.scatter.64B.instructions", grouped / by_hand, "ratio");
}
