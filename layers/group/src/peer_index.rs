//! [`PeerIndex`]: a peer of a group by its number.

use core::fmt;

/// A peer of a group, by its number: members count from 0, this one among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerIndex(pub u32);

impl PeerIndex {
    /// As a number of a place in a table.
    pub(crate) fn place(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for PeerIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer {}", self.0)
    }
}
