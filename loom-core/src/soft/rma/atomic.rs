//! Atomic operations: the poster's processor changes the peer's elements.
//!
//! Operations complete in their post, even if a plan delays writes.

#![allow(
    unsafe_code,
    reason = "changes memory of regions, and reads and writes what was lent; implements the unsafe trait `Atomics`"
)]

use heapless::Vec;

use super::end_rma;
use crate::atomic::{Atomic, Compute, Element, Form, Word, by_datatype};
use crate::buffer::Lent;
use crate::soft::delivery::send::lose;
use crate::soft::handles::SoftEndpoint;
use crate::soft::mr::{Counts, open_range};
use crate::soft::network::Net;
use crate::soft::network::endpoint_state::{Report, begin_context};
use crate::soft::shared::copy::{LIMIT, Range};
use crate::soft::transport::Soft;
use crate::transport::{AtomicAttr, AtomicRanges, Atomics, Context, Msg, Refusal, RemotePart, RmaTarget};
use crate::vocabulary::{Access, AtomicOp, CompletionFlags, Errno};

fn granted<E: Element>(Atomic { form, op, .. }: Atomic) -> Result<AtomicAttr, Errno> {
    let compares = op >= AtomicOp::CSWAP;
    let has = E::admits(op)
        && match form {
            Form::Base => !compares && op != AtomicOp::READ,
            Form::Fetch => !compares,
            Form::Compare => compares,
        };
    if !has || !<E as Compute>::Word::is_atomic() {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(AtomicAttr { count: isize::MAX.unsigned_abs() / size_of::<E>(), size: size_of::<E>() })
}

fn access(Atomic { form, datatype, op }: Atomic) -> Access {
    match (form, op) {
        (Form::Base, _) => Access::REMOTE_WRITE,
        (Form::Fetch, AtomicOp::READ) if datatype.size() < Some(16) => Access::REMOTE_READ,
        _ => Access::REMOTE_READ | Access::REMOTE_WRITE,
    }
}

#[derive(Clone, Copy)]
struct Elements<'r> {
    here: Range,
    rest: &'r [Range],
}

impl<'r> Elements<'r> {
    const NONE: Elements<'static> = Elements { here: crate::soft::shared::copy::NOTHING, rest: &[] };

    #[inline]
    const fn one(here: Range) -> Self {
        Elements { here, rest: &[] }
    }

    #[inline]
    fn of(ranges: &'r [Range]) -> Self {
        match ranges {
            [] => Elements::NONE,
            [here, rest @ ..] => Elements { here: *here, rest },
        }
    }

    #[inline]
    fn next(&mut self, size: usize) -> Option<*mut u8> {
        while self.here.1 < size {
            let (next, rest) = self.rest.split_first()?;
            (self.here, self.rest) = (*next, rest);
        }
        let at = self.here.0;
        self.here = crate::soft::shared::copy::advanced(self.here, size);
        Some(at)
    }
}

#[derive(Clone, Copy)]
struct Local<'r> {
    operands: Elements<'r>,
    compare: Elements<'r>,
    results: Elements<'r>,
}

/// # Safety
/// `place` has `len` bytes of exposed memory, writable unless the operation only reads. The local
/// ranges are valid.
#[inline(always)]
unsafe fn change<E: Element>(place: *mut u8, len: usize, op: AtomicOp, local: &mut Local<'_>) -> Result<(), Errno> {
    /// # Safety
    /// `at` points to an element, if any.
    #[inline]
    unsafe fn read<E: Element>(at: Option<*mut u8>) -> E {
        let word = match at {
            // SAFETY: the caller guarantees an element at `at`.
            Some(at) => unsafe { at.cast::<E::Word>().read_unaligned() },
            None => E::Word::ZERO,
        };
        E::from_word(word)
    }

    let size = size_of::<E>();
    if !place.addr().is_multiple_of(size) {
        return Err(Errno::EINVAL);
    }
    for at in (0..len).step_by(size) {
        // SAFETY: the caller guarantees valid operands.
        let operand = unsafe { read::<E>(local.operands.next(size)) };
        // SAFETY: the caller guarantees valid elements to compare.
        let compare = unsafe { read::<E>(local.compare.next(size)) };
        // SAFETY: the element is aligned, checked above, and within `len`. The processor supports
        // the operation (O4).
        let old = unsafe { E::change_at(place.wrapping_add(at), op, operand, compare) };
        if let Some(result) = local.results.next(size) {
            // SAFETY: the caller guarantees writable results.
            unsafe { result.cast::<E::Word>().write_unaligned(old.to_word()) };
        }
    }
    Ok(())
}

