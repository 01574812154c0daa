//! The lanes by which an endpoint receives, and how far it is with each.

#![allow(unsafe_code, reason = "keeps lanes as pointers")]

use core::cell::Cell;
use core::ptr::NonNull;

use super::lane::Lane;

/// How many lanes an endpoint accepts: each is looked at whenever the endpoint is polled.
const MOST: usize = 8;

/// The lanes that an endpoint has accepted.
#[derive(Debug)]
pub(super) struct Arrivals {
    lanes: [Arriving; MOST],
    count: Cell<usize>,
    /// Whether the inbox comes first next time.
    inbox_first: Cell<bool>,
}

/// A lane, and how far its receiver is.
#[derive(Debug)]
pub(super) struct Arriving {
    lane: Cell<Option<NonNull<Lane>>>,
    /// The sender: its fabric address.
    pub(super) from: Cell<u64>,
    /// The number of the sender's next message, whichever way it comes.
    pub(super) next: Cell<u64>,
}

impl Arriving {
    const fn none() -> Self {
        Arriving { lane: Cell::new(None), from: Cell::new(0), next: Cell::new(0) }
    }

    #[inline(always)]
    pub(super) fn lane(&self) -> &Lane {
        // SAFETY: set for each of those that are counted.
        let lane = unsafe { self.lane.get().unwrap_unchecked() };
        // SAFETY: lanes stay as long as their network.
        unsafe { lane.as_ref() }
    }

    /// The receiver is done with the next message.
    #[inline(always)]
    pub(super) fn advance(&self) {
        let next = self.next.get() + 1;
        self.next.set(next);
        self.lane().say_done(next);
    }
}

impl Arrivals {
    pub(super) const fn new() -> Self {
        Arrivals { lanes: [const { Arriving::none() }; MOST], count: Cell::new(0), inbox_first: Cell::new(false) }
    }

    #[inline(always)]
    pub(super) fn lanes(&self) -> &[Arriving] {
        self.lanes.get(..self.count.get()).unwrap_or(&[])
    }

    /// Whether there are none.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.count.get() == 0
    }

    /// The first lane by which something has come.
    #[inline(always)]
    pub(super) fn first_to_deliver(&self) -> Option<&Arriving> {
        if self.is_empty() {
            return None;
        }
        self.lanes().iter().find(|arriving| arriving.lane().may_have(arriving.next.get()))
    }

    /// Whether the inbox comes first this time. Next time it is the lanes' turn, so that neither waits for ever.
    #[inline]
    pub(super) fn is_inboxs_turn(&self) -> bool {
        self.inbox_first.replace(!self.inbox_first.get())
    }

    /// The first lane goes behind the others, so that each is looked at first at times, however much comes by another.
    #[cold]
    #[inline(never)]
    pub(super) fn pass_turn(&self) {
        for (one, next) in self.lanes().iter().zip(self.lanes().iter().skip(1)) {
            one.lane.swap(&next.lane);
            one.from.swap(&next.from);
            one.next.swap(&next.next);
        }
    }

    pub(super) fn from(&self, from: u64) -> Option<&Arriving> {
        self.lanes().iter().find(|arriving| arriving.from.get() == from)
    }

    /// Accepts a lane if there is room for it; else its sender has it back. It is watched if the endpoint may sleep.
    pub(super) fn accept(&self, lane: &Lane, (from, first): (u64, u64), watched: bool) {
        let Some(free) = self.lanes.get(self.count.get()) else { return lane.leave() };
        if lane.accept(watched) {
            free.lane.set(Some(NonNull::from_ref(lane)));
            free.from.set(from);
            free.next.set(first);
            self.count.set(self.count.get() + 1);
        }
    }

    /// Gives a sender its lane back.
    pub(super) fn leave(&self, arriving: &Arriving) {
        arriving.lane().leave();
        let last = self.count.get() - 1;
        self.count.set(last);
        if let Some(moved) = self.lanes.get(last) {
            arriving.lane.set(moved.lane.replace(None));
            arriving.from.set(moved.from.get());
            arriving.next.set(moved.next.get());
        }
    }

    /// Gives all senders their lanes back, and what is left in them: it will not be received.
    pub(super) fn leave_all(&self) {
        while let Some(arriving) = self.lanes().first() {
            self.leave(arriving);
        }
    }
}
