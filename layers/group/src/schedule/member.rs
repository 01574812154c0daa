use crate::CollectiveError;

/// Rank of a member, and the number of members of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    rank: u32,
    members: u32,
}

// Below `MOST`, sums of two ranks, distances and rounds fit into a `u32`.
impl Member {
    /// Maximum number of members.
    pub const MOST: u32 = 1 << 30;

    /// Member with this rank.
    ///
    /// # Errors
    /// [`CollectiveError::Members`], [`CollectiveError::Rank`].
    pub const fn new(rank: u32, members: u32) -> Result<Self, CollectiveError> {
        if members == 0 || members > Member::MOST {
            return Err(CollectiveError::Members);
        }
        if rank >= members {
            return Err(CollectiveError::Rank);
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

    /// Base-2 logarithm of `members`, rounded up: at most 30.
    pub(super) const fn levels(self) -> u32 {
        u32::BITS - (self.members - 1).leading_zeros()
    }

    pub(super) fn distance(self, level: u32) -> Option<u32> {
        (level < self.levels()).then(|| 1 << level)
    }

    pub(super) const fn root(self, root: u32) -> Result<u32, CollectiveError> {
        if root < self.members { Ok(root) } else { Err(CollectiveError::Root) }
    }
}

pub(super) fn wide(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
