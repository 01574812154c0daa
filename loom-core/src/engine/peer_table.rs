//! The peer table: which fabric addresses are in use, under handles that go stale when a peer is removed.
//!
//! Fabric addresses are small numbers in their low 32 bits (`FI_AV_TABLE`), so the table is indexed by them: finding
//! the address of a [`Peer`], or the peer of a fabric address, is one look and takes no lock. Inserting and removing
//! are for one thread at a time; the address vector sees to that.

use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::vocabulary::FabricAddr;

/// A peer in an address vector.
///
/// Plain data. After the peer was removed the handle is recognised as stale; it never reaches a later peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    index: u32,
    generation: u32,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer {}.{}", self.index, self.generation)
    }
}

/// A place for one peer. The generation is odd while the place is taken.
#[derive(Debug, Default)]
pub struct Entry {
    generation: AtomicU32,
    addr: AtomicU64,
}

/// Why a fabric address was not inserted: it lies beyond the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beyond;

/// The table, over places that somebody else stores.
#[derive(Debug)]
pub struct PeerTable<'s> {
    entries: &'s [Entry],
}

impl<'s> PeerTable<'s> {
    /// A table over these places.
    #[must_use]
    pub const fn new(entries: &'s [Entry]) -> Self {
        PeerTable { entries }
    }

    /// The fabric address of a peer, unless it was removed.
    #[inline]
    #[must_use]
    pub fn addr(&self, peer: Peer) -> Option<FabricAddr> {
        let entry = self.entries.get(peer.index as usize)?;
        // Acquire: pairs with the release of `insert`, so that the address belongs to this generation or a later one, also
        // for a handle of another table; the second look tells which.
        if entry.generation.load(Ordering::Acquire) != peer.generation {
            return None;
        }
        let addr = entry.addr.load(Ordering::Acquire);
        let generation = entry.generation.load(Ordering::Relaxed);
        (generation == peer.generation).then_some(FabricAddr(addr))
    }

    /// The peer of a fabric address, if it is in the table.
    #[inline]
    #[must_use]
    pub fn peer(&self, addr: FabricAddr) -> Option<Peer> {
        let index = Self::index(addr);
        let entry = self.entries.get(index as usize)?;
        let generation = entry.generation.load(Ordering::Acquire);
        let peer = Peer { index, generation };
        (generation % 2 == 1 && self.addr(peer)? == addr).then_some(peer)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the low half is the index")]
    const fn index(addr: FabricAddr) -> u32 {
        addr.0 as u32
    }

    /// Puts a fabric address into the table; the same one twice is the same peer. Another address with the same
    /// index takes the place of the one before, whose handle goes stale.
    ///
    /// Not for two threads at once.
    ///
    /// # Errors
    /// [`Beyond`] if the address has an index which the table has no place for.
    pub fn insert(&self, addr: FabricAddr) -> Result<Peer, Beyond> {
        let index = Self::index(addr);
        let entry = self.entries.get(index as usize).ok_or(Beyond)?;
        let generation = entry.generation.load(Ordering::Relaxed);
        if generation % 2 == 1 {
            if entry.addr.load(Ordering::Relaxed) == addr.0 {
                return Ok(Peer { index, generation });
            }
            self.vacate(entry, generation);
        }
        let generation = entry.generation.load(Ordering::Relaxed).wrapping_add(1);
        // Release: whoever sees this address sees that the generation before is over.
        entry.addr.store(addr.0, Ordering::Release);
        entry.generation.store(generation, Ordering::Release);
        Ok(Peer { index, generation })
    }

    /// Takes a peer out of the table; returns its address unless the handle was stale.
    ///
    /// Not for two threads at once.
    pub fn remove(&self, peer: Peer) -> Option<FabricAddr> {
        let addr = self.addr(peer)?;
        let entry = self.entries.get(peer.index as usize)?;
        self.vacate(entry, peer.generation);
        Some(addr)
    }

    fn vacate(&self, entry: &Entry, generation: u32) {
        entry.generation.store(generation.wrapping_add(1), Ordering::Release);
    }

    /// The peers in the table.
    pub fn iter(&self) -> impl Iterator<Item = Peer> + '_ {
        (0u32..).zip(self.entries).filter_map(|(index, entry)| {
            let generation = entry.generation.load(Ordering::Acquire);
            (generation % 2 == 1).then_some(Peer { index, generation })
        })
    }
}
