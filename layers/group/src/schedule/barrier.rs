use super::member::Member;
use super::op::{Op, Part, Which};
use super::{Needs, Schedule};

/// Barrier by dissemination: in round `k`, each member sends an empty message to the member `2^k`
/// after it.
///
/// The last round completes only after every member has begun the first.
///
/// ```
/// use loom_group::schedule::{Barrier, Member, Op, Schedule};
///
/// // Member 4 of 5 sends to the members 1, 2 and 4 after it.
/// let barrier = Barrier::new(Member::new(4, 5)?);
/// let sends = (0..barrier.rounds()).flat_map(|round| barrier.ops(round)).filter_map(|op| match op {
///     Op::Send { peer, .. } => Some(peer),
///     _ => None,
/// });
/// assert_eq!(sends.collect::<Vec<_>>(), [0, 1, 3]);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Barrier {
    member: Member,
}

impl Barrier {
    /// Schedule of this member.
    pub const fn new(member: Member) -> Self {
        Barrier { member }
    }
}

impl Schedule for Barrier {
    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn rounds(&self) -> u32 {
        self.member.levels()
    }

    fn width(&self, _: u32) -> u32 {
        2
    }

    fn op(&self, round: u32, index: u32) -> Option<Op> {
        let distance = self.member.distance(round)?;
        let nothing = Part::new(Which::Scratch, 0, 0);
        match index {
            0 => Some(Op::Recv { peer: self.member.before(distance), into: nothing }),
            1 => Some(Op::Send { peer: self.member.after(distance), from: nothing }),
            _ => None,
        }
    }
}
