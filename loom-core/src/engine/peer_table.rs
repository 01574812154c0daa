//! The peer table: which fabric addresses are in use, under handles that go stale when a peer is removed.
//!
//! Fabric addresses are small numbers in their low 32 bits (`FI_AV_TABLE`), so the table is indexed by them: finding
//! the address of a [`Peer`], or the peer of a fabric address, is one look and takes no lock. Inserting and removing
//! are for one thread at a time; the address vector sees to that.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

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

/// A place for one peer: its generation, which is odd while the place is taken, and above the index the rest of its
/// fabric address. One word, so that the two are always read together.
#[derive(Debug, Default)]
pub struct Entry(AtomicU64);

impl Entry {
    /// Generation and rest.
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the word")]
    #[inline]
    fn load(&self) -> (u32, u32) {
        // Acquire: pairs with the release of `insert`; whoever finds the peer sees what its inserter did before.
        let word = self.0.load(Ordering::Acquire);
        ((word >> 32) as u32, word as u32)
    }

    fn store(&self, generation: u32, rest: u32) {
        self.0.store(u64::from(generation) << 32 | u64::from(rest), Ordering::Release);
    }
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

    /// How many peers there is room for.
    #[must_use]
    pub const fn places(&self) -> usize {
        self.entries.len()
    }

    /// The fabric address of a peer, unless it was removed.
    #[inline]
    #[must_use]
    pub fn addr(&self, peer: Peer) -> Option<FabricAddr> {
        let (generation, rest) = self.entries.get(peer.index as usize)?.load();
        (generation == peer.generation).then_some(Self::join(rest, peer.index))
    }

    /// The peer of a fabric address, if it is in the table.
    #[inline]
    #[must_use]
    pub fn peer(&self, addr: FabricAddr) -> Option<Peer> {
        let (rest, index) = Self::split(addr);
        let (generation, of) = self.entries.get(index as usize)?.load();
        (generation % 2 == 1 && of == rest).then_some(Peer { index, generation })
    }

    /// What an entry keeps of an address, and the entry's index.
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the address")]
    const fn split(addr: FabricAddr) -> (u32, u32) {
        ((addr.0 >> 32) as u32, addr.0 as u32)
    }

    const fn join(rest: u32, index: u32) -> FabricAddr {
        FabricAddr((rest as u64) << 32 | index as u64)
    }

    /// Puts a fabric address into the table; the same one twice is the same peer. Another address with the same
    /// index takes the place of the one before, whose handle goes stale.
    ///
    /// Not for two threads at once.
    ///
    /// # Errors
    /// [`Beyond`] if the address has an index which the table has no place for.
    pub fn insert(&self, addr: FabricAddr) -> Result<Peer, Beyond> {
        let (rest, index) = Self::split(addr);
        let entry = self.entries.get(index as usize).ok_or(Beyond)?;
        let (before, of) = entry.load();
        let taken = before % 2 == 1;
        let generation = match taken {
            true if of == rest => before,
            true => before.wrapping_add(2),
            false => before.wrapping_add(1),
        };
        entry.store(generation, rest);
        Ok(Peer { index, generation })
    }

    /// Takes a peer out of the table; returns its address unless the handle was stale.
    ///
    /// Not for two threads at once.
    pub fn remove(&self, peer: Peer) -> Option<FabricAddr> {
        let addr = self.addr(peer)?;
        self.entries.get(peer.index as usize)?.store(peer.generation.wrapping_add(1), 0);
        Some(addr)
    }

    /// The peers in the table.
    pub fn iter(&self) -> impl Iterator<Item = Peer> + '_ {
        (0u32..).zip(self.entries).filter_map(|(index, entry)| {
            let (generation, _) = entry.load();
            (generation % 2 == 1).then_some(Peer { index, generation })
        })
    }
}
