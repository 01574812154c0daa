//! The work, and the sides of loom and of two maps.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hash::Hash;
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Instant;

use hashbrown::HashMap;
use loom_core::engine::address_table::{AddressTable, Inserted};
use loom_core::engine::peer_table::Peer;

/// Nanoseconds per peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) insert: f64,
    /// Look-up by peer.
    pub(crate) lookup: f64,
    /// Look-up by address.
    pub(crate) reverse: f64,
    pub(crate) remove: f64,
}

/// Peers, and the order of look-ups and removals.
pub(crate) struct Work {
    pub(crate) sockets: Vec<SocketAddrV4>,
    pub(crate) order: Vec<u32>,
}

impl Work {
    /// 64 processes on each node of a network, in an order that the cache does not predict.
    pub(crate) fn new(peers: u32) -> Self {
        let socket =
            |peer: u32| SocketAddrV4::new(Ipv4Addr::from_bits(0x0a00_0001 + peer / 64), 47_000 + (peer % 64) as u16);
        let mut order: Vec<u32> = (0..peers).collect();
        let mut state = 1_u64;
        for at in (1..order.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            order.swap(at, ((state >> 33) as usize) % (at + 1));
        }
        Work { sockets: (0..peers).map(socket).collect(), order }
    }

    fn socket(&self, peer: u32) -> SocketAddrV4 {
        self.sockets[peer as usize]
    }
}

/// Returns nanoseconds for one of `count`.
pub(crate) fn timed(count: usize, run: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    run();
    begin.elapsed().as_secs_f64() * 1e9 / count as f64
}

/// Runs a round of loom's address table, from empty to empty.
pub(crate) fn table(table: &mut AddressTable<'_>, peers: &mut Vec<Peer>, work: &Work) -> Times {
    let count = work.order.len();
    peers.clear();
    let insert = timed(count, || {
        for socket in &work.sockets {
            let inserted = table.insert(SocketAddr::V4(*socket)).expect("there is room");
            assert!(matches!(inserted, Inserted::New(_)));
            peers.push(inserted.peer());
        }
    });
    let lookup = timed(count, || {
        for peer in &work.order {
            assert_eq!(table.socket(peers[*peer as usize]), Some(SocketAddr::V4(work.socket(*peer))));
        }
    });
    let reverse = timed(count, || {
        for peer in &work.order {
            assert_eq!(table.find(SocketAddr::V4(work.socket(*peer))), Some(peers[*peer as usize]));
        }
    });
    let remove = timed(count, || {
        for peer in &work.order {
            assert!(table.remove(peers[*peer as usize]).is_some());
        }
    });
    Times { insert, lookup, reverse, remove }
}

/// A map from address to peer, and one from peer to address.
pub(crate) struct Maps<K> {
    peers: HashMap<K, u64>,
    addresses: HashMap<u64, K>,
}

impl<K: Copy + Eq + Hash + From<SocketAddrV4> + std::fmt::Debug> Maps<K> {
    pub(crate) fn new(count: usize) -> Self {
        Maps { peers: HashMap::with_capacity(count), addresses: HashMap::with_capacity(count) }
    }

    /// Runs a round, from empty to empty.
    pub(crate) fn round(&mut self, work: &Work) -> Times {
        let count = work.order.len();
        let insert = timed(count, || {
            for (peer, socket) in (0..).zip(&work.sockets) {
                let socket = K::from(*socket);
                // The address may already have a peer.
                let new = *self.peers.entry(socket).or_insert(peer) == peer;
                assert!(new && self.addresses.insert(peer, socket).is_none());
            }
        });
        let lookup = timed(count, || {
            for peer in &work.order {
                assert_eq!(self.addresses.get(&u64::from(*peer)), Some(&K::from(work.socket(*peer))));
            }
        });
        let reverse = timed(count, || {
            for peer in &work.order {
                assert_eq!(self.peers.get(&K::from(work.socket(*peer))), Some(&u64::from(*peer)));
            }
        });
        let remove = timed(count, || {
            for peer in &work.order {
                let socket = self.addresses.remove(&u64::from(*peer));
                assert!(socket.is_some_and(|socket| self.peers.remove(&socket).is_some()));
            }
        });
        self.peers.clear();
        self.addresses.clear();
        Times { insert, lookup, reverse, remove }
    }
}

/// The system's allocator, which counts bytes.
pub(crate) struct Counted;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does all the work.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = LIVE.try_with(|live| live.set(live.get() + layout.size()));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        let _ = LIVE.try_with(|live| live.set(live.get().wrapping_sub(layout.size())));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// Returns the result of `make`, and the bytes that it keeps.
pub(crate) fn bytes_of<V>(make: impl FnOnce() -> V) -> (V, usize) {
    let before = LIVE.get();
    let made = black_box(make());
    (made, LIVE.get() - before)
}
