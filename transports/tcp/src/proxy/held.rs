//! One direction does not flow, and the other one does.

use std::time::Instant;
use std::vec;
use std::vec::Vec;

use loom_core::{Access, Deadline, Mr, OpKey, Peer, Source, Tag};

use super::line::Ending;
use super::rdm::Pair;
use super::route::Proxy;
use super::session::{DELIVERED, SETTLED};
use crate::Tcp;
use crate::strangers::sides::{LIMIT, Node};

/// All messages exceed the buffers of the kernel and the proxy.
const LEN: usize = 1 << 20;
const MESSAGES: u8 = 12;

const LATER: usize = 1000;

/// Operations of both sides, that with the held bytes first.
struct Held<'a> {
    nodes: [&'a Node; 2],
    received: [Vec<OpKey>; 2],
    sent: [Vec<OpKey>; 2],
    last: OpKey,
    awaiting: [OpKey; 2],
    memory: Mr<'static, Tcp, Vec<u8>>,
}

fn step(nodes: [&Node; 2], proxy: &mut Proxy) {
    proxy.step();
    nodes.into_iter().for_each(Node::poll);
}

fn step_until(nodes: [&Node; 2], proxy: &mut Proxy, is_done: impl Fn() -> bool) {
    let mut until = Instant::now() + LIMIT;
    while !is_done() {
        assert!(!until.passed(), "the operations end");
        step(nodes, proxy);
    }
}

fn have_ended(node: &Node, keys: &[OpKey]) -> bool {
    keys.iter().all(|key| node.is_done(*key))
}

/// Both send and the free side reads, until only held bytes are awaited.
fn hold<'a>(side: usize, nodes: &'a [Node; 2], peers: [Peer; 2], proxy: &mut Proxy) -> Held<'a> {
    proxy.style.is_held[side] = true;
    let (held, free) = (&nodes[side], &nodes[1 - side]);
    let (to_free, to_held) = (peers[side], peers[1 - side]);
    let memory = Mr::open(&held.domain, vec![9_u8; LEN], Access::REMOTE_READ).expect("region");
    let receive = |node: &Node| -> Vec<OpKey> {
        let post = |tag: u8| node.endpoint.tagged_recv(Source::Any, Tag(tag.into()), vec![0; LEN]).expect("posted");
        (0..MESSAGES).map(post).collect()
    };
    let send = |node: &Node, to: Peer| -> Vec<OpKey> {
        let post = |tag: u8| node.endpoint.tagged_send(to, Tag(tag.into()), vec![tag + 1; LEN]).expect("posted");
        (0..MESSAGES).map(post).collect()
    };
    let received = [held, free].map(receive);
    let last = held.endpoint.tagged_recv(Source::Any, Tag(99), vec![0; 8]).expect("posted");
    let sent = [send(held, to_free), send(free, to_held)];
    let read = free.endpoint.read(to_held, &memory.remote(), 0, vec![0; LEN]).expect("posted");
    let delivered = free.endpoint.tagged_send_with(to_held, Tag(99), DELIVERED, vec![1; 8]).expect("posted");

    let is_done = || have_ended(held, &received[0]) && have_ended(free, &sent[1]) && held.is_done(last);
    step_until([held, free], proxy, is_done);
    (0..LATER).for_each(|_| step([held, free], proxy));
    assert!(!have_ended(held, &sent[0]), "more bytes than the buffers hold");
    let awaiting = [read, delivered];
    let awaited = received[1].iter().chain(&awaiting).filter(|key| free.is_done(**key)).count();
    assert_eq!(awaited, 0, "no byte is forwarded");
    Held { nodes: [held, free], received, sent, last, awaiting, memory }
}

impl Held<'_> {
    fn have_ended(&self) -> bool {
        (0..2).all(|side| {
            let operations = self.received[side].iter().chain(&self.sent[side]);
            operations.chain(self.awaiting.iter().filter(|_| side == 1)).all(|key| self.nodes[side].is_done(*key))
        })
    }

    /// Compares the bytes of each success, and returns the number of failures.
    fn finish(self) -> usize {
        let [held, free] = self.nodes;
        let take = |node: &Node, key| node.cq.finish(key, Instant::now() + LIMIT).expect("done").into_parts();
        let mut failed = 0;
        for ((node, received), sent) in self.nodes.into_iter().zip(self.received).zip(self.sent) {
            for (tag, key) in (1..).zip(received) {
                let (buf, result) = take(node, key);
                assert!(buf.len() == LEN && (result.is_err() || buf.iter().all(|byte| *byte == tag)), "message {tag}");
                failed += usize::from(result.is_err());
            }
            for (tag, key) in (1..).zip(sent) {
                let (buf, result) = take(node, key);
                assert_eq!(buf, vec![tag; LEN]);
                failed += usize::from(result.is_err());
            }
        }
        assert_eq!(take(held, self.last).0, [1; 8]);
        let [read, delivered] = self.awaiting.map(|key| take(free, key));
        assert!(read.1.is_err() || read.0.iter().all(|byte| *byte == 9), "the region");
        drop(self.memory);
        failed + usize::from(read.1.is_err()) + usize::from(delivered.1.is_err())
    }
}

#[test]
fn a_held_direction_holds_up_only_itself() {
    for side in 0..2 {
        let mut pair = Pair::open();
        pair.exchange().expect("connected");
        let Pair { nodes, peers, third, proxy, .. } = &mut pair;
        let held = hold(side, nodes, *peers, proxy);
        nodes.iter().for_each(|node| node.talks_to(third));
        proxy.style.is_held[side] = false;
        step_until(held.nodes, proxy, || held.have_ended());
        assert_eq!(held.finish(), 0);
        pair.part();
    }
}

#[test]
fn held_operations_end_with_their_connection() {
    let endings = [Ending::Fin, Ending::FinOneWay, Ending::Reset];
    for (side, ending) in endings.into_iter().flat_map(|ending| [(0, ending), (1, ending)]) {
        let mut pair = Pair::open();
        pair.exchange().expect("connected");
        let Pair { nodes, peers, proxy, .. } = &mut pair;
        let held = hold(side, nodes, *peers, proxy);
        proxy.end(side, ending);
        proxy.style.is_held[side] = false;
        step_until(held.nodes, proxy, || {
            let [node, other] = held.nodes;
            have_ended(node, &held.sent[0]) && have_ended(other, &held.awaiting)
        });
        (0..SETTLED).for_each(|_| step(held.nodes, proxy));
        for key in &held.received[1] {
            let _ = held.nodes[1].endpoint.cancel(*key);
        }
        let failed = held.finish();
        assert!(failed >= usize::from(MESSAGES) + 3, "{failed} have failed");
        pair.go_on().expect("another connection");
        pair.part();
    }
}
