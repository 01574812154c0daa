//! Atomic operations, by the rules of [`message`](super::message), and `fi_query_atomic`.

#![allow(unsafe_code, reason = "calls libfabric, and implements the unsafe trait `Atomics`")]

use core::ffi::c_void;
use core::ptr;

use loom_core::atomic::{Atomic, Form};
use loom_core::buffer::{IoVecs, Lent};
use loom_core::transport::{AtomicAttr, AtomicRanges, Atomics, Context, Msg, Refusal, RemotePart, RmaTarget};
use loom_core::vocabulary::{AtomicOp, Errno};

use super::Endpoint;
use super::iov::flags_and_data;
use crate::ofi::fabric::Domain;
use crate::ofi::ffi::call::{Memory, done, entry, later_entry, posted};
use crate::ofi::sys;
use crate::ofi::threading::Level;
use crate::ofi::transport::Ofi;

#[inline]
fn size(atomic: Atomic) -> Result<usize, Refusal> {
    atomic.datatype.size().ok_or(Refusal::Errno(Errno::EOPNOTSUPP))
}

struct Ioc {
    pieces: [sys::fi_ioc; IoVecs::MOST],
    descriptors: [*mut c_void; IoVecs::MOST],
    count: usize,
}

impl Ioc {
    fn of(lent: &[Lent], size: usize) -> Result<Self, Refusal> {
        let nothing = sys::fi_ioc { addr: ptr::null_mut(), count: 0 };
        let mut ioc = Ioc { pieces: [nothing; _], descriptors: [ptr::null_mut(); _], count: lent.len() };
        if ioc.count > IoVecs::MOST {
            return Err(Refusal::Errno(Errno::EINVAL));
        }
        for ((lent, piece), descriptor) in lent.iter().zip(&mut ioc.pieces).zip(&mut ioc.descriptors) {
            let memory = Memory::new(lent);
            *piece = sys::fi_ioc { addr: memory.start, count: memory.len / size };
            *descriptor = memory.descriptor;
        }
        Ok(ioc)
    }
}

fn remote_ioc(remote: &[RemotePart], size: usize) -> Result<[sys::fi_rma_ioc; IoVecs::MOST], Refusal> {
    let mut parts = [sys::fi_rma_ioc { addr: 0, count: 0, key: 0 }; IoVecs::MOST];
    if remote.len() > parts.len() {
        return Err(Refusal::Errno(Errno::EINVAL));
    }
    for (part, given) in parts.iter_mut().zip(remote) {
        *part = sys::fi_rma_ioc { addr: given.addr.0, count: given.len / size, key: given.key.0 };
    }
    Ok(parts)
}

// SAFETY: see `Transport`.
unsafe impl<L: Level> Atomics for Ofi<L> {
    unsafe fn query_atomic(domain: &Domain<L>, atomic: Atomic) -> Result<AtomicAttr, Errno> {
        if atomic.op == AtomicOp::READ && !domain.reads_atomically() {
            return Err(Errno::EOPNOTSUPP);
        }
        let raw = domain.raw();
        let query = later_entry!(raw, ops: sys::fi_ops_domain => query_atomic)?;
        let flags = match atomic.form {
            Form::Base => 0,
            Form::Fetch => sys::FI_FETCH_ATOMIC,
            Form::Compare => sys::FI_COMPARE_ATOMIC,
        };
        let mut attr = sys::fi_atomic_attr { count: 0, size: 0 };
        // SAFETY: open (H1), and the attributes are written in the call.
        done(unsafe { query(raw.as_ptr(), atomic.datatype.as_raw(), atomic.op.as_raw(), &raw mut attr, flags) })?;
        Ok(AtomicAttr { count: attr.count, size: attr.size })
    }

    #[inline]
    unsafe fn atomic(
        endpoint: &Endpoint<L>,
        to: RmaTarget,
        operands: &Lent,
        atomic: Atomic,
        context: Context,
    ) -> Result<(), Refusal> {
        let (raw, size, Memory { start, len, descriptor }) = (endpoint.raw(), size(atomic)?, Memory::new(operands));
        let write = entry!(raw, atomic => write)?;
        let (datatype, op, context) = (atomic.datatype.as_raw(), atomic.op.as_raw(), context.as_ptr().cast());
        let (raw, count) = (raw.as_ptr(), len / size);
        // SAFETY: H1, T1, L1–L4, O1–O4.
        posted(unsafe { write(raw, start, count, descriptor, to.to.0, to.addr.0, to.key.0, datatype, op, context) })
    }

    #[inline]
    unsafe fn inject_atomic(
        endpoint: &Endpoint<L>,
        to: RmaTarget,
        operands: &[u8],
        atomic: Atomic,
    ) -> Result<(), Refusal> {
        let (raw, size) = (endpoint.raw(), size(atomic)?);
        let inject = entry!(raw, atomic => inject)?;
        let (start, count) = (operands.as_ptr().cast(), operands.len() / size);
        let (datatype, op) = (atomic.datatype.as_raw(), atomic.op.as_raw());
        // SAFETY: H1, T1, L1–L4, O1–O4.
        posted(unsafe { inject(raw.as_ptr(), start, count, to.to.0, to.addr.0, to.key.0, datatype, op) })
    }

