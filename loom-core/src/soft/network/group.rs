//! Groups: slots for collective groups, and their state for each member.
//!
//! The member with the last call of a round runs the operation for all, while the group is
//! `RUNNING`. A leaving member breaks the group and waits for a running operation.
//!
//! ```text
//! JOINING ──► OPEN ◄──► RUNNING
//!    │          │
//!    └──────────┴─────► BROKEN
//! ```
//!
//! A member's lent memory is used by others only while `RUNNING`. After setting or seeing `BROKEN`,
//! a member has its memory for itself.

use core::cell::Cell;

use crate::soft::shared::copy::{NOTHING, Range};
use crate::transport::CollectiveCall;
use crate::util::sync::{AtomicU32, Ordering, spin_loop};
use crate::vocabulary::Errno;

pub(crate) const ROUNDS: usize = 4;

const JOINING: u32 = 0;
const OPEN: u32 = 1;
const RUNNING: u32 = 2;
const BROKEN: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usable {
    NotYet,
    Yes,
    /// A member has left.
    NoMore,
}

#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Group {
    state: AtomicU32,
    /// Number of calls made, for each round in flight.
    arrived: [AtomicU32; ROUNDS],
    /// Zero if free. Changed under the network's lock, while no member uses the group.
    pub(crate) size: Cell<u32>,
    /// Age among groups of the same members, under the network's lock.
    pub(crate) serial: Cell<u64>,
    /// Number of members that have joined and not left. Under the network's lock.
    pub(crate) present: Cell<u32>,
}

// SAFETY: `serial` and `present` are used under the network's lock. `size` changes under the lock,
// while no member uses the group.
#[allow(unsafe_code, reason = "cells that the network's lock guards")]
unsafe impl Sync for Group {}

impl Group {
    pub(crate) fn new() -> Self {
        Group {
            state: AtomicU32::new(BROKEN),
            arrived: core::array::from_fn(|_| AtomicU32::new(0)),
            size: Cell::new(0),
            serial: Cell::new(0),
            present: Cell::new(0),
        }
    }

    pub(crate) fn found(&self, size: u32, serial: u64) {
        self.size.set(size);
        self.serial.set(serial);
        self.present.set(0);
        for arrived in &self.arrived {
            arrived.store(0, Ordering::Relaxed);
        }
        // Relaxed: members find the group under the lock.
        self.state.store(JOINING, Ordering::Relaxed);
    }

    pub(crate) fn is_joining(&self) -> bool {
        self.state.load(Ordering::Relaxed) == JOINING
    }

