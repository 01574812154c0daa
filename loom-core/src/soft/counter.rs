//! The software transport's counters.

#![allow(unsafe_code, reason = "endpoints refer to counters that stay where they are")]

use core::cell::Cell;
use core::ffi::c_int;
use core::ptr::NonNull;

use super::peer_counts::{BY_PEERS, PeerCount};
use super::transport::Soft;
use crate::transport::{CounterAttr, CounterWait, Counters, Event};
use crate::vocabulary::{CompletionFlags, Counted, Errno, WaitObj};

/// A raw counter. It and its endpoints are used by one thread; what peers do, their threads count themselves.
#[derive(Debug)]
pub struct SoftCounter {
    /// Of the successes that this thread has counted or set: the rest of them are peers'.
    value: Cell<u64>,
    errors: Cell<u64>,
    by_peers: PeerCount,
}

impl SoftCounter {
    /// What peers count by.
    pub(super) const fn by_peers(&self) -> &PeerCount {
        &self.by_peers
    }

    fn count(&self, event: &Event) {
        let number = if event.is_error() { &self.errors } else { &self.value };
        number.set(number.get().wrapping_add(1));
    }
}

/// What an endpoint's own thread counts, and by which flags its completions tell.
const KINDS: [(Counted, CompletionFlags); 4] = [
    (Counted::SEND, CompletionFlags::SEND),
    (Counted::RECV, CompletionFlags::RECV),
    (Counted::READ, CompletionFlags::READ),
    (Counted::WRITE, CompletionFlags::WRITE),
];

/// The counters of an endpoint.
#[derive(Debug)]
pub(super) struct BoundCounters {
    by_kind: [Cell<Option<NonNull<SoftCounter>>>; KINDS.len()],
}

impl BoundCounters {
    pub(super) const fn none() -> Self {
        BoundCounters { by_kind: [const { Cell::new(None) }; KINDS.len()] }
    }

    /// Those of an endpoint that is opened now, which stay where they are until it is closed or not used any more.
    pub(super) fn bind(&self, counters: &[(Counted, &SoftCounter)]) {
        for (place, (counted, _)) in self.by_kind.iter().zip(KINDS) {
            let counter = counters.iter().find(|(wanted, _)| wanted.contains(counted));
            place.set(counter.map(|(_, counter)| NonNull::from_ref(*counter)));
        }
    }

    /// Whether anything is counted.
    pub(super) fn any(&self) -> bool {
        self.by_kind.iter().any(|place| place.get().is_some())
    }

    /// An operation has ended.
    #[cold]
    #[inline(never)]
    pub(super) fn count(&self, event: &Event) {
        for (place, (_, flags)) in self.by_kind.iter().zip(KINDS) {
            if event.flags.intersects(flags)
                && let Some(counter) = place.get()
            {
                // SAFETY: the counter stays where it is while its endpoint can be used (C7), and this is the thread of both (C5).
                unsafe { counter.as_ref() }.count(event);
            }
        }
    }
}

/// Of the counters of an endpoint, those of what peers do.
pub(super) fn counted_by_peers<'c>(counters: &[(Counted, &'c SoftCounter)]) -> [Option<&'c PeerCount>; BY_PEERS.len()] {
    BY_PEERS.map(|counted| {
        let counter = counters.iter().find(|(wanted, _)| wanted.contains(counted));
        counter.map(|(_, counter)| counter.by_peers())
    })
}

// SAFETY: as `Transport`.
unsafe impl Counters for Soft<'_> {
    type Counter = SoftCounter;

    unsafe fn counter_open(_: &Self::Domain, attr: CounterAttr) -> Result<SoftCounter, Errno> {
        if attr.wait != WaitObj::NONE {
            // There is no thread to wake one up.
            return Err(Errno::ENOSYS);
        }
        Ok(SoftCounter { value: Cell::new(0), errors: Cell::new(0), by_peers: PeerCount::new() })
    }

    unsafe fn counter_close(_: &SoftCounter) -> Result<(), Errno> {
        Ok(())
    }

    unsafe fn counter_read(counter: &SoftCounter) -> Result<u64, Errno> {
        Ok(counter.value.get().wrapping_add(counter.by_peers.get()))
    }

    unsafe fn counter_read_error(counter: &SoftCounter) -> Result<u64, Errno> {
        Ok(counter.errors.get())
    }

    unsafe fn counter_add(counter: &SoftCounter, value: u64) -> Result<(), Errno> {
        counter.value.set(counter.value.get().wrapping_add(value));
        Ok(())
    }

    unsafe fn counter_add_error(counter: &SoftCounter, value: u64) -> Result<(), Errno> {
        counter.errors.set(counter.errors.get().wrapping_add(value));
        Ok(())
    }

    unsafe fn counter_set(counter: &SoftCounter, value: u64) -> Result<(), Errno> {
        // What peers count from here on comes on top: nothing is lost.
        counter.value.set(value.wrapping_sub(counter.by_peers.get()));
        Ok(())
    }

    unsafe fn counter_set_error(counter: &SoftCounter, value: u64) -> Result<(), Errno> {
        counter.errors.set(value);
        Ok(())
    }

    unsafe fn counter_wait(_: &SoftCounter, _: u64, _: i32) -> Result<CounterWait, Errno> {
        Err(Errno::ENOSYS)
    }

    unsafe fn counter_wait_fd(_: &SoftCounter) -> Result<c_int, Errno> {
        Err(Errno::ENOSYS)
    }

    unsafe fn counter_may_sleep(_: &Self::Domain, _: &SoftCounter) -> Result<bool, Errno> {
        Err(Errno::ENOSYS)
    }
}
