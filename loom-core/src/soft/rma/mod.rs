#![allow(
    unsafe_code,
    reason = "copies between memory that was lent and regions, and implements the unsafe trait `Rma`"
)]

pub(crate) mod atomic;
pub(crate) mod delayed;

use core::ptr;

use heapless::Vec;

use super::delivery::send::{News, announce, announce_by_lane, begin_news};
use super::handles::SoftEndpoint;
use super::mr::{Counts, at_region, open_range};
use super::network::Net;
use super::network::endpoint_state::{EndpointState, LocalState, Report};
use super::rma::delayed::{RmaOp, do_later, ring};
use super::shared::copy::{LIMIT, advanced, ranges, total};
use super::transport::Soft;
use crate::buffer::Lent;
use crate::exposed::copy_exposed;
use crate::transport::{Context, Event, Msg, Refusal, RemotePart, Rma, RmaTarget};
use crate::vocabulary::{Access, CompletionFlags, Errno, ImmediateData, OpFlags, RemoteAddr};

/// # Safety
/// The bytes are valid for reads during the call.
#[inline]
unsafe fn write(
    net: &Net,
    port: &EndpointState,
    target: &RmaTarget,
    (bytes, len): (*const u8, usize),
    data: Option<ImmediateData>,
    how: (Option<u64>, Option<u32>),
) -> Result<(), Refusal> {
    let copy = || {
        at_region(net, target, len, Access::REMOTE_WRITE, Counts::WRITE, |place| {
            // SAFETY: the open region contains the range. The caller guarantees the bytes.
            unsafe { copy_exposed(bytes, place, len) };
        })
    };
    write_by(net, port, (target.to.0, len), data, how, copy)
}

#[inline(always)]
pub(super) fn write_by(
    net: &Net,
    port: &EndpointState,
    (to, len): (u64, usize),
    data: Option<ImmediateData>,
    (context, delay): (Option<u64>, Option<u32>),
    copy: impl FnOnce() -> Result<(), Errno>,
) -> Result<(), Refusal> {
    let own = port.own();
    // The room for the news comes first: after the copy, the write cannot be refused.
    let news = match data {
        None if context.is_some() && !own.tx().reserve() => return Err(Refusal::Again),
        None => None,
        Some(data) => Some((begin_news(net, port, to, context)?, data)),
    };
    let result = match (copy(), news) {
        (Ok(()), Some((News::Slot(lane), data))) => announce_by_lane(net, lane, len, data),
        (Ok(()), Some((News::Cell(head), data))) => announce(net, own, head, (to, len, data), delay),
        (result, _) => result,
    };
    end_rma(own, CompletionFlags::RMA | CompletionFlags::WRITE, len, context, result)
}

/// # Safety
/// `bytes` is valid for writes during the call.
#[inline(always)]
unsafe fn read(
    net: &Net,
    port: &EndpointState,
    target: &RmaTarget,
    bytes: *mut u8,
    len: usize,
    context: Option<u64>,
) -> Result<(), Refusal> {
    let own = port.own();
    own.reserve_transmit(context)?;
    let copied = at_region(net, target, len, Access::REMOTE_READ, Counts::READ, |place| {
        // SAFETY: the open region contains the range. The caller guarantees the bytes.
        unsafe { copy_exposed(place, bytes, len) };
    });
    end_rma(own, CompletionFlags::RMA | CompletionFlags::READ, len, context, copied)
}

#[inline]
pub(super) fn end_rma(
    own: &LocalState,
    flags: CompletionFlags,
    len: usize,
    context: Option<u64>,
    result: Result<(), Errno>,
) -> Result<(), Refusal> {
    let result = match result {
        Err(_) if flags.contains(CompletionFlags::RMA | CompletionFlags::WRITE) => own.faults().end_of_write(result),
        other => other,
    };
    match (context, result) {
        (Some(context), Ok(())) => {
            own.end_transmit(Event::success(context, flags, len));
            Ok(())
        }
        (Some(context), Err(errno)) => {
            own.end_transmit(Event::failure(context, flags, errno));
            Ok(())
        }
        (None, Ok(())) => {
            own.count_unsignaled(flags, len);
            Ok(())
        }
        (None, Err(errno)) => Err(Refusal::Errno(errno)),
    }
}

