//! Parameters of the rounds, shared by both sides.

use std::fmt;

use loom_core::vocabulary::{ImmediateData, Tag};

use crate::play::setup::Op;
use crate::text::size_text;

/// Rounds of one operation with one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bout {
    pub(crate) op: Op,
    pub(crate) size: usize,
    /// Index of the side's buffers of this size.
    pub(crate) index: usize,
    /// `true` if patterns are written and checked, otherwise rounds are timed.
    pub(crate) verify: bool,
}

impl fmt::Display for Bout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.op.name(), size_text(self.size))
    }
}

/// Every round has its own tag, so that matching has work to do. Few bits are used because
/// providers may reserve some.
pub(crate) fn tag(round: u64) -> Tag {
    Tag(round & 0xffff)
}

/// Few bits are used because immediate data has four bytes on some networks.
pub(crate) fn immediate(round: u64) -> ImmediateData {
    ImmediateData(round & 0xffff)
}
