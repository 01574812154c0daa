//! What peers do to an endpoint's memory, counted by their own threads.
//!
//! A peer's thread moves the bytes, and so it also counts, in the counter itself: [`PeerCount`] is the part of a counter that other
//! threads reach. Two doors ([`Gate`]) keep the counter there meanwhile: that of the region, for the counter that is bound to the
//! region, and that of [`PeerCounters`], for those of the endpoint.

#![allow(unsafe_code, reason = "other threads reach counters while they are users of what the counters are bound to")]

use core::cell::Cell;
use core::ptr::NonNull;

use super::gate::Gate;
use crate::sync::{AtomicU64, Ordering};
use crate::vocabulary::Counted;

/// How many operations of peers have ended: the part of a counter that their threads reach.
#[derive(Debug)]
pub(super) struct PeerCount(AtomicU64);

impl PeerCount {
    pub(super) fn new() -> Self {
        PeerCount(AtomicU64::new(0))
    }

    /// One operation more. The number wraps around, like the rest of a counter.
    pub(super) fn add_one(&self) {
        // Release: who reads the number sees the bytes of what it counts.
        self.0.fetch_add(1, Ordering::Release);
    }

    pub(super) fn get(&self) -> u64 {
        // Acquire: pairs with `add_one`.
        self.0.load(Ordering::Acquire)
    }
}

/// What is counted of peers.
pub(super) const BY_PEERS: [Counted; 2] = [Counted::REMOTE_READ, Counted::REMOTE_WRITE];

/// The counters of what peers do to an endpoint.
#[derive(Debug)]
pub(super) struct PeerCounters {
    /// Open under the endpoint's generation while it has such counters.
    users: Gate,
    by_kind: [Cell<Option<NonNull<PeerCount>>>; BY_PEERS.len()],
}

// SAFETY: `by_kind` is written while the door is closed, by the owner, and read by users inside. What it points to is atomic.
unsafe impl Sync for PeerCounters {}

impl PeerCounters {
    pub(super) fn new() -> Self {
        PeerCounters { users: Gate::new(), by_kind: [const { Cell::new(None) }; BY_PEERS.len()] }
    }

    /// Those of an endpoint that is opened now, of this generation: for each of [`BY_PEERS`]. Whether there is one. For the owner alone.
    ///
    /// # Safety
    /// They stay where they are until [`close`](Self::close) returns.
    pub(super) unsafe fn open(&self, generation: u32, counts: [Option<&PeerCount>; BY_PEERS.len()]) -> bool {
        if counts.iter().all(Option::is_none) {
            return false;
        }
        // A user that comes too late for the endpoint before looks at none of them: it is not let in.
        for (place, count) in self.by_kind.iter().zip(counts) {
            place.set(count.map(NonNull::from_ref));
        }
        self.users.open(generation.into());
        true
    }

    /// Lets peers count no more, and waits for those that are counting. For the owner alone.
    pub(super) fn close(&self) {
        self.users.close();
    }

    /// A peer has done something, by way of the endpoint of this generation.
    pub(super) fn count(&self, generation: u32, done: Counted) {
        // Most have none.
        if !self.users.is_open() {
            return;
        }
        let Some(_user) = self.users.enter(generation.into()) else { return };
        for (place, counted) in self.by_kind.iter().zip(BY_PEERS) {
            if counted == done
                && let Some(count) = place.get()
            {
                // SAFETY: the count stays where it is until `close` returns, which waits for this user: the promise of `open`.
                unsafe { count.as_ref() }.add_one();
            }
        }
    }
}
