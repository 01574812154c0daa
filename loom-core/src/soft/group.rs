//! Groups: the network's places for collective groups, and what one holds of each member.
//!
//! A group is `JOINING` until its last member has joined, then `OPEN`. The member whose call is the last of a round runs the operation
//! for all, and the group is `RUNNING` meanwhile. A member that goes makes it `BROKEN`, and waits for an operation that is running.
//!
//! ```text
//! JOINING ──► OPEN ◄──► RUNNING
//!    │          │
//!    └──────────┴─────► BROKEN
//! ```
//!
//! What a call lends is touched by its own member, and by the one that runs the operation, only while the group is `RUNNING`. So a member
//! that has made its group `BROKEN`, or has seen it so, has its memory for itself.

use core::cell::Cell;

use super::copy::{NOTHING, Range};
use crate::sync::{AtomicU32, Ordering, spin_loop};
use crate::transport::CollectiveCall;
use crate::vocabulary::Errno;

/// How many operations of one group a member can have under way.
pub(super) const ROUNDS: usize = 4;

const JOINING: u32 = 0;
const OPEN: u32 = 1;
const RUNNING: u32 = 2;
const BROKEN: u32 = 3;

/// What a group is for a member that wants to use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Usable {
    /// Not every member has joined.
    NotYet,
    Yes,
    /// A member is gone.
    NoMore,
}

/// A place for a group.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Group {
    state: AtomicU32,
    /// How many members have made their call, of each round that is under way.
    arrived: [AtomicU32; ROUNDS],
    /// How many members there are to be; zero if the place is free. Changed under the network's lock, while no member uses it.
    pub(super) size: Cell<u32>,
    /// Tells the groups of the same members apart: the older has the lesser number. Under the network's lock.
    pub(super) serial: Cell<u64>,
    /// How many members have joined and not left. Under the network's lock.
    pub(super) present: Cell<u32>,
}

// SAFETY: what is not atomic is used as its documentation says.
#[allow(unsafe_code, reason = "cells that the network's lock guards")]
unsafe impl Sync for Group {}

impl Group {
    pub(super) fn new() -> Self {
        Group {
            state: AtomicU32::new(BROKEN),
            arrived: core::array::from_fn(|_| AtomicU32::new(0)),
            size: Cell::new(0),
            serial: Cell::new(0),
            present: Cell::new(0),
        }
    }

    /// A place that is free becomes a group of `size` members, which are still to join. Under the network's lock.
    pub(super) fn found(&self, size: u32, serial: u64) {
        self.size.set(size);
        self.serial.set(serial);
        self.present.set(0);
        for arrived in &self.arrived {
            arrived.store(0, Ordering::Relaxed);
        }
        // Relaxed: members learn of the group under the lock.
        self.state.store(JOINING, Ordering::Relaxed);
    }

    /// Whether members are still to join. Under the network's lock.
    pub(super) fn is_joining(&self) -> bool {
        self.state.load(Ordering::Relaxed) == JOINING
    }

