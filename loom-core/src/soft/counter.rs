//! The software transport's counters.

#![allow(unsafe_code, reason = "endpoints refer to counters that stay where they are")]

use core::cell::Cell;
use core::ffi::c_int;
use core::ptr::NonNull;

use super::transport::Soft;
use crate::transport::{CounterAttr, CounterWait, Counters, Event};
use crate::vocabulary::{CompletionFlags, Counted, Errno, WaitObj};

/// A raw counter. It and its endpoints are used by one thread.
#[derive(Debug)]
pub struct SoftCounter {
    value: Cell<u64>,
    errors: Cell<u64>,
}

impl SoftCounter {
    fn count(&self, event: &Event) {
        let number = if event.is_error() { &self.errors } else { &self.value };
        number.set(number.get().wrapping_add(1));
    }
}

/// What can be counted of an endpoint, and by which flags its completions tell. (Remote operations are not granted.)
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

    /// Those of an endpoint that is opened now, which stay where they are until it is closed or nobody uses it any more.
    pub(super) fn bind(&self, counters: &[(Counted, &SoftCounter)]) {
        for (place, (counted, _)) in self.by_kind.iter().zip(KINDS) {
            let counter = counters.iter().find(|(wanted, _)| wanted.contains(counted));
            place.set(counter.map(|(_, counter)| NonNull::from_ref(*counter)));
        }
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

// SAFETY: as `Transport`.
unsafe impl Counters for Soft<'_> {
    type Counter = SoftCounter;

    unsafe fn counter_open(_: &Self::Domain, attr: CounterAttr) -> Result<SoftCounter, Errno> {
        if attr.wait != WaitObj::NONE {
            // There is nobody to wake one up.
            return Err(Errno::ENOSYS);
        }
        Ok(SoftCounter { value: Cell::new(0), errors: Cell::new(0) })
    }

    unsafe fn counter_close(_: &SoftCounter) -> Result<(), Errno> {
        Ok(())
    }

    unsafe fn counter_read(counter: &SoftCounter) -> u64 {
        counter.value.get()
    }

    unsafe fn counter_read_error(counter: &SoftCounter) -> u64 {
        counter.errors.get()
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
        counter.value.set(value);
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
