//! Cost of futures over direct polling: `cargo bench --bench futures`.
//!
//! Times are in nanoseconds: medians of rounds that alternate between the sides.

#![allow(clippy::unwrap_used, reason = "there is memory for all of it")]

#[path = "../measure/mod.rs"]
mod measure;

mod windows;

use std::cell::Cell;
use std::rc::Rc;

use loom_async::{LocalExecutor, block_on};
use loom_fabric::loom_core::driver::{CqDriver, Unclaimed};
use loom_fabric::loom_core::soft::{Network, NetworkAttr, Soft};
use loom_fabric::loom_core::{Av, Completion, Cq, Domain, Endpoint, Peer, Source};

use crate::measure::{median, metric, per_operation, ratio};

const ROUNDS: usize = 31;
const ROUND: u32 = 100_000;
const LEN: usize = 64;
/// Operations in flight.
const MANY: usize = 1000;

type S = Soft<'static>;
type Bytes = Box<[u8]>;

struct Pair {
    cq: Cq<'static, S, Bytes>,
    alice: Endpoint<'static, S, Bytes>,
    bob: Endpoint<'static, S, Bytes>,
    to_bob: Peer,
}

fn pair(depth: usize) -> Pair {
    let depth32 = u32::try_from(depth).unwrap();
    let attr = NetworkAttr { endpoints: 2, tx_depth: depth32, rx_depth: depth32, ..NetworkAttr::DEFAULT };
    let network = Network::new(attr).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, 2 * depth).unwrap());
    let [alice, bob] = [cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap()];
    let to_bob = av.insert(&bob.address().unwrap()).unwrap();
    Pair { cq, alice, bob, to_bob }
}

fn buffers() -> [Bytes; 2] {
    [vec![1; LEN].into(), vec![2; LEN].into()]
}

/// Sends and polls `count` messages, one by one.
fn polled(pair: &Pair, count: u32) {
    let [mut room, mut message] = buffers();
    for _ in 0..count / 2 {
        let received = pair.bob.recv(Source::Any, room).unwrap();
        let sent = pair.alice.send(pair.to_bob, message).unwrap();
        let (mut first, mut second) = (None, None);
        while first.is_none() || second.is_none() {
            if let Some(Completion::Op(done)) = pair.cq.poll().unwrap() {
                if done.key() == received {
                    first = Some(done);
                } else if done.key() == sent {
                    second = Some(done);
                }
            }
        }
        (room, message) = (first.unwrap().into_buf(), second.unwrap().into_buf());
    }
}

/// Sends and awaits `count` messages, one by one.
async fn awaited(pair: &Pair, driver: &CqDriver<'static, S, Bytes>, count: u32) {
    let [mut room, mut message] = buffers();
    for _ in 0..count / 2 {
        let received = driver.post(room, |room| pair.bob.recv(Source::Any, room)).await.unwrap();
        message = driver.run(message, |message| pair.alice.send(pair.to_bob, message)).await.unwrap().into_buf();
        room = driver.finish(received).await.unwrap().into_buf();
    }
}

/// A task that receives a message and posts the receive again.
async fn receives(pair: Rc<Pair>, driver: CqDriver<'static, S, Bytes>, received: Rc<Cell<u32>>) {
    let [mut room, _] = buffers();
    loop {
        let done = driver.run(room, |room| pair.bob.recv(Source::Any, room)).await.unwrap();
        received.set(received.get() + 1);
        room = done.into_buf();
    }
}

/// Nanoseconds per message, with this number of tasks that have a receive in flight.
fn in_flight(tasks: usize) -> impl FnMut() -> f64 {
    let pair = Rc::new(pair(tasks.next_multiple_of(16)));
    let driver = CqDriver::open(&pair.cq, Unclaimed::Drop).unwrap();
    let received = Rc::new(Cell::new(0));
    let executor = LocalExecutor::new(tasks).unwrap();
    for _ in 0..tasks {
        executor.spawn(receives(pair.clone(), driver.clone(), received.clone())).unwrap();
    }
    executor.round(&driver);
    move || {
        received.set(0);
        per_operation(ROUND, |count| {
            for number in 0..count {
                // One message at a time, independent of the number of tasks.
                pair.alice.inject(pair.to_bob, &[1; LEN]).unwrap();
                while received.get() <= number {
                    executor.round(&driver);
                }
            }
        })
    }
}

fn main() {
    let (by_hand, driven) = (pair(16), pair(16));
    let driver = CqDriver::open(&driven.cq, Unclaimed::Drop).unwrap();
    let [mut poll, mut future, mut one, mut many] = [const { Vec::new() }; 4];
    let (mut with_one, mut with_many) = (in_flight(1), in_flight(MANY));
    for round in 0..=ROUNDS {
        let times = [
            per_operation(ROUND, |count| polled(&by_hand, count)),
            per_operation(ROUND, |count| block_on(&driver, awaited(&driven, &driver, count))),
            with_one(),
            with_many(),
        ];
        // The first round warms up.
        if round > 0 {
            for (figures, time) in [&mut poll, &mut future, &mut one, &mut many].into_iter().zip(times) {
                figures.push(time);
            }
        }
    }
    let minus: Vec<f64> = future.iter().zip(&poll).map(|(future, poll)| future - poll).collect();
    println!("a message of {LEN} bytes, software transport, one thread; sends and receives count");
    println!("    polled {:.1} ns, awaited {:.1} ns", median(&poll), median(&future));
    metric("poll.ns", median(&poll), "ns");
    metric("future.ns", median(&future), "ns");
    metric("future_minus_poll.ns", median(&minus), "ns");
    metric("future_over_poll", ratio(&future, &poll), "ratio");
    println!(
        "a receive by one of so many tasks, each with one in flight: send, round of the executor, and posting again"
    );
    println!("    1 task {:.1} ns, {MANY} tasks {:.1} ns", median(&one), median(&many));
    metric("future.inflight_1.ns", median(&one), "ns");
    metric("future.inflight_1000.ns", median(&many), "ns");
    metric("future.inflight_1000_over_1", ratio(&many, &one), "ratio");
    windows::run();
}
