//! [`Member`]: rank in a group, and arithmetic of ranks.

use core::fmt;

/// Rank of a member, and the number of members of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    rank: u32,
    members: u32,
}

/// Reason why a schedule does not exist.
///
/// ```
/// use loom_group::schedule::{BroadcastTree, Member, ScheduleError};
///
/// assert_eq!(Member::new(4, 4), Err(ScheduleError::Rank));
/// let member = Member::new(3, 4).expect("ranks count from 0");
/// assert_eq!(BroadcastTree::new(member, 4, 10), Err(ScheduleError::Root));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The number of members is zero, or above [`Member::MOST`].
    Members,
    /// The rank is not below the number of members.
    Rank,
    /// The root is not below the number of members.
    Root,
    /// The bounds are not one more than the members, or decrease.
    Bounds,
    /// The number of elements of a buffer exceeds a `usize`.
    Size,
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ScheduleError::Members => "a group needs from 1 to 2^30 members",
            ScheduleError::Rank => "the rank is not less than the number of members",
            ScheduleError::Root => "the root is not less than the number of members",
            ScheduleError::Bounds => "the bounds are not one more than the members, or they decrease",
            ScheduleError::Size => "a buffer has more elements than a usize can count",
        })
    }
}

impl core::error::Error for ScheduleError {}

impl From<ScheduleError> for loom_core::Error {
    fn from(error: ScheduleError) -> Self {
        loom_core::Error::Invalid(match error {
            ScheduleError::Members => "the number of members of a schedule",
            ScheduleError::Rank => "the rank of a member of a schedule",
            ScheduleError::Root => "the root of a schedule",
            ScheduleError::Bounds => "the bounds of blocks of a schedule",
            ScheduleError::Size => "the number of elements of a schedule",
        })
    }
}

// Sums of ranks, distances and rounds rely on `MOST`: two of them, and a few more, fit into a
// `u32`.
impl Member {
    /// Maximum number of members.
    pub const MOST: u32 = 1 << 30;

    /// Member with this rank.
    ///
    /// # Errors
    /// [`ScheduleError::Members`], [`ScheduleError::Rank`].
    pub const fn new(rank: u32, members: u32) -> Result<Self, ScheduleError> {
        if members == 0 || members > Member::MOST {
            return Err(ScheduleError::Members);
        }
        if rank >= members {
            return Err(ScheduleError::Rank);
        }
        Ok(Member { rank, members })
    }

    /// Rank, from 0.
    pub const fn rank(self) -> u32 {
        self.rank
    }

    /// Number of members.
    pub const fn members(self) -> u32 {
        self.members
    }

    pub(super) const fn after(self, distance: u32) -> u32 {
        let room = self.members - self.rank;
        if distance < room { self.rank + distance } else { distance - room }
    }

    pub(super) const fn before(self, distance: u32) -> u32 {
        if distance <= self.rank { self.rank - distance } else { self.members.saturating_sub(distance - self.rank) }
    }

    /// Base-2 logarithm of the number of members, rounded up: at most 30.
    pub(super) const fn levels(self) -> u32 {
        u32::BITS - (self.members - 1).leading_zeros()
    }

    pub(super) fn distance(self, level: u32) -> Option<u32> {
        (level < self.levels()).then(|| 1 << level)
    }

    pub(super) const fn root(self, root: u32) -> Result<u32, ScheduleError> {
        if root < self.members { Ok(root) } else { Err(ScheduleError::Root) }
    }
}

pub(super) fn wide(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
