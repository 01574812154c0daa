//! What both sides know about the rounds that they play.

use std::fmt;

use loom_core::vocabulary::{ImmediateData, Tag};

use crate::play::setup::Op;
use crate::text::size_text;

/// Rounds of one operation with one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bout {
    pub(crate) op: Op,
    pub(crate) size: usize,
    /// Which of the side's buffers have this size.
    pub(crate) index: usize,
    /// Whether patterns are written and checked; else rounds are timed.
    pub(crate) verify: bool,
}

impl fmt::Display for Bout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.op.name(), size_text(self.size))
    }
}

/// Every round has its tag, so matching has something to do. Providers may keep bits for themselves: these are few.
pub(crate) fn tag(round: u64) -> Tag {
    Tag(round & 0xffff)
}

/// As for tags: immediate data has four bytes on some networks.
pub(crate) fn immediate(round: u64) -> ImmediateData {
    ImmediateData(round & 0xffff)
}
