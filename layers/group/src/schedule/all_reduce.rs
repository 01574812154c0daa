use super::blocks::{Blocks, Layout};
use super::member::{Member, wide};
use super::op::{Op, Part, Side, Which, combine, copy, recv, send};
use super::{Needs, Schedule, ring};
use crate::CollectiveError;

/// All-reduce by recursive doubling, for short messages.
///
/// If `n` is not a power of two, the first `2 (n - 2^floor(log2 n))` members form pairs. The first
/// passes its elements to the second, and gets the result at the end.
///
/// All members get the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AllReduceDoubling {
    member: Member,
    count: usize,
}

impl AllReduceDoubling {
    /// Schedule of this member.
    pub const fn new(member: Member, count: usize) -> Self {
        AllReduceDoubling { member, count }
    }

    const fn doublings(&self) -> u32 {
        self.member.members().ilog2()
    }

    const fn pairs(&self) -> u32 {
        self.member.members() - (1 << self.doublings())
    }

    /// Other member of the pair, and `true` if it is the second.
    const fn pair(&self) -> Option<(u32, bool)> {
        let rank = self.member.rank();
        if rank >= 2 * self.pairs() {
            return None;
        }
        Some((rank ^ 1, rank & 1 == 0))
    }

    fn partner(&self, level: u32) -> Option<(u32, Side)> {
        if matches!(self.pair(), Some((_, true))) {
            return None;
        }
        // Numbers in rank order stand for neighboring ranks.
        let (rank, pairs) = (self.member.rank(), self.pairs());
        let number = if rank < 2 * pairs { rank / 2 } else { rank - pairs };
        let other = number ^ (1 << level);
        let peer = if other < pairs { 2 * other + 1 } else { other + pairs };
        Some((peer, if other < number { Side::Left } else { Side::Right }))
    }
}

impl Schedule for AllReduceDoubling {
    fn needs(&self) -> Needs {
        let receives = self.member.members() > 1 && !matches!(self.pair(), Some((_, true)));
        Needs { input: self.count, output: self.count, scratch: if receives { self.count } else { 0 } }
    }

    fn rounds(&self) -> u32 {
        1 + self.doublings() + if self.pairs() > 0 { 2 } else { 0 }
    }

    fn width(&self, _: u32) -> u32 {
        3
    }

    fn op(&self, round: u32, index: u32) -> Option<Op> {
        let [input, output, got] = [Which::Input, Which::Output, Which::Scratch].map(|w| Part::new(w, 0, self.count));
        let Some(step) = round.checked_sub(1) else {
            return if index == 0 { copy(input, output) } else { None };
        };
        // Doublings lie between the pairs' first and last round.
        let level = if self.pairs() == 0 { Some(step) } else { step.checked_sub(1) };
        match level {
            None => match (index, self.pair()?) {
                (0, (first, false)) => recv(first, got),
                (1, (second, true)) => send(second, output),
                (2, (_, false)) => combine(got, output, Side::Left),
                _ => None,
            },
            Some(level) if level < self.doublings() => {
                let (peer, side) = self.partner(level)?;
                match index {
                    0 => recv(peer, got),
                    1 => send(peer, output),
                    2 => combine(got, output, side),
                    _ => None,
                }
            }
            Some(level) if level == self.doublings() => match (index, self.pair()?) {
                (0, (second, true)) => recv(second, output),
                (1, (first, false)) => send(first, output),
                _ => None,
            },
            Some(_) => None,
        }
    }
}

/// All-reduce for long messages: a reduce-scatter in a ring, then an all-gather in a ring.
///
/// **The operation must be commutative.** Operands of block `b` are in ring order, from the member
/// after `b`: `((x(b+1) ⊕ x(b+2)) ⊕ ...) ⊕ x(b)`. All members get the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AllReduceRing {
    member: Member,
    layout: Layout<'static>,
    longest: usize,
}

impl AllReduceRing {
    /// Schedule of this member.
    ///
    /// # Errors
    /// [`CollectiveError::Size`]: `count`, plus twice the members, exceeds a `usize`.
    pub fn new(member: Member, count: usize) -> Result<Self, CollectiveError> {
        count.checked_add(wide(member.members()).saturating_mul(2)).ok_or(CollectiveError::Size)?;
        let layout = Layout::new(Blocks::Split(count), member)?;
        // Longer blocks come first.
        Ok(AllReduceRing { member, layout, longest: layout.len(0) })
    }

    /// Sum that this member receives in a reduce-scatter step. The last is its own.
    fn sum(&self, step: u32, block: u32) -> Part {
        if step.saturating_add(2) >= self.member.members() {
            return Part::of(Which::Output, self.layout.range(block));
        }
        let start = if step.is_multiple_of(2) { 0 } else { self.longest };
        Part::new(Which::Scratch, start, self.layout.len(block))
    }
}

impl Schedule for AllReduceRing {
    fn needs(&self) -> Needs {
        let slots = self.member.members().saturating_sub(2).min(2);
        let count = self.layout.end();
        Needs { input: count, output: count, scratch: self.longest.saturating_mul(wide(slots)) }
    }

    fn rounds(&self) -> u32 {
        (2 * (self.member.members() - 1)).max(1)
    }

    fn width(&self, _: u32) -> u32 {
        3
    }

    fn op(&self, round: u32, index: u32) -> Option<Op> {
        if round >= self.rounds() {
            return None;
        }
        let input = |block: u32| Part::of(Which::Input, self.layout.range(block));
        let steps = self.member.members() - 1;
        if steps == 0 {
            return if index == 0 { copy(input(0), Part::of(Which::Output, self.layout.range(0))) } else { None };
        }
        if let Some(step) = round.checked_sub(steps) {
            return ring::all_gather(self.member, &self.layout, step, index);
        }
        let (sent, got) = (self.member.before(round + 1), self.member.before(round + 2));
        match index {
            0 => recv(self.member.before(1), self.sum(round, got)),
            1 => send(self.member.after(1), round.checked_sub(1).map_or(input(sent), |last| self.sum(last, sent))),
            2 => combine(input(got), self.sum(round, got), Side::Right),
            _ => None,
        }
    }
}
