use super::member::Member;
use super::op::{Op, Part, Side, Which, combine, copy, recv, send};
use super::tree::Tree;
use super::{Needs, Schedule};
use crate::CollectiveError;

/// Reduce along a binomial tree: from all inputs to the root's output.
///
/// Operands keep rank order, independent of the root: `((x0 ⊕ x1) ⊕ (x2 ⊕ x3)) ⊕ (x4 ⊕ ...)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReduceTree {
    member: Member,
    tree: Tree,
    count: usize,
}

impl ReduceTree {
    /// Schedule of this member.
    ///
    /// # Errors
    /// [`CollectiveError::Root`], and [`CollectiveError::Size`] for twice `count`.
    pub fn new(member: Member, root: u32, count: usize) -> Result<Self, CollectiveError> {
        count.checked_mul(2).ok_or(CollectiveError::Size)?;
        Ok(ReduceTree { member, tree: Tree::new(member, member.root(root)?), count })
    }

    fn result(&self) -> Part {
        let (buffer, start) = match (self.tree.is_root(), self.tree.is_leaf()) {
            (true, _) => (Which::Output, 0),
            (_, true) => (Which::Input, 0),
            _ => (Which::Scratch, self.count),
        };
        Part::new(buffer, start, self.count)
    }
}

impl Schedule for ReduceTree {
    fn needs(&self) -> Needs {
        let (output, slots) = match (self.tree.is_root(), self.tree.is_leaf()) {
            (true, _) => (self.count, 1),
            (_, true) => (0, 0),
            _ => (0, 2),
        };
        Needs { input: self.count, output, scratch: self.count.saturating_mul(slots) }
    }

    fn rounds(&self) -> u32 {
        self.member.levels() + 1
    }

    fn width(&self, _: u32) -> u32 {
        2
    }

    fn op(&self, round: u32, index: u32) -> Option<Op> {
        let result = self.result();
        let Some(level) = round.checked_sub(1) else {
            let start = result.buffer != Which::Input && index == 0;
            return if start { copy(Part::new(Which::Input, 0, self.count), result) } else { None };
        };
        let edge = self.tree.edge(level)?;
        let got = Part::new(Which::Scratch, 0, self.count);
        match (index, edge.child) {
            (0, true) => send(edge.peer, result),
            (0, false) => recv(edge.peer, got),
            (1, false) => combine(got, result, if edge.left { Side::Left } else { Side::Right }),
            _ => None,
        }
    }
}
