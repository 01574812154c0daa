//! Counters of remote operations on an endpoint's memory.
//!
//! A door ([`Gate`]) keeps the counter in place while a peer's thread counts: the region's for its
//! counter, and that of [`PeerCounters`] for counters of the endpoint.

#![allow(unsafe_code, reason = "other threads reach counters while they are users of what the counters are bound to")]

use core::cell::Cell;
use core::ptr::NonNull;

use super::gate::Gate;
use crate::util::sync::{AtomicU64, Ordering};
use crate::vocabulary::Counted;

/// Peers' threads reach this part of a counter.
#[derive(Debug)]
pub(crate) struct PeerCount(AtomicU64);

impl PeerCount {
    pub(crate) fn new() -> Self {
        PeerCount(AtomicU64::new(0))
    }

    pub(crate) fn add_one(&self) {
        // Release: a reader of the number sees the bytes of the counted operations.
        self.0.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn get(&self) -> u64 {
        // Acquire: pairs with `add_one`.
        self.0.load(Ordering::Acquire)
    }
}

pub(crate) const BY_PEERS: [Counted; 2] = [Counted::REMOTE_READ, Counted::REMOTE_WRITE];

#[derive(Debug)]
pub(crate) struct PeerCounters {
    /// Open under the endpoint's generation while the endpoint has such counters.
    users: Gate,
    by_kind: [Cell<Option<NonNull<PeerCount>>>; BY_PEERS.len()],
}

// SAFETY: the owner writes `by_kind` while the door is closed, users inside read it, and the counts
// are atomic.
unsafe impl Sync for PeerCounters {}

impl PeerCounters {
    pub(crate) fn new() -> Self {
        PeerCounters { users: Gate::new(), by_kind: [const { Cell::new(None) }; BY_PEERS.len()] }
    }

    /// For the owner only.
    ///
    /// # Safety
    /// The counts stay in place until [`close`](Self::close) returns.
    pub(crate) unsafe fn open(&self, generation: u32, counts: [Option<&PeerCount>; BY_PEERS.len()]) -> bool {
        if counts.iter().all(Option::is_none) {
            return false;
        }
        for (place, count) in self.by_kind.iter().zip(counts) {
            place.set(count.map(NonNull::from_ref));
        }
        self.users.open(generation.into());
        true
    }

    /// Waits for peers that are counting.
    pub(crate) fn close(&self) {
        self.users.close();
    }

    pub(crate) fn count(&self, generation: u32, done: Counted) {
        if !self.users.is_open() {
            return;
        }
        let Some(_user) = self.users.enter(generation.into()) else { return };
        for (place, counted) in self.by_kind.iter().zip(BY_PEERS) {
            if counted == done
                && let Some(count) = place.get()
            {
                // SAFETY: the caller of `open` keeps the count in place until `close` returns,
                // which waits for this user.
                unsafe { count.as_ref() }.add_one();
            }
        }
    }
}
