//! Endpoints without connections.

use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicU8, Ordering};
use std::format;
use std::string::String;
use std::vec::Vec;

use loom_core::Peer;
use loom_core::endpoint::Connectionless;

use super::line::{Ending, Fault};
use super::plan::{Lens, Payload, STEPS, messages, pattern};
use super::route::Proxy;
use super::session::{SETTLED, Session, Side, exchange};
use super::{BRIEF, LONG, faults, style_before, styles};
use crate::strangers::sides::{Node, SMALL};
use crate::{Tcp, TcpAttr};

/// A connection keeps one unexpected message. A session has room for its operations, and little
/// more.
const ATTR: TcpAttr = TcpAttr { unexpected: 4, tx_depth: 16, rx_depth: 16, connect_timeout: 20_000, ..SMALL };

/// Two nodes that reach each other through the proxy alone: each sees the other at a host of the
/// proxy.
pub(super) struct Pair {
    pub(super) nodes: [Node; 2],
    pub(super) peers: [Peer; 2],
    pub(super) third: Node,
    pub(super) proxy: Proxy,
    seed: usize,
    is_simultaneous: bool,
}

impl Pair {
    pub(super) fn open() -> Self {
        // Ports of one address belong to one pair.
        static PAIRS: AtomicU8 = AtomicU8::new(0);
        let number = PAIRS.fetch_add(1, Ordering::Relaxed);
        let host = |host: u8| IpAddr::from([127, (std::process::id() % 250) as u8 + 1, number, host]);
        // The orders of both hosts agree, on which the choice between two connections depends.
        let (hosts, seen) = ([1, 4].map(host), [2, 3].map(host));
        let nodes = hosts.map(|host| Node::at(&format!("{host}"), ATTR));
        let mut proxy = Proxy::new();
        let peers = [0, 1].map(|side: usize| {
            let to = nodes[1 - side].address();
            let at = proxy.listen(side, SocketAddr::new(seen[1 - side], to.port()), seen[side], to);
            nodes[side].av.insert(&at.into()).expect("inserted")
        });
        Pair { nodes, peers, third: Node::at("127.0.0.1", ATTR), proxy, seed: 0, is_simultaneous: false }
    }

    fn run(&mut self, lens: Lens, ends: bool) -> Result<(), String> {
        self.seed += 1;
        let (seed, is_simultaneous) = (self.seed, self.is_simultaneous);
        self.with_sides(|sides, proxy| {
            let mut session = Session::new(sides, lens, seed, true);
            session.is_simultaneous = is_simultaneous;
            session.run(proxy, ends)
        })
    }

    fn with_sides<R>(&mut self, run: impl FnOnce([Side<'_, Connectionless<'static, Tcp>>; 2], &mut Proxy) -> R) -> R {
        let Pair { nodes, peers, proxy, .. } = self;
        let sides = [0, 1].map(|side: usize| {
            let Node { domain, cq, endpoint, .. } = &nodes[side];
            Side { domain, cq, endpoint, peer: peers[side] }
        });
        run(sides, proxy)
    }

    pub(super) fn exchange(&mut self) -> Result<(), String> {
        self.with_sides(|sides, proxy| exchange(&sides, proxy))
    }

    pub(super) fn go_on(&mut self) -> Result<(), String> {
        self.nodes.iter().for_each(|node| node.talks_to(&self.third));
        self.exchange()
    }

    pub(super) fn part(&mut self) {
        self.proxy.reset();
        for node in &self.nodes {
            (0..SETTLED).for_each(|_| node.poll());
            assert_eq!((node.cq.in_flight(), node.cq.strays()), (0, 0));
        }
    }

    fn lens(&mut self) -> [usize; 2] {
        self.run(BRIEF, false).expect("a session without fault");
        let lens = [0, 1].map(|side| self.proxy.forwarded(side).len());
        self.part();
        lens
    }

