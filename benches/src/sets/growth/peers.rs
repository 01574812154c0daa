//! Peers in an address vector, of which any is looked up or sent to.

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::{Duration, Instant};

use loom_core::allocator_api2::alloc::Global;
use loom_core::engine::address_table::{AddressTable, AddressTableAttr, AddressTableMemory};
use loom_core::engine::peer_table::Peer;

use super::{Growth, Labels, Random, ratio};
use crate::report::{Goal, Run};
use crate::sets::Failure;

const PEERS: [u32; 7] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000];
const MOST: u32 = PEERS[PEERS.len() - 1];

pub(super) fn measure(run: &mut Run) -> Result<(), Failure> {
    look_up(run)?;
    #[cfg(feature = "libfabric")]
    datagrams::measure(run)?;
    #[cfg(not(feature = "libfabric"))]
    println!("sends to many peers: skipped, the feature `libfabric` is off");
    Ok(())
}

/// A table of IPv4 sockets.
struct Table<'m> {
    table: AddressTable<'m>,
    peers: Vec<Peer>,
}

/// The address of each: 64 processes on a node, as in a job.
fn socket(peer: u32) -> SocketAddr {
    SocketAddrV4::new(Ipv4Addr::from_bits(0x0a00_0001 + peer / 64), 47_000 + (peer % 64) as u16).into()
}

impl<'m> Table<'m> {
    fn new(memory: &'m mut AddressTableMemory<Global>, count: u32) -> Result<Self, Failure> {
        let mut table = memory.table();
        let mut insert = |peer| table.insert(socket(peer)).map(|inserted| inserted.peer()).map_err(|_| "no room");
        let peers = (0..count).map(&mut insert).collect::<Result<_, _>>()?;
        Ok(Table { table, peers })
    }

    /// Looks up peers by chance.
    #[inline(always)]
    fn each(&self, random: &mut Random, count: u32, mut look: impl FnMut(&AddressTable<'m>, u32, Peer)) -> Duration {
        let begin = Instant::now();
        for _ in 0..count {
            let nth = random.below(self.peers.len() as u32);
            look(&self.table, nth, self.peers[nth as usize]);
        }
        begin.elapsed()
    }
}

fn look_up(run: &mut Run) -> Result<(), Failure> {
    const SEND: &str = "peer to fabric address, as each send";
    const ADDRESS: &str = "peer to socket address";
    const FIND: &str = "socket address to peer";
    let memory = |count| AddressTableMemory::new(AddressTableAttr::new(count as usize)).map(|memory| (count, memory));
    let mut memories = PEERS.into_iter().map(memory).collect::<Result<Vec<_>, _>>()?;
    let tables = memories.iter_mut().map(|(count, memory)| Table::new(memory, *count));
    let tables = tables.collect::<Result<Vec<_>, Failure>>()?;
    let mut growth = Growth::new("look_up");
    for (curve, table) in [SEND, ADDRESS, FIND].iter().flat_map(|curve| tables.iter().map(move |table| (curve, table)))
    {
        let mut random = Random::new();
        growth = growth.point(curve, table.peers.len() as u32, move |count| match *curve {
            SEND => table.each(&mut random, count, |table, _, peer| {
                black_box(table.peers().addr(peer).expect("a peer"));
            }),
            ADDRESS => table.each(&mut random, count, |table, nth, peer| {
                assert_eq!(table.socket(peer), Some(socket(nth)));
            }),
            _ => table.each(&mut random, count, |table, nth, peer| {
                assert_eq!(table.find(socket(nth)), Some(peer));
            }),
        });
    }
    let labels = Labels {
        name: "look_up",
        title: "Look-ups of peers by chance in an address vector of IPv4 sockets",
        x: "peers in the vector",
        y: "ns per look-up",
    };
    let outcome = growth.run(run, labels);
    for (name, curve) in [("send", SEND), ("address", ADDRESS), ("find", FIND)] {
        let side = Growth::side(curve, MOST);
        let name = format!("growth.look_up.{name}.{MOST}");
        run.figure(&outcome, (&name, &side), ("ns", Goal::Lower), |nanoseconds| nanoseconds);
    }
    Ok(())
}

/// Sends to any of many peers, over libfabric's `udp`.
///
/// Every address of 127.0.0.0/8 is this machine: an endpoint that listens at all addresses receives what is sent to any of them.
#[cfg(feature = "libfabric")]
mod datagrams {
    use loom_core::completion::Completion;
    use loom_core::objects::av::Av;
    use loom_core::objects::cq::Cq;
    use loom_core::objects::domain::Domain;
    use loom_core::objects::endpoint::{Endpoint, Source};
    use loom_core::objects::info::Hints;
    use loom_core::vocabulary::{Caps, EndpointAddr, EndpointAttributes, EndpointType};
    use loom_fabric::ofi::{Local, Ofi};

    use super::super::Buffer;
    use super::*;

    type Transport = Ofi<Local>;

    struct Datagrams {
        cq: Cq<'static, Transport, Buffer>,
        from: Endpoint<'static, Transport, Buffer>,
        to: Endpoint<'static, Transport, Buffer>,
        peers: Vec<Peer>,
        random: Random,
        sent: u64,
        /// That of the next message, and that of its receive.
        buffers: Option<(Buffer, Buffer)>,
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
            let address = |peer: u32| {
                let node = Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + peer);
                EndpointAddr::from(SocketAddr::from((node, port)))
            };
            let addresses: Vec<EndpointAddr> = (0..count).map(address).collect();
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

        /// The next completion. A datagram may be lost, and is not waited for for ever.
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

    pub(super) fn measure(run: &mut Run) -> Result<(), Failure> {
        const CURVE: &str = "to any of the peers";
        let mut growth = Growth::new("peers");
        for peers in PEERS {
            let mut opened = Datagrams::open(peers)?;
            growth = growth.point(CURVE, peers, move |count| opened.run(count));
        }
        let labels = Labels {
            name: "peers",
            title: "Datagrams of 8 B to any of the peers in an address vector (loom over udp)",
            x: "peers in the vector",
            y: "ns per message",
        };
        let outcome = growth.run(run, labels);
        ratio(run, &outcome, "growth.peers.1000000_over_1", (CURVE, MOST, 1), Goal::AtMost(1.5));
        Ok(())
    }
}
