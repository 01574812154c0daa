#![allow(unsafe_code, reason = "keeps lanes as pointers")]

use core::cell::Cell;
use core::ptr::NonNull;

use super::Lane;

const MOST: usize = 8;

#[derive(Debug)]
pub(crate) struct Arrivals {
    lanes: [Arriving; MOST],
    count: Cell<usize>,
    inbox_first: Cell<bool>,
}

#[derive(Debug)]
pub(crate) struct Arriving {
    lane: Cell<Option<NonNull<Lane>>>,
    pub(crate) from: Cell<u64>,
    /// Number of the sender's next message, by lane or inbox.
    pub(crate) next: Cell<u64>,
}

impl Arriving {
    const fn none() -> Self {
        Arriving { lane: Cell::new(None), from: Cell::new(0), next: Cell::new(0) }
    }

    #[inline(always)]
    pub(crate) fn lane(&self) -> &Lane {
        // SAFETY: set in each of the first `count` entries, the only ones in use.
        let lane = unsafe { self.lane.get().unwrap_unchecked() };
        // SAFETY: lanes stay as long as their network.
        unsafe { lane.as_ref() }
    }

    #[inline(always)]
    pub(crate) fn advance(&self) {
        let next = self.next.get() + 1;
        self.next.set(next);
        self.lane().report_done(next);
    }
}

impl Arrivals {
    pub(crate) const fn new() -> Self {
        Arrivals { lanes: [const { Arriving::none() }; MOST], count: Cell::new(0), inbox_first: Cell::new(false) }
    }

    #[inline(always)]
    pub(crate) fn lanes(&self) -> &[Arriving] {
        self.lanes.get(..self.count.get()).unwrap_or(&[])
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.get() == 0
    }

    #[inline(always)]
    pub(crate) fn first_to_deliver(&self) -> Option<&Arriving> {
        if self.is_empty() {
            return None;
        }
        self.lanes().iter().find(|arriving| arriving.lane().may_have_arrived(arriving.next.get()))
    }

    /// Inbox and lanes alternate, so that neither starves.
    #[inline]
    pub(crate) fn is_inboxs_turn(&self) -> bool {
        self.inbox_first.replace(!self.inbox_first.get())
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn pass_turn(&self) {
        for (one, next) in self.lanes().iter().zip(self.lanes().iter().skip(1)) {
            one.lane.swap(&next.lane);
            one.from.swap(&next.from);
            one.next.swap(&next.next);
        }
    }

    pub(crate) fn from(&self, from: u64) -> Option<&Arriving> {
        self.lanes().iter().find(|arriving| arriving.from.get() == from)
    }

    /// `watched`: the endpoint may sleep.
    pub(crate) fn accept(&self, lane: &Lane, (from, first): (u64, u64), watched: bool) {
        let Some(free) = self.lanes.get(self.count.get()) else { return lane.leave() };
        if lane.accept(watched) {
            free.lane.set(Some(NonNull::from_ref(lane)));
            free.from.set(from);
            free.next.set(first);
            self.count.set(self.count.get() + 1);
        }
    }

    pub(crate) fn leave(&self, arriving: &Arriving) {
        arriving.lane().leave();
        let last = self.count.get() - 1;
        self.count.set(last);
        if let Some(moved) = self.lanes.get(last) {
            arriving.lane.set(moved.lane.replace(None));
            arriving.from.set(moved.from.get());
            arriving.next.set(moved.next.get());
        }
    }

    pub(crate) fn leave_all(&self) {
        while let Some(arriving) = self.lanes().first() {
            self.leave(arriving);
        }
    }
}