    #[inline]
    unsafe fn fetch_atomic(
        endpoint: &Endpoint<L>,
        to: RmaTarget,
        operands: &Lent,
        results: &Lent,
        atomic: Atomic,
        context: Context,
    ) -> Result<(), Refusal> {
        let (raw, size) = (endpoint.raw(), size(atomic)?);
        let (mut operands, results) = (Memory::new(operands), Memory::new(results));
        if atomic.op == AtomicOp::READ {
            operands.start = ptr::null_mut();
        }
        let fetch = entry!(raw, atomic => readwrite)?;
        // SAFETY: H1, T1, L1–L4, O1–O4. libfabric ignores the operands of a read.
        posted(unsafe {
            fetch(
                raw.as_ptr(),
                operands.start,
                results.len / size,
                operands.descriptor,
                results.start,
                results.descriptor,
                to.to.0,
                to.addr.0,
                to.key.0,
                atomic.datatype.as_raw(),
                atomic.op.as_raw(),
                context.as_ptr().cast(),
            )
        })
    }

    #[inline]
    unsafe fn compare_atomic(
        endpoint: &Endpoint<L>,
        to: RmaTarget,
        ranges: [&Lent; 3],
        atomic: Atomic,
        context: Context,
    ) -> Result<(), Refusal> {
        let (raw, size) = (endpoint.raw(), size(atomic)?);
        let [operands, compare, results] = ranges.map(Memory::new);
        let compare_and_swap = entry!(raw, atomic => compwrite)?;
        // SAFETY: H1, T1, L1–L4, O1–O4.
        posted(unsafe {
            compare_and_swap(
                raw.as_ptr(),
                operands.start,
                results.len / size,
                operands.descriptor,
                compare.start,
                compare.descriptor,
                results.start,
                results.descriptor,
                to.to.0,
                to.addr.0,
                to.key.0,
                atomic.datatype.as_raw(),
                atomic.op.as_raw(),
                context.as_ptr().cast(),
            )
        })
    }

    unsafe fn atomicmsg(
        endpoint: &Endpoint<L>,
        msg: &Msg<'_>,
        ranges: AtomicRanges<'_>,
        remote: &[RemotePart],
        atomic: Atomic,
    ) -> Result<(), Refusal> {
        let (raw, size, (flags, data)) = (endpoint.raw(), size(atomic)?, flags_and_data(endpoint, msg));
        let parts = remote_ioc(remote, size)?;
        // libfabric ignores the operands of a read, but some providers count them.
        let operands = if atomic.op == AtomicOp::READ { ranges.results } else { msg.pieces };
        let (mut operands, mut compare, mut results) =
            (Ioc::of(operands, size)?, Ioc::of(ranges.compare, size)?, Ioc::of(ranges.results, size)?);
        let message = sys::fi_msg_atomic {
            msg_iov: operands.pieces.as_ptr(),
            desc: operands.descriptors.as_mut_ptr(),
            iov_count: operands.count,
            addr: msg.address.0,
            rma_iov: parts.as_ptr(),
            rma_iov_count: remote.len(),
            datatype: atomic.datatype.as_raw(),
            op: atomic.op.as_raw(),
            context: msg.context.as_ptr().cast(),
            data,
        };
        let (raw_ep, message) = (raw.as_ptr(), &raw const message);
        let (result_ioc, result_descriptors) = (results.pieces.as_mut_ptr(), results.descriptors.as_mut_ptr());
        match atomic.form {
            Form::Base => {
                let write = entry!(raw, atomic => writemsg)?;
                // SAFETY: H1, T1, L1–L4, O1–O4.
                posted(unsafe { write(raw_ep, message, flags) })
            }
            Form::Fetch => {
                let fetch = entry!(raw, atomic => readwritemsg)?;
                // SAFETY: H1, T1, L1–L4, O1–O4.
                posted(unsafe { fetch(raw_ep, message, result_ioc, result_descriptors, results.count, flags) })
            }
            Form::Compare => {
                let compare_and_swap = entry!(raw, atomic => compwritemsg)?;
                let (ioc, descriptors) = (compare.pieces.as_mut_ptr(), compare.descriptors.as_mut_ptr());
                let (compared, results) = (compare.count, results.count);
                // SAFETY: H1, T1, L1–L4, O1–O4.
                posted(unsafe {
                    compare_and_swap(
                        raw_ep,
                        message,
                        ioc,
                        descriptors,
                        compared,
                        result_ioc,
                        result_descriptors,
                        results,
                        flags,
                    )
                })
            }
        }
    }
}