    pub(crate) fn open(&self) {
        // Release: users of the group see its members.
        let _ = self.state.compare_exchange(JOINING, OPEN, Ordering::Release, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn usable(&self) -> Usable {
        // Acquire: pairs with `open` and `break_off`, so that completed operations and their calls
        // are visible.
        match self.state.load(Ordering::Acquire) {
            JOINING => Usable::NotYet,
            BROKEN => Usable::NoMore,
            _ => Usable::Yes,
        }
    }

    #[inline]
    pub(crate) fn arrive(&self, round: u32) -> bool {
        // Release: publishes the call. Acquire: the last member sees all calls.
        self.arrived[slot(round)].fetch_add(1, Ordering::AcqRel) + 1 == self.size.get()
    }

    /// Begins the operation of a round, unless the group is broken. Until [`end`](Self::end),
    /// memory lent by the members is this thread's.
    #[inline]
    pub(crate) fn begin(&self, round: u32) -> bool {
        // No other round runs: this member has called in all earlier rounds. Acquire: the operation
        // comes after.
        let begun = self.state.compare_exchange(OPEN, RUNNING, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if begun {
            self.arrived[slot(round)].store(0, Ordering::Relaxed);
        }
        begun
    }

    #[inline]
    pub(crate) fn end(&self) {
        // Release: pairs with `break_off`.
        self.state.store(OPEN, Ordering::Release);
    }

    pub(crate) fn break_off(&self) {
        loop {
            let state = self.state.load(Ordering::Relaxed);
            if state == BROKEN {
                // Acquire: pairs with the release of the member that broke the group.
                self.state.load(Ordering::Acquire);
                return;
            }
            // Acquire: pairs with `end`, so that the operation has ended. Release: passes this on
            // to members that see the group broken.
            if state != RUNNING
                && self.state.compare_exchange(state, BROKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                return;
            }
            spin_loop();
        }
    }
}

#[inline]
const fn slot(round: u32) -> usize {
    round as usize % ROUNDS
}

#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Member {
    /// Written under the network's lock, before the group has members.
    pub(crate) addr: Cell<u64>,
    /// Used under the network's lock.
    pub(crate) is_present: Cell<bool>,
    /// Next membership of the endpoint, which alone uses it.
    pub(crate) next: Cell<u32>,
    /// Numbers of calls made and reported, for the endpoint alone.
    pub(crate) made: Cell<u32>,
    pub(crate) reported: Cell<u32>,
    calls: [Call; ROUNDS],
}

// SAFETY: `addr` is written under the network's lock before the group has members. `is_present` is
// used under the lock, and `next`, `made`, `reported` by the endpoint's thread. The states of call
// and group order the fields of a call.
#[allow(unsafe_code, reason = "cells that the network's lock and the states guard")]
unsafe impl Sync for Member {}

impl Member {
    pub(crate) fn new() -> Self {
        Member {
            addr: Cell::new(0),
            is_present: Cell::new(false),
            next: Cell::new(0),
            made: Cell::new(0),
            reported: Cell::new(0),
            calls: core::array::from_fn(|_| Call {
                state: AtomicU32::new(IDLE),
                errno: Cell::new(None),
                args: Cell::new(Args::NOTHING),
            }),
        }
    }

    pub(crate) fn assign(&self, addr: u64) {
        self.addr.set(addr);
        self.is_present.set(false);
        self.made.set(0);
        self.reported.set(0);
        for call in &self.calls {
            call.state.store(IDLE, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn call(&self, round: u32) -> &Call {
        &self.calls[slot(round)]
    }
}

const IDLE: u32 = 0;
const MADE: u32 = 1;
const DONE: u32 = 2;

/// Call of a member: idle, made by the member, done by the member that runs the operation, and idle
/// after its report.
#[derive(Debug)]
pub(crate) struct Call {
    state: AtomicU32,
    errno: Cell<Option<Errno>>,
    args: Cell<Args>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Args {
    pub(crate) operation: CollectiveCall,
    pub(crate) operands: Range,
    pub(crate) results: Range,
    pub(crate) context: u64,
}

impl Args {
    const NOTHING: Args = Args {
        operation: CollectiveCall { collective: crate::collective::Collective::BARRIER, count: 0, root: 0 },
        operands: NOTHING,
        results: NOTHING,
        context: 0,
    };
}

impl Call {
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.state.load(Ordering::Relaxed) == IDLE
    }

    #[inline]
    pub(crate) fn make(&self, args: Args) {
        self.args.set(args);
        self.state.store(MADE, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn args(&self) -> Args {
        self.args.get()
    }

    #[inline]
    pub(crate) fn finish(&self, result: Result<(), Errno>) {
        self.errno.set(result.err());
        // Release: the writes to the member's memory come before.
        self.state.store(DONE, Ordering::Release);
    }

    #[inline]
    pub(crate) fn result(&self) -> Option<Result<(), Errno>> {
        // Acquire: pairs with `finish`.
        (self.state.load(Ordering::Acquire) == DONE).then(|| self.errno.get().map_or(Ok(()), Err))
    }

    #[inline]
    pub(crate) fn clear(&self) {
        self.state.store(IDLE, Ordering::Relaxed);
    }
}
