//! The tree of ranks under all schedules with a root.
//!
//! At level `k`, the ranks are divided into runs of `2^k`, and each run has a holder: the root if the run has it, or else its first member. Two
//! neighboring runs make one run of the next level, and the holder of the one half exchanges a message with the holder of the other. So each
//! edge of the tree joins two runs of *neighboring* ranks, the left one and the right one, whatever the root is. Operands keep the order of the
//! ranks, and blocks of a run are one range.
//!
//! This is a binomial tree with `n - 1` edges and `ceil(log2 n)` levels, in which the root takes the place of the first member of each of its runs.

use core::ops::Range;

use super::blocks::Layout;
use super::member::Member;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tree {
    member: Member,
    root: u32,
}

/// What joins this member's run with the run beside it.
pub(super) struct Edge {
    /// The holder of the other run.
    pub(super) peer: u32,
    /// That this member is further from the root than the peer.
    pub(super) child: bool,
    /// That the peer's ranks come before this member's.
    pub(super) left: bool,
    /// The ranks of this member's run.
    pub(super) own: Range<u32>,
    /// The ranks of the peer's run.
    pub(super) other: Range<u32>,
}

impl Tree {
    pub(super) const fn new(member: Member, root: u32) -> Self {
        Tree { member, root }
    }

    pub(super) const fn is_root(&self) -> bool {
        self.member.rank() == self.root
    }

    /// This member's edge at a level, if it has one.
    pub(super) fn edge(&self, level: u32) -> Option<Edge> {
        let (rank, root) = (self.member.rank(), self.root);
        let size = self.member.distance(level)?;
        let (own, other) = (rank >> level, (rank >> level) ^ 1);
        let holds = self.is_root() || (rank.is_multiple_of(size) && root >> level != own);
        // The numbers of runs are at most `members >> level`, plus one: their first ranks fit.
        let run = |number: u32| number << level..((number + 1) << level).min(self.member.members());
        let first = other << level;
        if !holds || first >= self.member.members() {
            return None;
        }
        let with_root = root >> level >> 1 == own >> 1;
        Some(Edge {
            peer: if root >> level == other { root } else { first },
            child: if with_root { !self.is_root() } else { own & 1 == 1 },
            left: other < own,
            own: run(own),
            other: run(other),
        })
    }

    /// The edge to the peer that is nearer to the root. The root has none.
    pub(super) fn parent(&self) -> Option<Edge> {
        (0..self.member.levels()).filter_map(|level| self.edge(level)).find(|edge| edge.child)
    }

    /// That this member has neither the root nor children.
    pub(super) fn is_leaf(&self) -> bool {
        !self.is_root() && (0..self.member.levels()).filter_map(|level| self.edge(level)).all(|edge| edge.child)
    }

    /// The elements that a member between the root and the leaves keeps for its run.
    pub(super) fn kept(&self, layout: &Layout<'_>) -> usize {
        if self.is_leaf() { 0 } else { self.parent().map_or(0, |edge| layout.span(edge.own).len()) }
    }
}
