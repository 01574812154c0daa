//! What futures cost over direct polling: `cargo bench --bench futures`.
//!
//! Nanoseconds, medians of rounds that alternate between the sides.

#![allow(clippy::unwrap_used, reason = "there is memory for all of it")]

#[path = "../measure/mod.rs"]
mod measure;

use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::collections::VecDeque;

use loom_fabric::loom_core::objects::driver::{CqDriver, Drive, Unclaimed};
use loom_fabric::loom_core::soft::{Network, NetworkAttr, Soft};
use loom_fabric::loom_core::{Av, Completion, Cq, Domain, Endpoint, Peer, Source};

use crate::measure::{median, metric, per_operation};

const ROUNDS: usize = 31;
const ROUND: u32 = 100_000;
const LEN: usize = 64;

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

/// Messages one by one, polled: operations.
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

/// The same, awaited.
async fn awaited(pair: &Pair, driver: &CqDriver<'static, S, Bytes>, count: u32) {
    let [mut room, mut message] = buffers();
    for _ in 0..count / 2 {
        let received = driver.post(room, |room| pair.bob.recv(Source::Any, room)).await.unwrap();
        message = driver.run(message, |message| pair.alice.send(pair.to_bob, message)).await.unwrap().into_buf();
        room = driver.finish(received).await.unwrap().into_buf();
    }
}

fn block_on<V>(drive: &impl Drive, future: impl Future<Output = V>) -> V {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            return value;
        }
        drive.turn(16);
    }
}

fn main() {
    let (by_hand, driven) = (pair(16), pair(16));
    let driver = CqDriver::open(&driven.cq, Unclaimed::Drop).unwrap();
    let (mut poll, mut future) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let times = [
            per_operation(ROUND, |count| polled(&by_hand, count)),
            per_operation(ROUND, |count| block_on(&driver, awaited(&driven, &driver, count))),
        ];
        if round > 0 {
            poll.push(times[0]);
            future.push(times[1]);
        }
    }
    let minus: Vec<f64> = future.iter().zip(&poll).map(|(future, poll)| future - poll).collect();
    metric("poll.ns", median(&poll), "ns");
    metric("future.ns", median(&future), "ns");
    metric("future_minus_poll.ns", median(&minus), "ns");
    let _: VecDeque<u8> = VecDeque::new();
}
