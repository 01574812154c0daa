use super::blocks::{Blocks, Layout};
use super::member::Member;
use super::op::{Op, Part, Side, Which, combine, copy, recv, send};
use super::{Needs, Schedule};
use crate::CollectiveError;

/// Reduce-scatter by pairwise exchange: from the input, one block for each member, to the output of
/// one block. Blocks can differ in length.
///
/// In step `i`, each member sends a block to the member `i` after it, and receives its own from the
/// one `i` before.
///
/// Operands keep rank order: member `r` combines
/// `(x0 ⊕ (x1 ⊕ ... (x(r-1) ⊕ xr))) ⊕ (x(r+1) ⊕ ... (x(n-2) ⊕ x(n-1)))`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReduceScatter<'a> {
    member: Member,
    layout: Layout<'a>,
}

impl<'a> ReduceScatter<'a> {
    /// Schedule of this member.
    ///
    /// # Errors
    /// [`CollectiveError::Bounds`], and [`CollectiveError::Size`] also for two blocks of this member.
    pub fn new(member: Member, blocks: Blocks<'a>) -> Result<Self, CollectiveError> {
        let layout = Layout::new(blocks, member)?;
        layout.len(member.rank()).checked_mul(2).ok_or(CollectiveError::Size)?;
        Ok(ReduceScatter { member, layout })
    }
}

impl Schedule for ReduceScatter<'_> {
    fn needs(&self) -> Needs {
        let own = self.layout.len(self.member.rank());
        let slots = if self.member.members() == 1 { 0 } else { 2 };
        Needs { input: self.layout.end(), output: own, scratch: own.saturating_mul(slots) }
    }

    fn rounds(&self) -> u32 {
        self.member.members()
    }

    fn width(&self, _: u32) -> u32 {
        4
    }

    fn op(&self, round: u32, index: u32) -> Option<Op> {
        let (rank, members) = (self.member.rank(), self.member.members());
        if round >= members {
            return None;
        }
        let own = self.layout.len(rank);
        let input = |block: u32| Part::of(Which::Input, self.layout.range(block));
        let output = Part::new(Which::Output, 0, own);
        if round == 0 {
            return if index == 0 { copy(input(rank), output) } else { None };
        }
        let (to, from) = (self.member.after(round), self.member.before(round));
        let got = Part::new(Which::Scratch, 0, own);
        // Members after this one have a separate sum, from the last to the first.
        let second = Part::new(Which::Scratch, own, own);
        match index {
            0 if from + 1 == members => recv(from, second),
            0 => recv(from, got),
            1 => send(to, input(to)),
            2 if from < rank => combine(got, output, Side::Left),
            2 if from + 1 < members => combine(got, second, Side::Left),
            3 if from > rank && round + 1 == members => combine(second, output, Side::Right),
            _ => None,
        }
    }
}
