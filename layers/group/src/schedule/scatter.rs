//! Scatter: one block for each member comes from the root. The blocks can differ in length.

use super::blocks::{Blocks, Layout};
use super::member::{Member, ScheduleError};
use super::op::{Op, Part, Which, copy, recv, send};
use super::tree::Tree;
use super::{Needs, Schedule};

/// Scatter along a binomial tree, for short blocks: from the input of the root to the output of each member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScatterTree<'a> {
    member: Member,
    tree: Tree,
    layout: Layout<'a>,
}

impl<'a> ScatterTree<'a> {
    /// The part of this member. All members give the same blocks.
    ///
    /// # Errors
    /// - [`ScheduleError::Root`]: there is no member `root`.
    /// - [`ScheduleError::Bounds`]: the bounds do not fit to the members.
    /// - [`ScheduleError::Size`]: the elements of all blocks are more than a `usize` can count.
    pub fn new(member: Member, root: u32, blocks: Blocks<'a>) -> Result<Self, ScheduleError> {
        Ok(ScatterTree { member, tree: Tree::new(member, member.root(root)?), layout: Layout::new(blocks, member)? })
    }

    /// Where the blocks of these members are kept: at the root in the input, at a leaf in the output.
    fn part(&self, ranks: core::ops::Range<u32>) -> Part {
        let span = self.layout.span(ranks);
        if self.tree.is_root() {
            return Part::of(Which::Input, span);
        }
        // The run of a member that is not the root begins with the member itself.
        let start = span.start.saturating_sub(self.layout.start(self.member.rank()));
        let buffer = if self.tree.is_leaf() { Which::Output } else { Which::Scratch };
        Part::new(buffer, start, span.len())
    }
}

impl Schedule for ScatterTree<'_> {
    fn needs(&self) -> Needs {
        Needs {
            input: if self.tree.is_root() { self.layout.end() } else { 0 },
            output: self.layout.len(self.member.rank()),
            scratch: self.tree.kept(&self.layout),
        }
    }

    fn rounds(&self) -> u32 {
        self.member.levels() + 1
    }

    fn width(&self, _: u32) -> u32 {
        1
    }

    fn op(&self, round: u32, index: u32) -> Option<Op> {
        let levels = self.member.levels();
        if index > 0 || round > levels {
            return None;
        }
        // From the widest runs to the narrowest, and the own block last.
        let Some(level) = (levels - round).checked_sub(1) else {
            let rank = self.member.rank();
            let output = Part::new(Which::Output, 0, self.layout.len(rank));
            return if self.tree.is_leaf() { None } else { copy(self.part(rank..rank + 1), output) };
        };
        let edge = self.tree.edge(level)?;
        if edge.child { recv(edge.peer, self.part(edge.own)) } else { send(edge.peer, self.part(edge.other)) }
    }
}

/// Scatter by one message of the root to each member, for long blocks: from the input of the root to the output of each member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScatterLinear<'a> {
    member: Member,
    root: u32,
    layout: Layout<'a>,
}

impl<'a> ScatterLinear<'a> {
    /// The part of this member. All members give the same blocks.
    ///
    /// # Errors
    /// As of [`ScatterTree::new`].
    pub fn new(member: Member, root: u32, blocks: Blocks<'a>) -> Result<Self, ScheduleError> {
        Ok(ScatterLinear { member, root: member.root(root)?, layout: Layout::new(blocks, member)? })
    }
}

impl Schedule for ScatterLinear<'_> {
    fn needs(&self) -> Needs {
        let input = if self.member.rank() == self.root { self.layout.end() } else { 0 };
        Needs { input, output: self.layout.len(self.member.rank()), scratch: 0 }
    }

    fn rounds(&self) -> u32 {
        1
    }

    fn width(&self, _: u32) -> u32 {
        if self.member.rank() == self.root { self.member.members() } else { 1 }
    }

    fn op(&self, round: u32, index: u32) -> Option<Op> {
        let (rank, members) = (self.member.rank(), self.member.members());
        if round > 0 || index >= self.width(round) {
            return None;
        }
        let own = Part::new(Which::Output, 0, self.layout.len(rank));
        if rank != self.root {
            return recv(self.root, own);
        }
        // The members after the root first, and the root's own block last: a copy comes after all messages.
        let peer = self.member.after(index + 1);
        let from = Part::of(Which::Input, self.layout.range(peer));
        if index + 1 == members { copy(from, own) } else { send(peer, from) }
    }
}