    /// Side and offset of a byte of each payload.
    fn payloads(&mut self) -> Vec<(usize, usize)> {
        self.run(BRIEF, false).expect("a session without fault");
        let Lens { short, long } = BRIEF;
        let messages = messages(BRIEF);
        let messages = messages.iter().enumerate().filter(|(_, message)| message.len > 0);
        let mut payloads: Vec<_> = messages.map(|(index, message)| (Payload::Message(index), message.len)).collect();
        payloads.extend([
            (Payload::WriteRanges, short + long),
            (Payload::WriteData, long),
            (Payload::InjectWrite, short),
            (Payload::Source, long),
        ]);
        let mut found = Vec::new();
        for side in 0..2 {
            let stream = self.proxy.forwarded(side);
            for (payload, len) in &payloads {
                let bytes = pattern(self.seed, side, *payload, *len);
                let start = stream.windows(*len).position(|window| window == bytes).expect("the payload is sent");
                found.push((side, start + len / 2));
            }
        }
        self.part();
        found
    }

    fn ends_everywhere(&mut self, ending: Ending) {
        self.proxy.style = style_before(ending);
        // The line of the higher address is the second one.
        let before = usize::from(self.is_simultaneous);
        for fault in faults(self.lens(), ending) {
            self.proxy.arm(fault, before);
            self.run(BRIEF, true).and_then(|()| self.go_on()).unwrap_or_else(|error| panic!("{fault:?}: {error}"));
            self.part();
        }
    }
}

#[test]
fn sessions_complete_whatever_the_pieces_and_delays() {
    let mut pair = Pair::open();
    for style in styles() {
        pair.proxy.style = style;
        pair.run(LONG, false).unwrap_or_else(|error| panic!("{style:?}: {error}"));
        pair.part();
    }
}

/// More reads than a connection has in flight.
#[test]
fn sessions_follow_each_other_over_one_connection() {
    let mut pair = Pair::open();
    pair.proxy.style.piece = 100;
    for number in 0..20 {
        pair.run(LONG, false).unwrap_or_else(|error| panic!("session {number}: {error}"));
    }
    assert!(pair.proxy.forwarded(0).len() > 20 * LONG.long, "one line has all bytes");
    pair.part();
}

#[test]
fn each_operation_ends_once_wherever_the_connection_ends() {
    Pair::open().ends_everywhere(Ending::Fin);
}

#[test]
fn each_operation_ends_once_wherever_one_direction_ends() {
    Pair::open().ends_everywhere(Ending::FinOneWay);
}

#[test]
fn each_operation_ends_once_wherever_the_connection_is_reset() {
    Pair::open().ends_everywhere(Ending::Reset);
}

#[test]
fn each_operation_ends_once_wherever_one_of_two_connections_ends() {
    let mut pair = Pair::open();
    pair.is_simultaneous = true;
    pair.ends_everywhere(Ending::Fin);
}

/// Room that each of these endings kept would be missed after fewer sessions.
#[test]
fn room_returns_from_operations_that_fail_again_and_again() {
    const SESSIONS: usize = 200;
    let mut pair = Pair::open();
    let payloads = pair.payloads();
    let [long, tagged, unexpected, write_data] = [1, 4, 7, 10].map(|place| payloads[place]);
    for (side, after) in [long, tagged, unexpected, write_data] {
        let fault = Fault::End { side, after, ending: Ending::Reset };
        for _ in 0..SESSIONS {
            pair.proxy.arm(fault, 0);
            pair.run(BRIEF, true).unwrap_or_else(|error| panic!("{fault:?}: {error}"));
            pair.part();
        }
    }
    pair.run(BRIEF, false).expect("a session without fault");
}

/// Control: one altered byte of each payload is found.
#[test]
fn altered_bytes_are_found() {
    let mut pair = Pair::open();
    let payloads = pair.payloads();
    assert_eq!(payloads.len(), 2 * (STEPS.len() - 2), "a message is empty, and both reads have one source");
    for (side, after) in payloads {
        pair.proxy.arm(Fault::Alter { side, after }, 0);
        let result = pair.run(BRIEF, false);
        assert!(result.is_err(), "byte {after} from side {side}");
        pair.part();
    }
    pair.run(BRIEF, false).expect("a session without fault");
}
