use std::fmt;

use loom_core::vocabulary::{ImmediateData, Tag};

use crate::play::setup::Op;
use crate::text::size_text;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bout {
    pub(crate) op: Op,
    pub(crate) size: usize,
    pub(crate) index: usize,
    /// `true` if patterns are checked, otherwise rounds are timed.
    pub(crate) verify: bool,
}

impl fmt::Display for Bout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.op.name(), size_text(self.size))
    }
}

/// Every round has its own tag, so that matching has work to do. Providers may reserve some bits.
pub(crate) fn tag(round: u64) -> Tag {
    Tag(round & 0xffff)
}

/// Immediate data has four bytes on some networks.
pub(crate) fn immediate(round: u64) -> ImmediateData {
    ImmediateData(round & 0xffff)
}