const fn remote_access(reads: bool) -> (Access, Counts) {
    if reads { (Access::REMOTE_READ, Counts::READ) } else { (Access::REMOTE_WRITE, Counts::WRITE) }
}

/// # Safety
/// `place` has `len` bytes of an open region, and `bytes` as many that are valid for the operation.
unsafe fn copy(reads: bool, place: *mut u8, bytes: *mut u8, len: usize) {
    if reads {
        // SAFETY: the caller guarantees both.
        unsafe { copy_exposed(place, bytes, len) };
    } else {
        // SAFETY: the caller guarantees both.
        unsafe { copy_exposed(bytes, place, len) };
    }
}

impl SoftEndpoint<'_> {
    /// # Safety
    /// The buffer is valid for the operation until the event of the context or until the endpoint
    /// is closed. L2.
    #[cold]
    #[inline(never)]
    unsafe fn rma_checked(
        &self,
        target: RmaTarget,
        lent: &Lent,
        (reads, data): (bool, Option<ImmediateData>),
        context: Context,
    ) -> Result<(), Refusal> {
        self.meets(target.to)?;
        let target = self.aim(target);
        let access = if reads { Access::READ } else { Access::WRITE };
        // SAFETY: the caller guarantees the buffer and L2. RMA has no prefix (L4).
        let (bytes, len) = unsafe { self.apply_modes(lent, access, context) }?;
        let (context, report) = (Some(context.addr()), Report::All);
        let rma = RmaOp { target, reads, bytes, len, data, context, report, more: false };
        // SAFETY: the caller guarantees the buffer.
        unsafe { self.rma_amid_faults(&rma) }
    }

    /// # Safety
    /// The bytes are valid for the operation. Without a context, during the call, and there are at
    /// most `inject_size`. With a context, until its event or until the endpoint is closed.
    unsafe fn rma_amid_faults(&self, rma: &RmaOp) -> Result<(), Refusal> {
        let (net, port, RmaOp { target, reads, bytes, len, data, context, .. }) = (&*self.net, self.port(), *rma);
        ring(net, port.own());
        // SAFETY: the caller guarantees the bytes.
        if let Some(taken) = unsafe { do_later(net, port, rma, !reads) } {
            return taken;
        }
        if reads {
            // SAFETY: the caller guarantees the bytes.
            return unsafe { read(net, port, &target, bytes, len, context) };
        }
        // SAFETY: the caller guarantees the bytes.
        unsafe { write(net, port, &target, (bytes, len), data, (context, port.own().faults().delay())) }
    }

    /// # Safety
    /// The buffers are valid for the operation until the event or until the endpoint is closed, if
    /// the message reports success. Otherwise during the call. L2.
    unsafe fn rma_msg(&self, msg: &Msg<'_>, remote: &[RemotePart], reads: bool) -> Result<(), Refusal> {
        let (mut room, mut aimed) = (Vec::new(), Vec::new());
        // SAFETY: L2 and L4.
        let msg = &unsafe { self.pieces(msg, if reads { Access::READ } else { Access::WRITE }, &mut room) }?;
        let remote = self.aim_parts(msg.address, remote, &mut aimed);
        let (net, port, report) = (&*self.net, self.port(), self.report(msg));
        let more = msg.flags.contains(OpFlags::MORE);
        if !more {
            ring(net, port.own());
        }
        if msg.pieces.len().max(remote.len()) > LIMIT {
            return Err(Refusal::Errno(Errno::EINVAL));
        }
        if let ([lent], [part]) = (msg.pieces, remote)
            && port.own().faults().rules.get().strikes()
        {
            let target = RmaTarget { to: msg.address, addr: part.addr, key: part.key };
            let (bytes, len, context) = (lent.ptr.as_ptr(), lent.len, Some(msg.context.addr()));
            let rma = RmaOp { target, reads, bytes, len, data: msg.data, context, report, more };
            let early = !reads && !msg.flags.contains(OpFlags::DELIVERY_COMPLETE);
            // SAFETY: the caller guarantees the buffers.
            if let Some(taken) = unsafe { do_later(net, port, &rma, early) } {
                return taken;
            }
        }
        let target = |part: &RemotePart, offset: usize| {
            let addr = part.addr.0.checked_add(offset as u64).ok_or(Errno::EFAULT)?;
            Ok::<_, Errno>(RmaTarget { to: msg.address, addr: RemoteAddr(addr), key: part.key })
        };
        let (access, counts) = remote_access(reads);
        let copy_all = || {
            if remote.len() > 1 {
                for part in remote {
                    open_range(net, &target(part, 0)?, part.len, access)?;
                }
            }
            let mut local = ranges(msg);
            let mut here = (ptr::null_mut(), 0);
            for (at, part) in remote.iter().enumerate() {
                let counts = counts.of_range(at + 1 == remote.len());
                let mut done = 0;
                loop {
                    while here.1 == 0 && done < part.len {
                        here = local.next().ok_or(Errno::EINVAL)?;
                    }
                    let len = here.1.min(part.len - done);
                    let counts = if done + len == part.len { counts } else { Counts::NOTHING };
                    at_region(net, &target(part, done)?, len, access, counts, |place| {
                        // SAFETY: the open region contains the range. The caller guarantees the
                        // buffer.
                        unsafe { copy(reads, place, here.0, len) };
                    })?;
                    here = advanced(here, len);
                    done += len;
                    if done == part.len {
                        break;
                    }
                }
            }
            Ok(())
        };
        let (len, context) = (total(msg), (report == Report::All).then(|| msg.context.addr()));
        if reads {
            port.own().reserve_transmit(context)?;
            end_rma(port.own(), CompletionFlags::RMA | CompletionFlags::READ, len, context, copy_all())
        } else {
            write_by(net, port, (msg.address.0, len), msg.data, (context, port.own().faults().delay()), copy_all)
        }
    }
}

