use super::blocks::{Blocks, Layout};
use super::member::Member;
use super::op::{Op, Part, Which, recv, send};
use super::tree::Tree;
use super::{Needs, Schedule, ring};
use crate::CollectiveError;

/// Broadcast along a binomial tree, for short messages: from the root's output to the others,
/// without input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BroadcastTree {
    member: Member,
    tree: Tree,
    count: usize,
}

impl BroadcastTree {
    /// Schedule of this member.
    ///
    /// # Errors
    /// [`CollectiveError::Root`].
    pub fn new(member: Member, root: u32, count: usize) -> Result<Self, CollectiveError> {
        Ok(BroadcastTree { member, tree: Tree::new(member, member.root(root)?), count })
    }
}

impl Schedule for BroadcastTree {
    fn needs(&self) -> Needs {
        Needs { output: self.count, ..Needs::default() }
    }

    fn rounds(&self) -> u32 {
        self.member.levels()
    }

    fn width(&self, _: u32) -> u32 {
        1
    }

    fn op(&self, round: u32, index: u32) -> Option<Op> {
        let edge = self.tree.edge(self.rounds().checked_sub(round)?.checked_sub(1)?)?;
        let all = Part::new(Which::Output, 0, self.count);
        match (index, edge.child) {
            (0, true) => recv(edge.peer, all),
            (0, false) => send(edge.peer, all),
            _ => None,
        }
    }
}

/// Broadcast for long messages, from the root's output to the others: the root scatters blocks
/// along a binomial tree, and an all-gather in a ring without it distributes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BroadcastRing {
    member: Member,
    root: u32,
    tree: Tree,
    layout: Layout<'static>,
}

impl BroadcastRing {
    /// Schedule of this member.
    ///
    /// # Errors
    /// [`CollectiveError::Root`].
    pub fn new(member: Member, root: u32, count: usize) -> Result<Self, CollectiveError> {
        let layout = Layout::new(Blocks::Split(count), member)?;
        Ok(BroadcastRing { member, root: member.root(root)?, tree: Tree::new(member, root), layout })
    }
}

impl Schedule for BroadcastRing {
    fn needs(&self) -> Needs {
        Needs { output: self.layout.end(), ..Needs::default() }
    }

    fn rounds(&self) -> u32 {
        self.member.levels() + (self.member.members() - 1)
    }

    fn width(&self, _: u32) -> u32 {
        2
    }

    fn op(&self, round: u32, index: u32) -> Option<Op> {
        if round >= self.rounds() {
            return None;
        }
        if let Some(step) = round.checked_sub(self.member.levels()) {
            return match ring::all_gather(self.member, &self.layout, step, index) {
                Some(Op::Recv { .. }) if self.tree.is_root() => None,
                Some(Op::Send { peer, .. }) if peer == self.root => None,
                op => op,
            };
        }
        let edge = self.tree.edge(self.member.levels().checked_sub(round)?.checked_sub(1)?)?;
        match (index, edge.child) {
            (0, true) => recv(edge.peer, Part::of(Which::Output, self.layout.span(edge.own))),
            (0, false) => send(edge.peer, Part::of(Which::Output, self.layout.span(edge.other))),
            _ => None,
        }
    }
}
