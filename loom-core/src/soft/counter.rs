//! The software transport's counters.

#![allow(unsafe_code, reason = "endpoints refer to counters that stay where they are")]

use core::cell::Cell;
use core::ptr::NonNull;

use crate::transport::Event;
use crate::vocabulary::{CompletionFlags, Counted};

/// A raw counter. It and its endpoints are used by one thread.
#[derive(Debug)]
pub struct SoftCounter {
    pub(super) value: Cell<u64>,
    pub(super) errors: Cell<u64>,
}

impl SoftCounter {
    /// At zero.
    pub(super) const fn new() -> Self {
        SoftCounter { value: Cell::new(0), errors: Cell::new(0) }
    }

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
                // SAFETY: counters stay where they are while their endpoint can be used (`Transport`, contract of callers),
                // and this is the thread of both.
                unsafe { counter.as_ref() }.count(event);
            }
        }
    }
}
