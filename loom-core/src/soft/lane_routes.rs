//! To whom an endpoint's lanes lead: the sender's side.
//!
//! A lane is for a peer that gets many short messages. The endpoint looks at one in sixteen of those that go by the inbox, and asks the
//! peer for a lane. If it has none left, and two in turn are for the same peer, it gives up one that has carried nothing meanwhile.

#![allow(unsafe_code, reason = "keeps the lane of the last message as a pointer")]

use core::cell::Cell;
use core::ptr::NonNull;

use super::lane::{Lane, LaneUse};
use crate::engine::tag_matcher::Table;

/// After this number of short messages by the inbox the endpoint looks for a lane; and after it again when a peer has refused one.
const OUTSIDE: u32 = 16;
const OUTSIDE_WHEN_REFUSED: u32 = 1024;

/// An endpoint's lanes.
#[derive(Debug)]
pub(super) struct Routes {
    lanes: Table<Lane>,
    /// Whether the endpoint may ask for lanes, and peers may ask it: not if its domain requires modes or a plan may strike.
    pub(super) granted: Cell<bool>,
    /// Where the last message went, and the lane that leads there.
    last: Cell<u64>,
    lane: Cell<Option<NonNull<Lane>>>,
    /// How many short messages are to go by the inbox before the endpoint thinks about lanes.
    outside: Cell<u32>,
    /// For whom the last of these was that was looked at when no lane was left.
    pub(super) candidate: Cell<u64>,
}

impl Routes {
    pub(super) fn new(lanes: Table<Lane>) -> Self {
        Routes {
            lanes,
            granted: Cell::new(false),
            last: Cell::new(0),
            lane: Cell::new(None),
            outside: Cell::new(OUTSIDE),
            candidate: Cell::new(0),
        }
    }

    /// For the next endpoint in this place.
    pub(super) fn begin(&self, granted: bool) {
        self.granted.set(granted);
        self.outside.set(OUTSIDE);
        self.candidate.set(0);
        self.forget();
    }

    pub(super) fn forget(&self) {
        self.last.set(0);
        self.lane.set(None);
    }

    pub(super) fn lanes(&self) -> impl Iterator<Item = &Lane> {
        (0..self.lanes.len()).map(|at| self.lanes.at(at))
    }

    /// Whether no receiver has any of the lanes.
    #[cfg(all(test, feature = "std", not(loom_model)))]
    pub(super) fn are_idle(&self) -> bool {
        self.lanes().all(Lane::is_idle)
    }

    /// The lane to a peer, if messages to it are numbered.
    #[inline(always)]
    pub(super) fn lane_to(&self, to: u64) -> Option<&Lane> {
        // Else the peer has closed.
        self.last_lane(to).filter(|lane| lane.is_open())
    }

    /// The lane to a peer, which is open, or was: then the peer has closed.
    #[inline(always)]
    pub(super) fn last_lane(&self, to: u64) -> Option<&Lane> {
        if self.last.get() != to {
            self.find(to);
        }
        // SAFETY: one of the endpoint's lanes, which stay as long as the network.
        self.lane.get().map(|lane| unsafe { lane.as_ref() })
    }

    #[inline(never)]
    fn find(&self, to: u64) {
        let lane = self.lanes().find(|lane| lane.used() == LaneUse::Numbered && lane.to() == to);
        self.lane.set(lane.map(NonNull::from_ref));
        self.last.set(to);
    }

    /// It has thought about lanes, and a peer had refused one or not.
    pub(super) fn wait_on(&self, refused: bool) {
        self.outside.set(if refused { OUTSIDE_WHEN_REFUSED } else { OUTSIDE });
    }

    /// Whether it is time to think about lanes, now that a short message goes by the inbox.
    #[inline(always)]
    pub(super) fn is_time(&self) -> bool {
        let left = self.outside.get() - 1;
        self.outside.set(left);
        left == 0
    }
}
