//! Lanes for sending.
//!
//! The endpoint checks each sixteenth short message that it sends through the inbox, and requests a
//! lane to its receiver. If no lane is free and two checks in a row find the same peer, it ends a
//! lane that was quiet meanwhile.

#![allow(unsafe_code, reason = "keeps the lane of the last message as a pointer")]

use core::cell::Cell;
use core::ptr::NonNull;

use super::{Lane, LaneUse};
use crate::engine::tag_matcher::Table;

const OUTSIDE: u32 = 16;
const OUTSIDE_WHEN_REFUSED: u32 = 1024;

#[derive(Debug)]
pub(crate) struct Routes {
    lanes: Table<Lane>,
    /// Not with required modes or a fault plan.
    pub(crate) granted: Cell<bool>,
    /// Receiver of the last message, and its lane.
    last: Cell<u64>,
    lane: Cell<Option<NonNull<Lane>>>,
    /// Short messages until the next check.
    outside: Cell<u32>,
    /// Peer of the last check without a free lane.
    pub(crate) candidate: Cell<u64>,
}

impl Routes {
    pub(crate) fn new(lanes: Table<Lane>) -> Self {
        Routes {
            lanes,
            granted: Cell::new(false),
            last: Cell::new(0),
            lane: Cell::new(None),
            outside: Cell::new(OUTSIDE),
            candidate: Cell::new(0),
        }
    }

    pub(crate) fn begin(&self, granted: bool) {
        self.granted.set(granted);
        self.outside.set(OUTSIDE);
        self.candidate.set(0);
        self.forget();
    }

    pub(crate) fn forget(&self) {
        self.last.set(0);
        self.lane.set(None);
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = &Lane> {
        (0..self.lanes.len()).map(|at| self.lanes.at(at))
    }

    #[cfg(all(test, feature = "std", not(loom_model)))]
    pub(crate) fn are_idle(&self) -> bool {
        self.lanes().all(Lane::is_idle)
    }

    #[inline(always)]
    pub(crate) fn lane_to(&self, to: u64) -> Option<&Lane> {
        self.last_lane(to).filter(|lane| lane.is_open())
    }

    #[inline(always)]
    pub(crate) fn last_lane(&self, to: u64) -> Option<&Lane> {
        if self.last.get() != to {
            self.find(to);
        }
        // SAFETY: lanes stay as long as the network.
        self.lane.get().map(|lane| unsafe { lane.as_ref() })
    }

    #[inline(never)]
    fn find(&self, to: u64) {
        let lane = self.lanes().find(|lane| lane.used() == LaneUse::Numbered && lane.to() == to);
        self.lane.set(lane.map(NonNull::from_ref));
        self.last.set(to);
    }

    pub(crate) fn wait_on(&self, refused: bool) {
        self.outside.set(if refused { OUTSIDE_WHEN_REFUSED } else { OUTSIDE });
    }

    #[inline(always)]
    pub(crate) fn is_time(&self) -> bool {
        let left = self.outside.get() - 1;
        self.outside.set(left);
        left == 0
    }
}
