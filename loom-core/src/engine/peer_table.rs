//! Table of the fabric addresses in use, where posts look peers up ([`Peers::addr`]).
//!
//! Fabric addresses are small numbers in their low 32 bits (`FI_AV_TABLE`) and index the table. A
//! lookup is one load without a lock.

use core::fmt;
use core::ops::Deref;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::vocabulary::FabricAddr;

/// Peer in an address vector.
///
/// The handle of a removed peer never reaches a later one.
///
/// ```
/// use loom_core::{Forever, Source};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// // The program's own data for each peer.
/// let mut sent = vec![0_u32; av.peer_table().places()];
/// # bob.recv(Source::Any, vec![0; 5])?;
/// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// sent[to_bob.index()] += 1;
/// // The handle of a removed peer reaches no later peer.
/// av.remove(to_bob);
/// assert!(alice.inject(to_bob, b"hello").is_err());
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    index: u32,
    generation: u32,
}

impl Peer {
    /// In no table.
    pub(super) const NONE: Peer = Peer { index: u32::MAX, generation: 0 };

    /// Index of the peer's slot, below the vector's number of slots.
    #[must_use]
    pub const fn index(self) -> usize {
        self.index as usize
    }

    pub(crate) const fn place(self) -> u32 {
        self.index
    }

    pub(crate) const fn is_before(self, other: Peer) -> bool {
        self.index == other.index && self.generation < other.generation
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer {}.{}", self.index, self.generation)
    }
}

/// Receive context of a peer's scalable endpoint: [`Peer::rx_context`].
///
/// ```
/// use loom_core::{Cq, Peer, engine::peer_table::RxPeer};
///
/// /// Spreads requests over the receive contexts of a peer.
/// fn context_for(peer: Peer, request: u64, contexts: u16) -> RxPeer {
///     peer.rx_context((request % u64::from(contexts)) as u16)
/// }
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// # let cq: Cq<'_, _, Vec<u8>> = cq;
/// assert_eq!(context_for(to_bob, 6, 4).index, 2);
/// // A peer that is an ordinary endpoint is its context 0.
/// assert_eq!(context_for(to_bob, 6, 1), to_bob.into());
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "fi_rx_addr")]
pub struct RxPeer {
    /// Peer.
    pub peer: Peer,
    /// Number of the context.
    pub index: u16,
}

impl Peer {
    /// Receive context of this number.
    #[doc(alias = "fi_rx_addr")]
    #[must_use]
    pub const fn rx_context(self, index: u16) -> RxPeer {
        RxPeer { peer: self, index }
    }
}

impl From<Peer> for RxPeer {
    fn from(peer: Peer) -> Self {
        peer.rx_context(0)
    }
}

/// Slot of one peer: its generation, odd while in use, and the upper bits of its fabric address.
///
/// ```
/// use loom_core::engine::peer_table::{PeerSlot, PeerTable};
///
/// // The memory of a table, wherever it is.
/// let mut slots: [PeerSlot; 64] = core::array::from_fn(|_| PeerSlot::default());
/// assert_eq!(size_of_val(&slots), 64 * 8);
/// assert_eq!(PeerTable::new(&mut slots).places(), 64);
/// ```
#[derive(Debug, Default)]
pub struct PeerSlot(AtomicU64);

impl PeerSlot {
    #[inline]
    fn load(&self) -> (u32, u32) {
        // Acquire pairs with the release store of `insert`.
        halves(self.0.load(Ordering::Acquire))
    }

    fn store(&self, generation: u32, rest: u32) {
        self.0.store(u64::from(rest) << 32 | u64::from(generation), Ordering::Release);
    }
}

/// Upper and lower half.
#[expect(clippy::cast_possible_truncation, reason = "the two halves of the word")]
const fn halves(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// Last generation of a slot, which then stays free.
const LAST: u32 = u32::MAX - 1;

/// Peers of a [`PeerTable`], for threads that read it while it changes.
///
/// ```
/// use loom_core::{engine::peer_table::{PeerSlot, PeerTable}, vocabulary::FabricAddr};
///
/// let mut slots: [PeerSlot; 4] = core::array::from_fn(|_| PeerSlot::default());
/// let mut table = PeerTable::new(&mut slots);
/// let peers = *table;
/// let peer = table.insert(FabricAddr(2)).expect("the table has four slots");
/// // Other threads look peers up without a lock, while this thread inserts.
/// std::thread::scope(|threads| {
///     threads.spawn(move || assert_eq!(peers.addr(peer), Some(FabricAddr(2))));
///     table.insert(FabricAddr(3))
/// });
/// assert_eq!(peers.iter().count(), 2);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Peers<'s> {
    entries: &'s [PeerSlot],
}

impl<'s> Peers<'s> {
    /// Number of slots.
    #[must_use]
    pub const fn places(&self) -> usize {
        self.entries.len()
    }

    /// Fabric address of a peer, unless it was removed.
    #[inline]
    #[must_use]
    pub fn addr(&self, peer: Peer) -> Option<FabricAddr> {
        let (rest, generation) = self.entries.get(peer.index as usize)?.load();
        (generation == peer.generation).then_some(Self::join(rest, peer.index))
    }

    /// Returns the peer of a fabric address.
    #[inline]
    #[must_use]
    pub fn peer(&self, addr: FabricAddr) -> Option<Peer> {
        let (rest, index) = halves(addr.0);
        let (of, generation) = self.entries.get(index as usize)?.load();
        (generation % 2 == 1 && of == rest).then_some(Peer { index, generation })
    }

    const fn join(rest: u32, index: u32) -> FabricAddr {
        FabricAddr((rest as u64) << 32 | index as u64)
    }

