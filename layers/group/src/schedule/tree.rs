//! Tree of ranks under all schedules with a root.
//!
//! At level `k`, ranks are divided into runs of `2^k`. The holder of a run is the root, or else the
//! first member. Two neighboring runs form one of the next level, and their holders exchange a
//! message. Operands keep rank order, and the blocks of a run are one range.
//!
//! The tree is binomial.

use core::ops::Range;

use super::blocks::Layout;
use super::member::Member;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tree {
    member: Member,
    root: u32,
}

pub(super) struct Edge {
    pub(super) peer: u32,
    /// `true` if this member is further from the root than the peer.
    pub(super) child: bool,
    /// `true` if the peer's ranks come first.
    pub(super) left: bool,
    pub(super) own: Range<u32>,
    pub(super) other: Range<u32>,
}

impl Tree {
    pub(super) const fn new(member: Member, root: u32) -> Self {
        Tree { member, root }
    }

    pub(super) const fn is_root(&self) -> bool {
        self.member.rank() == self.root
    }

    pub(super) fn edge(&self, level: u32) -> Option<Edge> {
        let (rank, root) = (self.member.rank(), self.root);
        let size = self.member.distance(level)?;
        let (own, other) = (rank >> level, (rank >> level) ^ 1);
        let holds = self.is_root() || (rank.is_multiple_of(size) && root >> level != own);
        // Run numbers are at most `(members >> level) + 1`, so their first ranks fit.
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

    pub(super) fn parent(&self) -> Option<Edge> {
        (0..self.member.levels()).filter_map(|level| self.edge(level)).find(|edge| edge.child)
    }

    pub(super) fn is_leaf(&self) -> bool {
        !self.is_root() && (0..self.member.levels()).filter_map(|level| self.edge(level)).all(|edge| edge.child)
    }

    pub(super) fn kept(&self, layout: &Layout<'_>) -> usize {
        if self.is_leaf() { 0 } else { self.parent().map_or(0, |edge| layout.span(edge.own).len()) }
    }
}
