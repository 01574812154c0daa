//! Sends to any of many peers, over libfabric's `udp`.
//!
//! Each address of 127.0.0.0/8 is this machine, so an endpoint that listens at all addresses
//! receives every message.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use loom_core::av::Av;
use loom_core::completion::Completion;
use loom_core::cq::Cq;
use loom_core::domain::Domain;
use loom_core::endpoint::{Endpoint, Source};
use loom_core::engine::peer_table::Peer;
use loom_core::info::Hints;
use loom_core::vocabulary::{Caps, EndpointAddr, EndpointAttributes, EndpointType};
use loom_fabric::ofi::{Local, Ofi};

use super::peers::{MOST, PEERS};
use super::{Buffer, Growth, Labels, Random, ratio};
use crate::Failure;
use crate::report::{Goal, Run};

type Transport = Ofi<Local>;

struct Datagrams {
    cq: Cq<'static, Transport, Buffer>,
    from: Endpoint<'static, Transport, Buffer>,
    to: Endpoint<'static, Transport, Buffer>,
    peers: Vec<Peer>,
    random: Random,
    sent: u64,
    /// Buffers of the next message, and of its receive.
    buffers: Option<(Buffer, Buffer)>,
}

/// Returns this number of addresses of this machine.
fn addresses(count: u32, port: u16) -> impl Iterator<Item = SocketAddr> {
    let node = |peer| Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + peer);
    (0..count).map(move |peer| (node(peer), port).into())
}

impl Datagrams {
    fn open(count: u32) -> Result<Self, Failure> {
        let hints = Hints {
            caps: Caps::MSG,
            provider: Some("udp"),
            endpoint_attr: EndpointAttributes::of(EndpointType::DGRAM),
            node: Some("0.0.0.0"),
            listen: true,
            ..Hints::default()
        };
        let info = Ofi::<Local>::query(&hints)?.next().ok_or("libfabric offers no udp")?;
        let domain = Domain::open(&info)?;
        let (av, cq) = (Av::open(&domain, count as usize)?, Cq::open(&domain, 16)?);
        let (from, to) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
        let port = SocketAddr::try_from(&to.address()?).map_err(|_| "udp has socket addresses")?.port();
        let addresses: Vec<EndpointAddr> = addresses(count, port).map(EndpointAddr::from).collect();
        let mut peers = Vec::with_capacity(addresses.len());
        let mut failed = None;
        av.insert_all(&addresses, |inserted| match inserted {
            Ok(peer) => peers.push(peer),
            Err(error) => failed = Some(error),
        });
        if let Some(error) = failed {
            return Err(error.into());
        }
        let buffers = Some((vec![0; 8].into(), vec![0; 8].into()));
        Ok(Datagrams { cq, from, to, peers, random: Random::new(), sent: 0, buffers })
    }

    /// Returns the next completion. The wait is limited, because a datagram may be lost.
    fn completed(&self) -> Buffer {
        for _ in 0..100_000_000 {
            if let Some(Completion::Op(done)) = self.cq.poll().expect("the queue works") {
                done.result().expect("the operation succeeds");
                return done.into_buf();
            }
        }
        panic!("a datagram was lost");
    }

    #[inline(never)]
    fn run(&mut self, count: u32) -> Duration {
        let begin = Instant::now();
        for _ in 0..count {
            let peer = self.peers[self.random.below(self.peers.len() as u32) as usize];
            let (mut message, into) = self.buffers.take().expect("at hand");
            self.sent += 1;
            message.copy_from_slice(&self.sent.to_ne_bytes());
            self.to.recv(Source::Any, into).expect("there is room");
            self.from.send(peer, message).expect("there is room");
            let (one, other) = (self.completed(), self.completed());
            assert!(one == other && *one == self.sent.to_ne_bytes(), "the datagram arrives");
            self.buffers = Some((one, other));
        }
        begin.elapsed()
    }
}

/// Sends and receives datagrams by the operating system's calls.
struct Sockets {
    from: UdpSocket,
    to: UdpSocket,
    peers: Vec<SocketAddr>,
    random: Random,
    sent: u64,
}

impl Sockets {
    fn open(count: u32) -> Result<Self, Failure> {
        let open = || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
        let (from, to) = (open()?, open()?);
        to.set_read_timeout(Some(Duration::from_secs(5)))?;
        let port = to.local_addr()?.port();
        Ok(Sockets { from, to, peers: addresses(count, port).collect(), random: Random::new(), sent: 0 })
    }

    #[inline(never)]
    fn run(&mut self, count: u32) -> Duration {
        let begin = Instant::now();
        for _ in 0..count {
            let peer = self.peers[self.random.below(self.peers.len() as u32) as usize];
            self.sent += 1;
            self.from.send_to(&self.sent.to_ne_bytes(), peer).expect("sent");
            let mut message = [0; 8];
            self.to.recv_from(&mut message).expect("the datagram arrives");
            assert_eq!(message, self.sent.to_ne_bytes(), "the datagram arrives");
        }
        begin.elapsed()
    }
}

pub(super) fn measure(run: &mut Run) -> Result<(), Failure> {
    const CURVE: &str = "loom over udp";
    let mut growth = Growth::new("peers");
    for peers in PEERS {
        let mut opened = Datagrams::open(peers)?;
        growth = growth.point(CURVE, peers, move |count| opened.run(count));
    }
    for peers in PEERS {
        let mut opened = Sockets::open(peers)?;
        growth = growth.point("UDP sockets", peers, move |count| opened.run(count));
    }
    let labels = Labels {
        name: "peers",
        title: "Datagrams of 8 B to any of a number of peers, and their receives",
        note: "Every address of 127.0.0.0/8 is this machine, so that an endpoint which listens at all addresses gets what is sent to any of a million peers. Most of the time is that of the operating system: the same datagrams by calls of sockets stand beside.",
        x: "peers",
        y: "ns per message",
    };
    let outcome = growth.run(run, labels);
    ratio(run, &outcome, "growth.peers.1000000_over_1", (CURVE, MOST, 1), Goal::AtMost(1.5));
    Ok(())
}
