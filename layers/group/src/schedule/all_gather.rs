use super::blocks::{Blocks, Layout};
use super::member::Member;
use super::op::{Op, Part, Which, copy, recv, send};
use super::{Needs, Schedule, ring};
use crate::CollectiveError;

/// All-gather by Bruck's algorithm, for short blocks: from all inputs to all outputs.
///
/// Each member collects blocks in ring order from its own, in rounds of 1, 2, 4, ... blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AllGatherBruck<'a> {
    member: Member,
    layout: Layout<'a>,
}

impl<'a> AllGatherBruck<'a> {
    /// Schedule of this member.
    ///
    /// # Errors
    /// [`CollectiveError::Bounds`], [`CollectiveError::Size`].
    pub fn new(member: Member, blocks: Blocks<'a>) -> Result<Self, CollectiveError> {
        Ok(AllGatherBruck { member, layout: Layout::new(blocks, member)? })
    }

    fn first(&self, blocks: u32) -> usize {
        let (rank, room) = (self.member.rank(), self.member.members() - self.member.rank());
        let ahead = self.layout.span(rank..rank.saturating_add(blocks.min(room))).len();
        ahead.saturating_add(self.layout.span(0..blocks.saturating_sub(room)).len())
    }
}

impl Schedule for AllGatherBruck<'_> {
    fn needs(&self) -> Needs {
        Needs { input: self.layout.len(self.member.rank()), output: self.layout.end(), scratch: self.layout.total() }
    }

    fn rounds(&self) -> u32 {
        self.member.levels() + 2
    }

    fn width(&self, _: u32) -> u32 {
        2
    }

    fn op(&self, round: u32, index: u32) -> Option<Op> {
        let (rank, members) = (self.member.rank(), self.member.members());
        let kept =
            |blocks: core::ops::Range<u32>| Part::of(Which::Scratch, self.first(blocks.start)..self.first(blocks.end));
        let output = |ranks: core::ops::Range<u32>| Part::of(Which::Output, self.layout.span(ranks));
        let Some(level) = round.checked_sub(1) else {
            let input = Part::new(Which::Input, 0, self.layout.len(rank));
            return if index == 0 { copy(input, kept(0..1)) } else { None };
        };
        let Some(distance) = self.member.distance(level) else {
            let ahead = members - rank;
            return match index {
                _ if level > self.member.levels() => None,
                0 => copy(kept(0..ahead), output(rank..members)),
                1 => copy(kept(ahead..members), output(0..rank)),
                _ => None,
            };
        };
        let blocks = distance.min(members - distance);
        match index {
            0 => recv(self.member.after(distance), kept(distance..distance + blocks)),
            1 => send(self.member.before(distance), kept(0..blocks)),
            _ => None,
        }
    }
}

/// All-gather in a ring, for long blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AllGatherRing<'a> {
    member: Member,
    layout: Layout<'a>,
}

impl<'a> AllGatherRing<'a> {
    /// Schedule of this member.
    ///
    /// # Errors
    /// See [`AllGatherBruck::new`].
    pub fn new(member: Member, blocks: Blocks<'a>) -> Result<Self, CollectiveError> {
        Ok(AllGatherRing { member, layout: Layout::new(blocks, member)? })
    }
}

impl Schedule for AllGatherRing<'_> {
    fn needs(&self) -> Needs {
        Needs { input: self.layout.len(self.member.rank()), output: self.layout.end(), scratch: 0 }
    }

    fn rounds(&self) -> u32 {
        self.member.members()
    }

    fn width(&self, _: u32) -> u32 {
        2
    }

    fn op(&self, round: u32, index: u32) -> Option<Op> {
        let rank = self.member.rank();
        match round.checked_sub(1) {
            _ if round >= self.rounds() => None,
            Some(step) => ring::all_gather(self.member, &self.layout, step, index),
            None if index > 0 => None,
            None => copy(
                Part::new(Which::Input, 0, self.layout.len(rank)),
                Part::of(Which::Output, self.layout.range(rank)),
            ),
        }
    }
}
