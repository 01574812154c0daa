use super::blocks::{Blocks, Layout};
use super::member::{Member, wide};
use super::op::{Op, Part, Which, copy, recv, send};
use super::{Needs, Schedule};
use crate::CollectiveError;

/// All-to-all by Bruck's algorithm, for short blocks of equal length: input and output have a block
/// for each member.
///
/// Block `j` of the scratch travels to the member `j` after its sender. In round `k`, the blocks
/// with bit `k` in `j` move `2^k` members, in one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AllToAllBruck {
    member: Member,
    layout: Layout<'static>,
    count: usize,
}

impl AllToAllBruck {
    /// Schedule of this member.
    ///
    /// # Errors
    /// [`CollectiveError::Size`].
    pub fn new(member: Member, count: usize) -> Result<Self, CollectiveError> {
        Ok(AllToAllBruck { member, layout: Layout::new(Blocks::Equal(count), member)?, count })
    }

    /// Count of such numbers below the number of members.
    fn moving(&self, level: u32) -> u32 {
        let Some(bit) = self.member.distance(level) else { return 0 };
        let members = self.member.members();
        (members >> level >> 1 << level) + (members & (2 * bit - 1)).saturating_sub(bit)
    }

    /// Such a number at this index.
    fn numbered(&self, level: u32, index: u32) -> Option<u32> {
        let bit = self.member.distance(level)?;
        (index < self.moving(level)).then_some((index >> level << level << 1) | bit | (index & (bit - 1)))
    }

    fn part(&self, buffer: Which, block: u32, blocks: u32) -> Part {
        Part::new(buffer, self.layout.start(block), self.count.saturating_mul(wide(blocks)))
    }

    /// At most half of the blocks travel.
    const fn arrivals(&self) -> u32 {
        self.member.members() / 2
    }
}

impl Schedule for AllToAllBruck {
    fn needs(&self) -> Needs {
        let all = self.layout.end();
        Needs { input: all, output: all, scratch: all }
    }

    fn rounds(&self) -> u32 {
        self.member.levels() + 1
    }

    fn width(&self, round: u32) -> u32 {
        let next = if round < self.member.levels() { self.moving(round) } else { self.member.members() };
        2 + round.checked_sub(1).map_or(0, |level| self.moving(level)) + next
    }

    fn op(&self, round: u32, index: u32) -> Option<Op> {
        let (rank, members) = (self.member.rank(), self.member.members());
        if round >= self.rounds() {
            return None;
        }
        // Local operations after the messages. The last ones prepare the next round.
        let mut local = match (index, round.checked_sub(1)) {
            (0, None) => {
                return copy(
                    self.part(Which::Input, rank, members - rank),
                    self.part(Which::Scratch, 0, members - rank),
                );
            }
            (1, None) => {
                return copy(self.part(Which::Input, 0, rank), self.part(Which::Scratch, members - rank, rank));
            }
            (0, Some(level)) => {
                let into = self.part(Which::Output, self.arrivals(), self.moving(level));
                return recv(self.member.before(self.member.distance(level)?), into);
            }
            (1, Some(level)) => {
                let from = self.part(Which::Output, 0, self.moving(level));
                return send(self.member.after(self.member.distance(level)?), from);
            }
            _ => index - 2,
        };
        if let Some(level) = round.checked_sub(1) {
            if let Some(block) = self.numbered(level, local) {
                return copy(self.part(Which::Output, self.arrivals() + local, 1), self.part(Which::Scratch, block, 1));
            }
            local -= self.moving(level);
        }
        if let Some(block) = self.numbered(round, local) {
            return copy(self.part(Which::Scratch, block, 1), self.part(Which::Output, local, 1));
        }
        if round < self.member.levels() || local >= members {
            return None;
        }
        copy(self.part(Which::Scratch, local, 1), self.part(Which::Output, self.member.before(local), 1))
    }
}

/// All-to-all by pairwise exchange, for long blocks: input and output have a block for each member,
/// of any length.
///
/// In step `i`, each member sends to the member `i` after it, and receives from the one `i` before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AllToAllPairwise<'a> {
    member: Member,
    sent: Layout<'a>,
    received: Layout<'a>,
}

impl<'a> AllToAllPairwise<'a> {
    /// Schedule of this member. A block is as long at the sender as at the receiver.
    ///
    /// # Errors
    /// [`CollectiveError::Size`], and [`CollectiveError::Bounds`] also if this member's blocks for
    /// itself differ in length.
    pub fn new(member: Member, sent: Blocks<'a>, received: Blocks<'a>) -> Result<Self, CollectiveError> {
        let (sent, received) = (Layout::new(sent, member)?, Layout::new(received, member)?);
        if sent.len(member.rank()) != received.len(member.rank()) {
            return Err(CollectiveError::Bounds);
        }
        Ok(AllToAllPairwise { member, sent, received })
    }
}

impl Schedule for AllToAllPairwise<'_> {
    fn needs(&self) -> Needs {
        Needs { input: self.sent.end(), output: self.received.end(), scratch: 0 }
    }

    fn rounds(&self) -> u32 {
        self.member.members()
    }

    fn width(&self, _: u32) -> u32 {
        2
    }

    fn op(&self, round: u32, index: u32) -> Option<Op> {
        if round >= self.rounds() {
            return None;
        }
        let (to, from) = (self.member.after(round), self.member.before(round));
        let (input, output) =
            (Part::of(Which::Input, self.sent.range(to)), Part::of(Which::Output, self.received.range(from)));
        match (index, round) {
            (0, 0) => copy(input, output),
            (0, _) => recv(from, output),
            (1, 1..) => send(to, input),
            _ => None,
        }
    }
}
