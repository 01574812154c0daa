//! Reduces by rank, so that results are identical bit by bit.

#![allow(unsafe_code, reason = "copies and computes in memory that was lent with collective operations")]

use core::ptr;

use crate::atomic::{Element, by_datatype};
use crate::soft::network::group::Args;
use crate::soft::shared::copy::Range;
use crate::vocabulary::{AtomicOp, CollectiveOp, Datatype, Errno};

pub(crate) trait Calls {
    fn size(&self) -> usize;
    fn args(&self, rank: usize) -> Args;
}

const fn part(range: Range, rank: usize, bytes: usize) -> Range {
    (range.0.wrapping_add(rank * bytes), bytes)
}

/// # Safety
/// `from` is readable and `to` writable, up to the shorter length. They are equal or do not
/// overlap.
unsafe fn copy(from: Range, to: Range) {
    if from.0 != to.0 {
        // SAFETY: the caller guarantees both ranges, and different ones do not overlap.
        unsafe { ptr::copy_nonoverlapping(from.0, to.0, from.1.min(to.1)) };
    }
}

/// # Safety
/// Both ranges hold readable elements, and `into` is writable.
unsafe fn combine<E: Element>(from: Range, into: Range, op: AtomicOp) -> Result<(), Errno> {
    let (from, count) = (from.0.cast::<E::Word>(), into.1 / size_of::<E>());
    for at in 0..count {
        let place = into.0.cast::<E::Word>().wrapping_add(at);
        // SAFETY: the caller guarantees readable elements.
        let operand = unsafe { from.wrapping_add(at).read_unaligned() };
        // SAFETY: the caller guarantees readable elements.
        let value = E::from_word(unsafe { place.read_unaligned() });
        if let Some(result) = value.changed(op, E::from_word(operand), E::ZERO) {
            // SAFETY: the caller guarantees writable elements.
            unsafe { place.write_unaligned(result.to_word()) };
        }
    }
    Ok(())
}

/// If their calls differ, no memory is touched.
///
/// # Safety
/// The lent memory satisfies K2, is readable and writable, and is this thread's meanwhile.
pub(crate) unsafe fn run(calls: &impl Calls) -> Result<(), Errno> {
    let (size, call) = (calls.size(), calls.args(0).operation);
    if (1..size).any(|rank| calls.args(rank).operation != call) {
        return Err(Errno::EINVAL);
    }
    let (collective, root) = (call.collective, call.root);
    let element = collective.datatype().size().unwrap_or(0);
    let bytes = call.count * element;
    let operands = |rank: usize| calls.args(rank).operands;
    let results = |rank: usize| calls.args(rank).results;
    // SAFETY: parts of lent memory of the length in K2. Ranges do not overlap (K2), except those
    // of one member in a broadcast, which may be equal.
    let copy = |from, to| unsafe { copy(from, to) };
    let reduce = |at: usize, into: Range| {
        copy(part(operands(0), at, bytes), into);
        for rank in 1..size {
            let from = part(operands(rank), at, bytes);
            // SAFETY: parts of lent memory with equal numbers of elements (K2).
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
/// The requirements of [`combine`].
unsafe fn combine_by_type(datatype: Datatype, from: Range, into: Range, op: AtomicOp) -> Result<(), Errno> {
    // SAFETY: the caller guarantees both ranges.
    unsafe { by_datatype!(datatype, combine(from, into, op)) }
}
