use super::member::Member;
use super::op::{Op, Part, Side, Which, combine, copy, recv, send};
use super::{Needs, Schedule};

/// Inclusive scan by recursive doubling (Hillis and Steele): member `r` gets `x0 ⊕ x1 ⊕ ... ⊕ xr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scan {
    member: Member,
    count: usize,
}

impl Scan {
    /// Schedule of this member.
    pub const fn new(member: Member, count: usize) -> Self {
        Scan { member, count }
    }
}

impl Schedule for Scan {
    fn needs(&self) -> Needs {
        Needs { input: self.count, output: self.count, scratch: if self.member.rank() > 0 { self.count } else { 0 } }
    }

    fn rounds(&self) -> u32 {
        self.member.levels() + 1
    }

    fn width(&self, _: u32) -> u32 {
        3
    }

    fn op(&self, round: u32, index: u32) -> Option<Op> {
        let [input, output, got] = [Which::Input, Which::Output, Which::Scratch].map(|w| Part::new(w, 0, self.count));
        let Some(level) = round.checked_sub(1) else {
            return if index == 0 { copy(input, output) } else { None };
        };
        let distance = self.member.distance(level)?;
        let before = self.member.rank().checked_sub(distance);
        let after = self.member.rank() + distance;
        match index {
            0 => recv(before?, got),
            1 if after < self.member.members() => send(after, output),
            2 if before.is_some() => combine(got, output, Side::Left),
            _ => None,
        }
    }
}
