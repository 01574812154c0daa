use super::blocks::{Blocks, Layout};
use super::member::Member;
use super::op::{Op, Part, Which, copy, recv, send};
use super::tree::Tree;
use super::{Needs, Schedule};
use crate::CollectiveError;

/// Gather along a binomial tree, for short blocks: from all inputs to the root's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GatherTree<'a> {
    member: Member,
    tree: Tree,
    layout: Layout<'a>,
}

impl<'a> GatherTree<'a> {
    /// Schedule of this member.
    ///
    /// # Errors
    /// [`CollectiveError::Root`], [`CollectiveError::Bounds`], [`CollectiveError::Size`].
    pub fn new(member: Member, root: u32, blocks: Blocks<'a>) -> Result<Self, CollectiveError> {
        Ok(GatherTree { member, tree: Tree::new(member, member.root(root)?), layout: Layout::new(blocks, member)? })
    }

    /// Output at the root, input at a leaf, scratch elsewhere.
    fn part(&self, ranks: core::ops::Range<u32>) -> Part {
        let span = self.layout.span(ranks);
        if self.tree.is_root() {
            return Part::of(Which::Output, span);
        }
        let start = span.start.saturating_sub(self.layout.start(self.member.rank()));
        let buffer = if self.tree.is_leaf() { Which::Input } else { Which::Scratch };
        Part::new(buffer, start, span.len())
    }
}

impl Schedule for GatherTree<'_> {
    fn needs(&self) -> Needs {
        Needs {
            input: self.layout.len(self.member.rank()),
            output: if self.tree.is_root() { self.layout.end() } else { 0 },
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
        if index > 0 {
            return None;
        }
        let rank = self.member.rank();
        let Some(level) = round.checked_sub(1) else {
            let input = Part::new(Which::Input, 0, self.layout.len(rank));
            return if self.tree.is_leaf() { None } else { copy(input, self.part(rank..rank + 1)) };
        };
        let edge = self.tree.edge(level)?;
        if edge.child { send(edge.peer, self.part(edge.own)) } else { recv(edge.peer, self.part(edge.other)) }
    }
}

/// Gather by one message from each member to the root, for long blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GatherLinear<'a> {
    member: Member,
    root: u32,
    layout: Layout<'a>,
}

impl<'a> GatherLinear<'a> {
    /// Schedule of this member.
    ///
    /// # Errors
    /// See [`GatherTree::new`].
    pub fn new(member: Member, root: u32, blocks: Blocks<'a>) -> Result<Self, CollectiveError> {
        Ok(GatherLinear { member, root: member.root(root)?, layout: Layout::new(blocks, member)? })
    }
}

impl Schedule for GatherLinear<'_> {
    fn needs(&self) -> Needs {
        let output = if self.member.rank() == self.root { self.layout.end() } else { 0 };
        Needs { input: self.layout.len(self.member.rank()), output, scratch: 0 }
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
        let own = Part::new(Which::Input, 0, self.layout.len(rank));
        if rank != self.root {
            return send(self.root, own);
        }
        // The own block is last: copies follow all messages.
        let peer = self.member.after(index + 1);
        let into = Part::of(Which::Output, self.layout.range(peer));
        if index + 1 == members { copy(own, into) } else { recv(peer, into) }
    }
}
