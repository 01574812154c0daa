use super::blocks::Layout;
use super::member::Member;
use super::op::{Op, Part, Which, recv, send};

/// Operations of step `step` of `n - 1`: receive at index 0, send at 1. Each member starts with its
/// block in the output, and passes on the block of the preceding step.
pub(super) fn all_gather(member: Member, layout: &Layout<'_>, step: u32, index: u32) -> Option<Op> {
    let block = |before: u32| Part::of(Which::Output, layout.range(member.before(before)));
    match index {
        0 => recv(member.before(1), block(step.saturating_add(1))),
        1 => send(member.after(1), block(step)),
        _ => None,
    }
}
