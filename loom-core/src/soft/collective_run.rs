//! What a collective operation does with the memory of all members, when each has called. One member does it for all, so that the result
//! is the same at every member, bit by bit: reductions go by rank.

#![allow(unsafe_code, reason = "copies and computes in memory that was lent with collective operations")]

use core::ptr;

use super::copy::Range;
use super::group::Args;
use crate::atomic::{Element, by_datatype};
use crate::vocabulary::{AtomicOp, CollectiveOp, Datatype, Errno};

/// The members' calls, by rank.
pub(super) trait Calls {
    fn size(&self) -> usize;
    fn args(&self, rank: usize) -> Args;
}

/// The part of a range that belongs to a rank.
const fn part(range: Range, rank: usize, bytes: usize) -> Range {
    (range.0.wrapping_add(rank * bytes), bytes)
}

/// # Safety
/// The first range is readable, the second writable, as far as the shorter reaches; they are the same, or do not overlap.
unsafe fn copy(from: Range, to: Range) {
    if from.0 != to.0 {
        // SAFETY: the caller's promise.
        unsafe { ptr::copy_nonoverlapping(from.0, to.0, from.1.min(to.1)) };
    }
}

/// Combines elements with those at another place, which get the results.
///
/// # Safety
/// Both ranges hold elements; the first is readable, and the second writable, too.
unsafe fn combine<E: Element>(from: Range, into: Range, op: AtomicOp) -> Result<(), Errno> {
    let (from, count) = (from.0.cast::<E::Word>(), into.1 / size_of::<E>());
    for at in 0..count {
        let place = into.0.cast::<E::Word>().wrapping_add(at);
        // SAFETY: the caller's promise.
        let operand = unsafe { from.wrapping_add(at).read_unaligned() };
        // SAFETY: as above.
        let value = E::from_word(unsafe { place.read_unaligned() });
        if let Some(result) = value.changed(op, E::from_word(operand), E::ZERO) {
            // SAFETY: as above.
            unsafe { place.write_unaligned(result.to_word()) };
        }
    }
    Ok(())
}

/// What reductions can compute of a type.
fn reduces<E: Element>(op: AtomicOp) -> Result<(), Errno> {
    let reduces = op <= AtomicOp::BXOR && E::admits(op);
    if reduces { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
}

/// Whether a reduction of such elements can compute that.
pub(super) fn can_reduce(datatype: Datatype, op: AtomicOp) -> Result<(), Errno> {
    by_datatype!(datatype, reduces(op))
}

/// Does the operation that all members have called. Nothing is touched if their calls differ.
///
/// # Safety
/// What is lent with the calls keeps to C30, is readable and writable, and is this thread's meanwhile.
pub(super) unsafe fn run(calls: &impl Calls) -> Result<(), Errno> {
    let (size, call) = (calls.size(), calls.args(0).operation);
    if (1..size).any(|rank| calls.args(rank).operation != call) {
        return Err(Errno::EINVAL);
    }
    let (collective, root) = (call.collective, call.root);
    let element = collective.datatype().size().unwrap_or(0);
    let bytes = call.count * element;
    let operands = |rank: usize| calls.args(rank).operands;
    let results = |rank: usize| calls.args(rank).results;
    // SAFETY: parts of what is lent, as long as C30 says. Ranges of different members do not overlap (C30), and neither do those of one, but
    // for a broadcast, where they may be the same.
    let copy = |from, to| unsafe { copy(from, to) };
    // Combines a part of what each member has, by rank, in a place of one of them.
    let reduce = |at: usize, into: Range| {
        copy(part(operands(0), at, bytes), into);
        for rank in 1..size {
            let from = part(operands(rank), at, bytes);
            // SAFETY: parts of what is lent, of the same number of elements (C30).
            unsafe { combine_by_type(collective.datatype(), from, into, collective.reduce_op()) }?;
        }
        Ok(())
    };
    match collective.op() {
        CollectiveOp::BARRIER => {}
        CollectiveOp::BROADCAST => (0..size).for_each(|rank| copy(operands(root), results(rank))),
        CollectiveOp::ALLTOALL => {
            for from in 0..size {
                (0..size).for_each(|to| copy(part(operands(from), to, bytes), part(results(to), from, bytes)));
            }
        }
        CollectiveOp::ALLREDUCE => {
            reduce(0, results(0))?;
            (1..size).for_each(|rank| copy(results(0), results(rank)));
        }
        CollectiveOp::REDUCE => reduce(0, results(root))?,
        CollectiveOp::REDUCE_SCATTER => (0..size).try_for_each(|rank| reduce(rank, results(rank)))?,
        CollectiveOp::ALLGATHER => {
            (0..size).for_each(|rank| copy(operands(rank), part(results(0), rank, bytes)));
            (1..size).for_each(|rank| copy(results(0), results(rank)));
        }
        CollectiveOp::GATHER => (0..size).for_each(|rank| copy(operands(rank), part(results(root), rank, bytes))),
        CollectiveOp::SCATTER => (0..size).for_each(|rank| copy(part(operands(root), rank, bytes), results(rank))),
        _ => return Err(Errno::EOPNOTSUPP),
    }
    Ok(())
}

/// # Safety
/// As [`combine`].
unsafe fn combine_by_type(datatype: Datatype, from: Range, into: Range, op: AtomicOp) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    unsafe { by_datatype!(datatype, combine(from, into, op)) }
}
