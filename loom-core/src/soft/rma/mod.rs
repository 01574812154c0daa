#![allow(
    unsafe_code,
    reason = "copies between memory that was lent and regions, and implements the unsafe trait `Rma`"
)]

pub(crate) mod atomic;
pub(crate) mod delayed;

use core::ptr;

use heapless::Vec;

use super::handles::SoftEndpoint;
use super::mr::{Counts, at_region, open_range};
use super::network::Net;
use super::network::endpoint_state::{EndpointState, LocalState, Report};
use super::rma::delayed::{RmaOp, do_later};
use super::shared::copy::{LIMIT, advanced, ranges, total};
use super::transfer::send::{News, announce, announce_by_lane, begin_news};
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
    context: u64,
) -> Result<(), Refusal> {
    read_by(port.own(), len, Some(context), || {
        at_region(net, target, len, Access::REMOTE_READ, Counts::READ, |place| {
            // SAFETY: the open region contains the range. The caller guarantees the bytes.
            unsafe { copy_exposed(place, bytes, len) };
        })
    })
}

#[inline(always)]
fn read_by(
    own: &LocalState,
    len: usize,
    context: Option<u64>,
    copy: impl FnOnce() -> Result<(), Errno>,
) -> Result<(), Refusal> {
    if context.is_some() && !own.tx().reserve() {
        return Err(Refusal::Again);
    }
    end_rma(own, CompletionFlags::RMA | CompletionFlags::READ, len, context, copy())
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

/// # Safety
/// The buffers are valid, for reads or for writes, until the event or until the endpoint is closed.
unsafe fn rma_amid_faults(
    net: &Net,
    port: &EndpointState,
    msg: &Msg<'_>,
    remote: &[RemotePart],
    access: Access,
    report: Report,
) -> Option<Result<(), Refusal>> {
    if !port.own().faults().rules.get().strikes() {
        return None;
    }
    let (reads, context) = (access == Access::REMOTE_READ, Some(msg.context.addr()));
    let ([lent], [part]) = (msg.pieces, remote) else { return None };
    let target = RmaTarget { to: msg.address, addr: part.addr, key: part.key };
    let (bytes, len) = (lent.ptr.as_ptr(), lent.len);
    let early = !reads && !msg.flags.contains(OpFlags::DELIVERY_COMPLETE);
    // SAFETY: the caller guarantees the buffers.
    unsafe { do_later(net, port, &RmaOp { target, reads, bytes, len, data: msg.data, context, report }, early) }
}

/// # Safety
/// The buffers are valid, for reads or for writes, during the call, and with a context as for
/// [`rma_amid_faults`].
unsafe fn rma_pieces(
    net: &Net,
    port: &EndpointState,
    msg: &Msg<'_>,
    remote: &[RemotePart],
    access: Access,
    report: Report,
) -> Result<(), Refusal> {
    if msg.pieces.len().max(remote.len()) > LIMIT {
        return Err(Refusal::Errno(Errno::EINVAL));
    }
    // SAFETY: the caller guarantees the buffers, with a context as for a plain write or read.
    if let Some(taken) = unsafe { rma_amid_faults(net, port, msg, remote, access, report) } {
        return taken;
    }
    let target = |part: &RemotePart, offset: usize| {
        let addr = part.addr.0.checked_add(offset as u64).ok_or(Errno::EFAULT)?;
        Ok::<_, Errno>(RmaTarget { to: msg.address, addr: RemoteAddr(addr), key: part.key })
    };
    let reads = access == Access::REMOTE_READ;
    let copy = || {
        if remote.len() > 1 {
            for part in remote {
                open_range(net, &target(part, 0)?, part.len, access)?;
            }
        }
        let mut local = ranges(msg);
        let mut here = (ptr::null_mut(), 0);
        for (at, part) in remote.iter().enumerate() {
            let counts = if reads { Counts::READ } else { Counts::WRITE }.of_range(at + 1 == remote.len());
            let mut done = 0;
            loop {
                while here.1 == 0 && done < part.len {
                    here = local.next().ok_or(Errno::EINVAL)?;
                }
                let len = here.1.min(part.len - done);
                let counts = if done + len == part.len { counts } else { Counts::NOTHING };
                at_region(net, &target(part, done)?, len, access, counts, |place| {
                    if reads {
                        // SAFETY: the open region contains the range. The caller guarantees the
                        // buffer.
                        unsafe { copy_exposed(place, here.0, len) };
                    } else {
                        // SAFETY: the open region contains the range. The caller guarantees the
                        // buffer.
                        unsafe { copy_exposed(here.0, place, len) };
                    }
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
        read_by(port.own(), len, context, copy)
    } else {
        write_by(net, port, (msg.address.0, len), msg.data, (context, port.own().faults().delay()), copy)
    }
}

impl SoftEndpoint<'_> {
    /// # Safety
    /// The buffer is readable until the event of the context or until the endpoint is closed. L2.
    #[cold]
    #[inline(never)]
    unsafe fn write_checked(
        &self,
        to: RmaTarget,
        lent: &Lent,
        data: Option<ImmediateData>,
        context: Context,
    ) -> Result<(), Refusal> {
        self.meets(to.to)?;
        let to = self.aim(to);
        // SAFETY: the caller guarantees the buffer and L2. A write has no prefix (L4).
        let (bytes, len) = unsafe { self.apply_modes(lent, Access::WRITE, context) }?;
        // SAFETY: the caller guarantees the buffer.
        unsafe { self.write_amid_faults(to, (bytes.cast_const(), len), data, Some(context.addr())) }
    }

    /// # Safety
    /// The buffer is writable until the event of the context or until the endpoint is closed. L2.
    #[cold]
    #[inline(never)]
    unsafe fn read_checked(&self, from: RmaTarget, lent: &Lent, context: Context) -> Result<(), Refusal> {
        self.meets(from.to)?;
        let from = self.aim(from);
        // SAFETY: the caller guarantees the buffer and L2. A read has no prefix (L4).
        let place = unsafe { self.apply_modes(lent, Access::READ, context) }?;
        // SAFETY: the caller guarantees the buffer.
        unsafe { self.read_amid_faults(from, place, context.addr()) }
    }

    /// # Safety
    /// The bytes are valid for reads. Without a context, during the call, and there are at most
    /// `inject_size`. With a context, until its event or until the endpoint is closed.
    unsafe fn write_amid_faults(
        &self,
        target: RmaTarget,
        (bytes, len): (*const u8, usize),
        data: Option<ImmediateData>,
        context: Option<u64>,
    ) -> Result<(), Refusal> {
        let report = Report::All;
        let rma = RmaOp { target, reads: false, bytes: bytes.cast_mut(), len, data, context, report };
        // SAFETY: the caller guarantees the bytes.
        if let Some(taken) = unsafe { do_later(&self.net, self.port(), &rma, true) } {
            return taken;
        }
        let delay = self.port().own().faults().delay();
        // SAFETY: the caller guarantees the bytes.
        unsafe { write(&self.net, self.port(), &target, (bytes, len), data, (context, delay)) }
    }

    /// # Safety
    /// `bytes` is valid for writes until the event of the context or until the endpoint is closed.
    unsafe fn read_amid_faults(
        &self,
        target: RmaTarget,
        (bytes, len): (*mut u8, usize),
        context: u64,
    ) -> Result<(), Refusal> {
        let (data, report) = (None, Report::All);
        let rma = RmaOp { target, reads: true, bytes, len, data, context: Some(context), report };
        // SAFETY: the caller guarantees the bytes.
        if let Some(taken) = unsafe { do_later(&self.net, self.port(), &rma, false) } {
            return taken;
        }
        // SAFETY: the caller guarantees the bytes.
        unsafe { read(&self.net, self.port(), &target, bytes, len, context) }
    }
}

// SAFETY: see the implementation of `Transport`.
unsafe impl<'n> Rma for Soft<'n> {
    #[inline(always)]
    unsafe fn read(endpoint: &Self::Endpoint, from: RmaTarget, lent: &Lent, context: Context) -> Result<(), Refusal> {
        if endpoint.extra_checks {
            // SAFETY: L1 for the buffer, L2 for the context.
            return unsafe { endpoint.read_checked(from, lent, context) };
        }
        // SAFETY: the buffer is writable (L1).
        unsafe { read(&endpoint.net, endpoint.port(), &from, lent.ptr.as_ptr(), lent.len, context.addr()) }
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
            return unsafe { endpoint.write_checked(to, lent, data, context) };
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
            endpoint.gate()?;
            let to = endpoint.aim(to);
            // SAFETY: `bytes` has at most `inject_size` bytes, the eager size.
            return unsafe { endpoint.write_amid_faults(to, bytes, data, None) };
        }
        // SAFETY: a borrow is readable.
        unsafe { write(&endpoint.net, endpoint.port(), &to, bytes, data, (None, None)) }
    }

    unsafe fn readmsg(endpoint: &Self::Endpoint, msg: &Msg<'_>, remote: &[RemotePart]) -> Result<(), Refusal> {
        let mut room = Vec::new();
        // SAFETY: L2 and L4.
        let msg = &unsafe { endpoint.pieces(msg, Access::READ, &mut room) }?;
        let mut aimed = Vec::new();
        let remote = endpoint.aim_parts(msg.address, remote, &mut aimed);
        // SAFETY: the buffers are valid (L1).
        unsafe { rma_pieces(&endpoint.net, endpoint.port(), msg, remote, Access::REMOTE_READ, endpoint.report(msg)) }
    }

    unsafe fn writemsg(endpoint: &Self::Endpoint, msg: &Msg<'_>, remote: &[RemotePart]) -> Result<(), Refusal> {
        let mut room = Vec::new();
        // SAFETY: L2 and L4.
        let msg = &unsafe { endpoint.pieces(msg, Access::WRITE, &mut room) }?;
        let mut aimed = Vec::new();
        let remote = endpoint.aim_parts(msg.address, remote, &mut aimed);
        // SAFETY: the buffers are valid (L1).
        unsafe { rma_pieces(&endpoint.net, endpoint.port(), msg, remote, Access::REMOTE_WRITE, endpoint.report(msg)) }
    }
}