/// # Safety
/// The local ranges are valid during the call: for reads, and for writes of the results.
#[inline(always)]
unsafe fn perform(
    net: &Net,
    to: RmaTarget,
    len: usize,
    local: &mut Local<'_>,
    atomic: Atomic,
    counts: Counts,
) -> Result<(), Errno> {
    let range = open_range(net, &to, len, access(atomic))?;
    // SAFETY: the region is held open, permits the access and contains the range. The caller
    // guarantees the local ranges.
    unsafe { by_datatype!(atomic.datatype, change(range.place, len, atomic.op, local)) }?;
    range.count(counts, to.to);
    Ok(())
}

const fn flags(form: Form) -> CompletionFlags {
    CompletionFlags::ATOMIC.union(match form {
        Form::Base => CompletionFlags::WRITE,
        Form::Fetch | Form::Compare => CompletionFlags::READ,
    })
}

const fn counts(Atomic { form, op, .. }: Atomic) -> Counts {
    match (form, op) {
        (Form::Base, _) => Counts::WRITE,
        (Form::Fetch, AtomicOp::READ) => Counts::READ,
        (Form::Fetch | Form::Compare, _) => Counts::FETCH,
    }
}

fn range(lent: &Lent) -> Range {
    (lent.ptr.as_ptr(), lent.len)
}

impl SoftEndpoint<'_> {
    /// # Safety
    /// The local ranges are valid during the call.
    #[inline(always)]
    unsafe fn post_atomic(
        &self,
        mut to: RmaTarget,
        len: usize,
        mut local: Local<'_>,
        atomic: Atomic,
        context: Option<u64>,
    ) -> Result<(), Refusal> {
        let own = self.port().own();
        if self.extra_checks {
            to = self.aim(to);
            if let Some(lost) = lose(own, context, flags(atomic.form)) {
                return lost;
            }
        }
        own.reserve_transmit(context)?;
        // SAFETY: the caller guarantees the local ranges.
        let done = unsafe { perform(&self.net, to, len, &mut local, atomic, counts(atomic)) };
        end_rma(own, flags(atomic.form), len, context, done)
    }

    /// # Safety
    /// The context satisfies L2.
    #[inline(always)]
    unsafe fn lent_ranges<const N: usize>(
        &self,
        to: RmaTarget,
        lent: [(&Lent, Access); N],
        context: Context,
    ) -> Result<[Range; N], Refusal> {
        if self.extra_checks {
            self.meets(to.to)?;
            self.refuse_or_kill()?;
            for (lent, access) in lent {
                self.lies_in_its_region(lent, access).map_err(Refusal::Errno)?;
            }
            // SAFETY: the context satisfies L2.
            unsafe { begin_context(self.port().own().modes.get(), context) };
        }
        Ok(lent.map(|(lent, _)| range(lent)))
    }
}

// SAFETY: `soft/transport.rs` lists how the promises are kept.
unsafe impl<'n> Atomics for Soft<'n> {
    unsafe fn query_atomic(_: &Self::Domain, atomic: Atomic) -> Result<AtomicAttr, Errno> {
        by_datatype!(atomic.datatype, granted(atomic))
    }

    #[inline(always)]
    unsafe fn atomic(
        endpoint: &Self::Endpoint,
        to: RmaTarget,
        operands: &Lent,
        atomic: Atomic,
        context: Context,
    ) -> Result<(), Refusal> {
        // SAFETY: the context satisfies L2.
        let [operands] = unsafe { endpoint.lent_ranges(to, [(operands, Access::WRITE)], context) }?;
        let local = Local { operands: Elements::one(operands), compare: Elements::NONE, results: Elements::NONE };
        // SAFETY: lent memory is readable (L1).
        unsafe { endpoint.post_atomic(to, operands.1, local, atomic, Some(context.addr())) }
    }

    #[inline(always)]
    unsafe fn inject_atomic(
        endpoint: &Self::Endpoint,
        to: RmaTarget,
        operands: &[u8],
        atomic: Atomic,
    ) -> Result<(), Refusal> {
        if endpoint.extra_checks {
            endpoint.meets(to.to)?;
            endpoint.refuse_or_kill()?;
        }
        let operands = (operands.as_ptr().cast_mut(), operands.len());
        let local = Local { operands: Elements::one(operands), compare: Elements::NONE, results: Elements::NONE };
        // SAFETY: borrowed operands are readable, and only read.
        unsafe { endpoint.post_atomic(to, operands.1, local, atomic, None) }
    }

