//! [`Known`]: peers of an engine. Unused ones make room for others.

use allocator_api2::alloc::Allocator;
use loom_core::error::OpenError;
use loom_core::storage::Array;
use loom_transfer::PeerKey;

pub(crate) struct Known<A: Allocator> {
    peers: Array<Option<PeerKey>, A>,
}

impl<A: Allocator> Known<A> {
    pub(crate) fn new(len: usize, alloc: A) -> Result<Self, OpenError> {
        Ok(Known { peers: Array::new_in(len, alloc, |_| None)? })
    }

    /// Returns the oldest peer that is not in use, if it makes room.
    pub(crate) fn insert(&mut self, peer: PeerKey, is_used: impl Fn(PeerKey) -> bool) -> Option<PeerKey> {
        if self.peers.contains(&Some(peer)) {
            return None;
        }
        let free = self.peers.iter().position(Option::is_none);
        let at = free.or_else(|| self.peers.iter().position(|slot| slot.is_some_and(|known| !is_used(known))))?;
        let evicted = self.peers.get_mut(at)?.replace(peer);
        if evicted.is_some() {
            self.peers.get_mut(at..)?.rotate_left(1);
        }
        evicted
    }

    pub(crate) fn remove(&mut self, peer: PeerKey) {
        if let Some(slot) = self.peers.iter_mut().find(|slot| **slot == Some(peer)) {
            *slot = None;
        }
    }
}
