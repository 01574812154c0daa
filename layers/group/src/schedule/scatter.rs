use super::blocks::{Blocks, Layout};
use super::member::Member;
use super::op::{Op, Part, Which, copy, recv, send};
use super::tree::Tree;
use super::{Needs, Schedule};
use crate::CollectiveError;

/// Scatter along a binomial tree, for short blocks: from the root's input to all outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScatterTree<'a> {
    member: Member,
    tree: Tree,
    layout: Layout<'a>,
}

impl<'a> ScatterTree<'a> {
    /// Schedule of this member.
    ///
    /// # Errors
    /// [`CollectiveError::Root`], [`CollectiveError::Bounds`], [`CollectiveError::Size`].
    pub fn new(member: Member, root: u32, blocks: Blocks<'a>) -> Result<Self, CollectiveError> {
        Ok(ScatterTree { member, tree: Tree::new(member, member.root(root)?), layout: Layout::new(blocks, member)? })
    }

    /// Input at the root, output at a leaf, scratch elsewhere.
    fn part(&self, ranks: core::ops::Range<u32>) -> Part {
        let span = self.layout.span(ranks);
        if self.tree.is_root() {
            return Part::of(Which::Input, span);
        }
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
        let Some(level) = (levels - round).checked_sub(1) else {
            let rank = self.member.rank();
            let output = Part::new(Which::Output, 0, self.layout.len(rank));
            return if self.tree.is_leaf() { None } else { copy(self.part(rank..rank + 1), output) };
        };
        let edge = self.tree.edge(level)?;
        if edge.child { recv(edge.peer, self.part(edge.own)) } else { send(edge.peer, self.part(edge.other)) }
    }
}

/// Scatter by one message from the root to each member, for long blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScatterLinear<'a> {
    member: Member,
    root: u32,
    layout: Layout<'a>,
}

impl<'a> ScatterLinear<'a> {
    /// Schedule of this member.
    ///
    /// # Errors
    /// See [`ScatterTree::new`].
    pub fn new(member: Member, root: u32, blocks: Blocks<'a>) -> Result<Self, CollectiveError> {
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
        let peer = self.member.after(index + 1);
        let from = Part::of(Which::Input, self.layout.range(peer));
        if index + 1 == members { copy(from, own) } else { send(peer, from) }
    }
}
