#![allow(unsafe_code, reason = "endpoints refer to counters that stay where they are")]

use core::cell::Cell;
use core::ffi::c_int;
use core::ptr::NonNull;

use crate::soft::shared::peer_counts::{BY_PEERS, PeerCount};
use crate::soft::transport::Soft;
use crate::transport::{CounterAttr, CounterWait, Counters, Event};
use crate::vocabulary::{CompletionFlags, Counted, Errno, WaitObj};

/// Raw counter. Peers' threads count their own operations.
#[derive(Debug)]
pub struct SoftCounter {
    /// Successes counted or set by this thread, without the peers' part.
    value: Cell<u64>,
    errors: Cell<u64>,
    by_peers: PeerCount,
}

impl SoftCounter {
    pub(crate) const fn by_peers(&self) -> &PeerCount {
        &self.by_peers
    }

    fn count(&self, event: &Event) {
        let number = if event.is_error() { &self.errors } else { &self.value };
        number.set(number.get().wrapping_add(1));
    }
}

/// Operations that an endpoint's own thread counts, and the flags of their completions.
const KINDS: [(Counted, CompletionFlags); 4] = [
    (Counted::SEND, CompletionFlags::SEND),
    (Counted::RECV, CompletionFlags::RECV),
    (Counted::READ, CompletionFlags::READ),
    (Counted::WRITE, CompletionFlags::WRITE),
];

#[derive(Debug)]
pub(crate) struct BoundCounters {
    by_kind: [Cell<Option<NonNull<SoftCounter>>>; KINDS.len()],
}

impl BoundCounters {
    pub(crate) const fn none() -> Self {
        BoundCounters { by_kind: [const { Cell::new(None) }; KINDS.len()] }
    }

    pub(crate) fn bind(&self, counters: &[(Counted, &SoftCounter)]) {
        for (place, (counted, _)) in self.by_kind.iter().zip(KINDS) {
            let counter = counters.iter().find(|(wanted, _)| wanted.contains(counted));
            place.set(counter.map(|(_, counter)| NonNull::from_ref(*counter)));
        }
    }

    pub(crate) fn any(&self) -> bool {
        self.by_kind.iter().any(|place| place.get().is_some())
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn count(&self, event: &Event) {
        for (place, (_, flags)) in self.by_kind.iter().zip(KINDS) {
            if event.flags.intersects(flags)
                && let Some(counter) = place.get()
            {
                // SAFETY: a counter stays in place while its endpoint can be used (N1), and this
                // thread uses both (T1).
                unsafe { counter.as_ref() }.count(event);
            }
        }
    }
}

pub(crate) fn counted_by_peers<'c>(counters: &[(Counted, &'c SoftCounter)]) -> [Option<&'c PeerCount>; BY_PEERS.len()] {
    BY_PEERS.map(|counted| {
        let counter = counters.iter().find(|(wanted, _)| wanted.contains(counted));
        counter.map(|(_, counter)| counter.by_peers())
    })
}

// SAFETY: `soft/transport.rs` lists how the promises are kept.
unsafe impl Counters for Soft<'_> {
    type Counter = SoftCounter;

    unsafe fn counter_open(_: &Self::Domain, attr: CounterAttr) -> Result<SoftCounter, Errno> {
        if attr.wait != WaitObj::NONE {
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