    #[inline(always)]
    unsafe fn fetch_atomic(
        endpoint: &Self::Endpoint,
        to: RmaTarget,
        operands: &Lent,
        results: &Lent,
        atomic: Atomic,
        context: Context,
    ) -> Result<(), Refusal> {
        let lent = [(operands, Access::WRITE), (results, Access::READ)];
        // SAFETY: the context satisfies L2.
        let [operands, results] = unsafe { endpoint.lent_ranges(to, lent, context) }?;
        let local =
            Local { operands: Elements::one(operands), compare: Elements::NONE, results: Elements::one(results) };
        // SAFETY: lent memory is readable, and results are writable (L1).
        unsafe { endpoint.post_atomic(to, results.1, local, atomic, Some(context.addr())) }
    }

    #[inline(always)]
    unsafe fn compare_atomic(
        endpoint: &Self::Endpoint,
        to: RmaTarget,
        [operands, compare, results]: [&Lent; 3],
        atomic: Atomic,
        context: Context,
    ) -> Result<(), Refusal> {
        let lent = [(operands, Access::WRITE), (compare, Access::WRITE), (results, Access::READ)];
        // SAFETY: the context satisfies L2.
        let [operands, compare, results] = unsafe { endpoint.lent_ranges(to, lent, context) }?;
        let local = Local {
            operands: Elements::one(operands),
            compare: Elements::one(compare),
            results: Elements::one(results),
        };
        // SAFETY: lent memory is readable, and results are writable (L1).
        unsafe { endpoint.post_atomic(to, results.1, local, atomic, Some(context.addr())) }
    }

    unsafe fn atomicmsg(
        endpoint: &Self::Endpoint,
        msg: &Msg<'_>,
        ranges: AtomicRanges<'_>,
        remote: &[RemotePart],
        atomic: Atomic,
    ) -> Result<(), Refusal> {
        type Ranges = Vec<Range, LIMIT>;
        fn of(lent: &[Lent]) -> Result<Ranges, Refusal> {
            let ranges: Ranges = lent.iter().take(LIMIT).map(range).collect();
            if lent.len() > LIMIT { Err(Refusal::Errno(Errno::EINVAL)) } else { Ok(ranges) }
        }

        let mut room = Vec::new();
        // SAFETY: the context satisfies L2. Only messages have a prefix.
        let msg = &unsafe { endpoint.pieces(msg, Access::WRITE, &mut room) }?;
        if endpoint.extra_checks {
            let others = ranges.compare.iter().map(|lent| (lent, Access::WRITE));
            for (lent, access) in others.chain(ranges.results.iter().map(|lent| (lent, Access::READ))) {
                endpoint.lies_in_its_region(lent, access).map_err(Refusal::Errno)?;
            }
        }
        let mut aimed = Vec::new();
        let remote = endpoint.aim_parts(msg.address, remote, &mut aimed);
        let (operands, compare, results) = (of(msg.pieces)?, of(ranges.compare)?, of(ranges.results)?);
        if !(1..=LIMIT).contains(&remote.len()) {
            return Err(Refusal::Errno(Errno::EINVAL));
        }
        let (own, report) = (endpoint.port().own(), endpoint.report(msg));
        let context = (report == Report::All).then(|| msg.context.addr());
        if endpoint.extra_checks
            && let Some(lost) = lose(own, context, flags(atomic.form))
        {
            return lost;
        }
        own.reserve_transmit(context)?;
        let mut local = Local {
            operands: Elements::of(&operands),
            compare: Elements::of(&compare),
            results: Elements::of(&results),
        };
        let target = |part: &RemotePart| RmaTarget { to: msg.address, addr: part.addr, key: part.key };
        let allowed = remote
            .iter()
            .try_for_each(|part| open_range(&endpoint.net, &target(part), part.len, access(atomic)).map(drop));
        let done = allowed.and_then(|()| {
            remote.iter().enumerate().try_for_each(|(at, part)| {
                let counts = counts(atomic).of_range(at + 1 == remote.len());
                // SAFETY: lent memory is valid (L1).
                unsafe { perform(&endpoint.net, target(part), part.len, &mut local, atomic, counts) }
            })
        });
        end_rma(own, flags(atomic.form), remote.iter().map(|part| part.len).sum(), context, done)
    }
}