// SAFETY: see the implementation of `Transport`.
unsafe impl<'n> Rma for Soft<'n> {
    #[inline(always)]
    unsafe fn read(endpoint: &Self::Endpoint, from: RmaTarget, lent: &Lent, context: Context) -> Result<(), Refusal> {
        if endpoint.extra_checks {
            // SAFETY: L1 for the buffer, L2 for the context.
            return unsafe { endpoint.rma_checked(from, lent, (true, None), context) };
        }
        // SAFETY: the buffer is writable (L1).
        unsafe { read(&endpoint.net, endpoint.port(), &from, lent.ptr.as_ptr(), lent.len, Some(context.addr())) }
    }

    #[inline(never)]
    unsafe fn write(
        endpoint: &Self::Endpoint,
        to: RmaTarget,
        lent: &Lent,
        data: Option<ImmediateData>,
        context: Context,
    ) -> Result<(), Refusal> {
        if endpoint.extra_checks {
            // SAFETY: L1 for the buffer, L2 for the context.
            return unsafe { endpoint.rma_checked(to, lent, (false, data), context) };
        }
        let bytes = (lent.ptr.as_ptr().cast_const(), lent.len);
        // SAFETY: the buffer is readable (L1).
        unsafe { write(&endpoint.net, endpoint.port(), &to, bytes, data, (Some(context.addr()), None)) }
    }

    #[inline]
    unsafe fn inject_write(
        endpoint: &Self::Endpoint,
        to: RmaTarget,
        bytes: &[u8],
        data: Option<ImmediateData>,
    ) -> Result<(), Refusal> {
        let bytes = (bytes.as_ptr(), bytes.len());
        if endpoint.extra_checks {
            endpoint.meets(to.to)?;
            endpoint.refuse_or_kill()?;
            let (target, (bytes, len)) = (endpoint.aim(to), bytes);
            let (bytes, context, report) = (bytes.cast_mut(), None, Report::All);
            let rma = RmaOp { target, reads: false, bytes, len, data, context, report, more: false };
            // SAFETY: `bytes` has at most `inject_size` bytes, the eager size.
            return unsafe { endpoint.rma_amid_faults(&rma) };
        }
        // SAFETY: a borrow is readable.
        unsafe { write(&endpoint.net, endpoint.port(), &to, bytes, data, (None, None)) }
    }

    unsafe fn readmsg(endpoint: &Self::Endpoint, msg: &Msg<'_>, remote: &[RemotePart]) -> Result<(), Refusal> {
        // SAFETY: the buffers are valid (L1), and L2.
        unsafe { endpoint.rma_msg(msg, remote, true) }
    }

    unsafe fn writemsg(endpoint: &Self::Endpoint, msg: &Msg<'_>, remote: &[RemotePart]) -> Result<(), Refusal> {
        // SAFETY: the buffers are valid (L1), and L2.
        unsafe { endpoint.rma_msg(msg, remote, false) }
    }
}
