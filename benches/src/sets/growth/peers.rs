//! Peers in an address vector, with look-ups of any of them.

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::{Duration, Instant};

use loom_core::allocator_api2::alloc::Global;
use loom_core::engine::address_table::{AddressTable, AddressTableAttr, AddressTableMemory};
use loom_core::engine::peer_table::Peer;

use super::{Growth, Labels, Random};
use crate::Failure;
use crate::report::{Goal, Run};

pub(super) const PEERS: [u32; 7] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000];
pub(super) const MOST: u32 = PEERS[PEERS.len() - 1];

/// A table of IPv4 sockets.
struct Table<'m> {
    table: AddressTable<'m>,
    peers: Vec<Peer>,
}

/// Address of each peer: 64 processes on a node, as in a job.
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

    /// Looks up random peers.
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

pub(super) fn measure(run: &mut Run) -> Result<(), Failure> {
    const SEND: &str = "peer to fabric address, as each send";
    const ADDRESS: &str = "peer to socket address";
    const FIND: &str = "socket address to peer";
    let memory =
        |count| AddressTableMemory::new_in(AddressTableAttr::new(count as usize), Global).map(|memory| (count, memory));
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
        note: "Peers are drawn in an order that the caches do not foresee: what grows is memory that is no longer at hand.",
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
