use core::ops::Range;

use super::member::{Member, wide};
use crate::CollectiveError;

/// Division of a buffer into one block for each member, in rank order.
///
/// ```
/// use loom_group::CollectiveError;
/// use loom_group::schedule::{AllGatherRing, Blocks, Member, Schedule};
///
/// let input = |rank, blocks| Ok::<_, CollectiveError>(AllGatherRing::new(Member::new(rank, 3)?, blocks)?.needs().input);
/// assert_eq!((input(0, Blocks::Split(10))?, input(2, Blocks::Split(10))?), (4, 3));
/// // Member 1 has no elements.
/// let bounds = [0, 6, 6, 10];
/// assert_eq!((input(0, Blocks::Bounds(&bounds))?, input(1, Blocks::Bounds(&bounds))?), (6, 0));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Blocks<'a> {
    /// Each block has this length.
    Equal(usize),
    /// All blocks together have this length. Their lengths differ by at most one, longer first.
    Split(usize),
    /// Block of member `r`: elements `bounds[r]` to `bounds[r + 1]`. The bounds are one more than
    /// the members, and ascending.
    Bounds(&'a [usize]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Layout<'a> {
    blocks: Blocks<'a>,
    members: u32,
}

impl<'a> Layout<'a> {
    pub(super) fn new(blocks: Blocks<'a>, member: Member) -> Result<Self, CollectiveError> {
        let members = member.members();
        match blocks {
            Blocks::Equal(count) => {
                count.checked_mul(wide(members)).ok_or(CollectiveError::Size)?;
            }
            Blocks::Split(_) => {}
            Blocks::Bounds(bounds) => {
                if bounds.len() != wide(members).saturating_add(1) || !bounds.is_sorted() {
                    return Err(CollectiveError::Bounds);
                }
            }
        }
        Ok(Layout { blocks, members })
    }

    /// The end of the last block for the number of members.
    pub(super) fn start(&self, rank: u32) -> usize {
        let rank = wide(rank.min(self.members));
        match self.blocks {
            Blocks::Equal(count) => count.saturating_mul(rank),
            Blocks::Split(total) => {
                let members = wide(self.members);
                (total / members).saturating_mul(rank).saturating_add(rank.min(total % members))
            }
            Blocks::Bounds(bounds) => bounds.get(rank).copied().unwrap_or(0),
        }
    }

    pub(super) fn span(&self, ranks: Range<u32>) -> Range<usize> {
        self.start(ranks.start)..self.start(ranks.end)
    }

    pub(super) fn range(&self, rank: u32) -> Range<usize> {
        self.span(rank..rank.saturating_add(1))
    }

    pub(super) fn len(&self, rank: u32) -> usize {
        self.range(rank).len()
    }

    pub(super) fn end(&self) -> usize {
        self.start(self.members)
    }

    pub(super) fn total(&self) -> usize {
        self.span(0..self.members).len()
    }
}