    /// Peer in a slot.
    #[inline]
    #[must_use]
    pub fn at(&self, place: u32) -> Option<Peer> {
        let (_, generation) = self.entries.get(place as usize)?.load();
        (generation % 2 == 1).then_some(Peer { index: place, generation })
    }

    pub(crate) fn was_used(&self, addr: FabricAddr) -> bool {
        self.entries.get(halves(addr.0).1 as usize).is_some_and(|entry| entry.load().1 > 0)
    }

    /// Peers in the table.
    pub fn iter(self) -> impl Iterator<Item = Peer> + use<'s> {
        (0u32..).zip(self.entries).filter_map(move |(place, _)| self.at(place))
    }
}

/// Table over slots that its owner stores.
///
/// ```
/// use loom_core::{engine::peer_table::{PeerSlot, PeerTable}, vocabulary::FabricAddr};
///
/// let mut slots: [PeerSlot; 4] = core::array::from_fn(|_| PeerSlot::default());
/// let mut table = PeerTable::new(&mut slots);
/// let gone = table.insert(FabricAddr(2)).expect("the table has four slots");
/// assert_eq!(table.insert(FabricAddr(2)), Some(gone), "the same address is the same peer");
/// table.remove(gone);
/// // A later peer has the address. The handle of the one before is stale.
/// let peer = table.insert(FabricAddr(2)).expect("its slot can have another peer");
/// assert_eq!((table.addr(peer), table.addr(gone)), (Some(FabricAddr(2)), None));
/// // The table has four slots.
/// assert_eq!(table.insert(FabricAddr(4)), None);
/// ```
#[derive(Debug)]
pub struct PeerTable<'s> {
    peers: Peers<'s>,
}

impl<'s> Deref for PeerTable<'s> {
    type Target = Peers<'s>;

    #[inline]
    fn deref(&self) -> &Peers<'s> {
        &self.peers
    }
}

impl<'s> PeerTable<'s> {
    /// Creates a table over these slots.
    #[must_use]
    pub const fn new(entries: &'s mut [PeerSlot]) -> Self {
        PeerTable { peers: Peers { entries } }
    }

    /// Inserts a fabric address, or returns the peer that has it. A different address with the same
    /// index is replaced, and its handle becomes stale. Returns `None` if the index is beyond the
    /// table, or its slot has had 2^31 peers.
    pub fn insert(&mut self, addr: FabricAddr) -> Option<Peer> {
        if let Some(peer) = self.peer(addr) {
            return Some(peer);
        }
        let index = self.place_for(addr)?;
        let entry = self.entries.get(index as usize)?;
        let (rest, generation) = (halves(addr.0).0, self.next_generation(index));
        entry.store(generation, rest);
        Some(Peer { index, generation })
    }

    pub(crate) fn place_for(&self, addr: FabricAddr) -> Option<u32> {
        let (_, index) = halves(addr.0);
        let (_, before) = self.entries.get(index as usize)?.load();
        if before < LAST - 1 { Some(index) } else { None }
    }

    pub(crate) fn next_generation(&self, place: u32) -> u32 {
        let (_, before) = self.entries.get(place as usize).map_or((0, 0), PeerSlot::load);
        if before % 2 == 1 { before.wrapping_add(2) } else { before.wrapping_add(1) }
    }

    pub(crate) fn is_fresh(&self, place: u32) -> bool {
        self.place_for(FabricAddr(place.into())).is_some()
    }

    /// Removes a peer and returns its address, unless the handle is stale.
    pub fn remove(&mut self, peer: Peer) -> Option<FabricAddr> {
        let addr = self.addr(peer)?;
        let (rest, _) = halves(addr.0);
        self.entries.get(peer.index as usize)?.store(peer.generation.wrapping_add(1), rest);
        Some(addr)
    }

    pub(crate) fn last_addr(&self, place: u32) -> Option<FabricAddr> {
        let (rest, generation) = self.entries.get(place as usize)?.load();
        (generation > 0 && generation % 2 == 0).then_some(Peers::join(rest, place))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn place_that_has_had_all_generations_has_no_peer_any_more() {
        for first in [LAST - 2, LAST - 3, LAST - 4] {
            let mut entries = [PeerSlot::default()];
            entries[0].store(first, 0);
            let mut table = PeerTable::new(&mut entries);
            let mut seen = 0;
            let mut peers = [None; 4];
            while let Some(peer) = table.insert(FabricAddr(seen << 32)) {
                assert!(!peers.contains(&Some(peer)));
                peers[usize::try_from(seen).unwrap()] = Some(peer);
                if seen % 2 == 0 {
                    table.remove(peer);
                }
                seen += 1;
            }
            assert!((1..4).contains(&seen), "{seen} peers");
            assert!(!table.is_fresh(0));
            let there = table.iter().next();
            if let Some(peer) = there {
                let addr = table.addr(peer).unwrap();
                assert_eq!(table.insert(addr), Some(peer));
                table.remove(peer);
            }
            assert_eq!(table.insert(FabricAddr(9 << 32)), None);
            assert!(peers.into_iter().flatten().all(|peer| table.addr(peer).is_none()));
        }
    }

    #[test]
    fn place_counts_as_used_after_its_first_peer() {
        let mut entries = [const { PeerSlot(AtomicU64::new(0)) }; 2];
        let mut table = PeerTable::new(&mut entries);
        let addrs = [FabricAddr(0), FabricAddr(1), FabricAddr(2)];
        let used = |table: &PeerTable<'_>| addrs.map(|addr| table.was_used(addr));
        assert_eq!(used(&table), [false; 3]);
        let peer = table.insert(addrs[1]).unwrap();
        assert_eq!(used(&table), [false, true, false]);
        table.remove(peer);
        assert_eq!(used(&table), [false, true, false]);
    }
}