    /// The last member has joined, unless another is gone already. Under the network's lock.
    pub(super) fn open(&self) {
        // Release: who uses the group sees its members.
        let _ = self.state.compare_exchange(JOINING, OPEN, Ordering::Release, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn usable(&self) -> Usable {
        // Acquire: pairs with `open`, and with `break_off`: what ran before is over, and its calls are seen to be done.
        match self.state.load(Ordering::Acquire) {
            JOINING => Usable::NotYet,
            BROKEN => Usable::NoMore,
            _ => Usable::Yes,
        }
    }

    /// Whether a member is gone.
    pub(super) fn is_broken(&self) -> bool {
        self.usable() == Usable::NoMore
    }

    /// A member has made its call of a round: whether it was the last.
    #[inline]
    pub(super) fn arrive(&self, round: u32) -> bool {
        // Release: the call. Acquire: the calls of all others, for the last.
        self.arrived[slot(round)].fetch_add(1, Ordering::AcqRel) + 1 == self.size.get()
    }

    /// The last member of a round runs its operation, unless the group is broken. Until [`end`](Self::end), what the
    /// members have lent is this thread's.
    #[inline]
    pub(super) fn begin(&self, round: u32) -> bool {
        // No other round runs: this member has called in all before, and none after.
        // Acquire: nothing of the operation is done before.
        let begun = self.state.compare_exchange(OPEN, RUNNING, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if begun {
            // A member calls in the round that takes this place only after it has seen its call of this round done.
            self.arrived[slot(round)].store(0, Ordering::Relaxed);
        }
        begun
    }

    /// The operation has run, and every call of it is done.
    #[inline]
    pub(super) fn end(&self) {
        // Release: pairs with `break_off`.
        self.state.store(OPEN, Ordering::Release);
    }

    /// A member goes: no operation runs any more. Waits for one that does.
    pub(super) fn break_off(&self) {
        loop {
            let state = self.state.load(Ordering::Relaxed);
            if state == BROKEN {
                // Acquire: as below, from the member that was first.
                self.state.load(Ordering::Acquire);
                return;
            }
            // Acquire: pairs with `end`: what has run is over. Release: hands that on to who sees the group broken.
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

/// What a group holds of a member.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Member {
    /// The fabric address of its endpoint. Written under the network's lock, before the group has members.
    pub(super) addr: Cell<u64>,
    /// Whether it has joined, and not left. Under the network's lock.
    pub(super) is_present: Cell<bool>,
    /// The next membership of its endpoint. The endpoint's own.
    pub(super) next: Cell<u32>,
    /// How many calls it has made, and of how many it has reported the end. The endpoint's own.
    pub(super) made: Cell<u32>,
    pub(super) reported: Cell<u32>,
    calls: [Call; ROUNDS],
}

// SAFETY: what is not atomic is used as its documentation says; a call's is ordered by its state and by the group's.
#[allow(unsafe_code, reason = "cells that the network's lock and the states guard")]
unsafe impl Sync for Member {}

impl Member {
    pub(super) fn new() -> Self {
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

    /// A place in a group that is founded. Under the network's lock.
    pub(super) fn assign(&self, addr: u64) {
        self.addr.set(addr);
        self.is_present.set(false);
        self.made.set(0);
        self.reported.set(0);
        for call in &self.calls {
            call.state.store(IDLE, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(super) fn call(&self, round: u32) -> &Call {
        &self.calls[slot(round)]
    }
}

const IDLE: u32 = 0;
const MADE: u32 = 1;
const DONE: u32 = 2;

/// A call of a member: idle, made by the member, done by the one that runs the operation, and idle when the member has reported it.
#[derive(Debug)]
pub(super) struct Call {
    state: AtomicU32,
    errno: Cell<Option<Errno>>,
    args: Cell<Args>,
}

/// What a member calls, and what it lends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Args {
    pub(super) operation: CollectiveCall,
    pub(super) operands: Range,
    pub(super) results: Range,
    pub(super) context: u64,
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
    /// Whether the member can make a call here.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.state.load(Ordering::Relaxed) == IDLE
    }

    /// The member makes a call, before it arrives.
    #[inline]
    pub(super) fn make(&self, args: Args) {
        self.args.set(args);
        self.state.store(MADE, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn args(&self) -> Args {
        self.args.get()
    }

    /// The operation is over for this member.
    #[inline]
    pub(super) fn finish(&self, result: Result<(), Errno>) {
        self.errno.set(result.err());
        // Release: what was written to the member's memory.
        self.state.store(DONE, Ordering::Release);
    }

    /// How the operation went, if it is over.
    #[inline]
    pub(super) fn result(&self) -> Option<Result<(), Errno>> {
        // Acquire: pairs with `finish`.
        (self.state.load(Ordering::Acquire) == DONE).then(|| self.errno.get().map_or(Ok(()), Err))
    }

    /// The member has reported the call.
    #[inline]
    pub(super) fn clear(&self) {
        self.state.store(IDLE, Ordering::Relaxed);
    }
}
