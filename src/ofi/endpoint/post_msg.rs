//! Posting operations with several pieces and with flags. As in [`post`](super::post), every
//! `unsafe fn` relies on the [contract of callers](loom_core::transport#contract-of-callers).

#![allow(unsafe_code, reason = "calls libfabric")]

use core::ffi::c_void;
use core::ptr;

use loom_core::buffer::IoVecs;
use loom_core::transport::{Msg, Refusal, RemotePart};
use loom_core::vocabulary::{Errno, OpFlags, Tag, TagMatch};

use super::Endpoint;
use super::post::Memory;
use crate::ofi::ffi::call::{entry, posted};
use crate::ofi::quirks::overrun;
use crate::ofi::sys;

type Posted = Result<(), Refusal>;

/// Providers copy pieces in the call, or get at most one (`FI_ASYNC_IOV`).
struct Iov {
    pieces: [sys::iovec; IoVecs::MOST],
    descriptors: [*mut c_void; IoVecs::MOST],
    count: usize,
}

impl Iov {
    fn of(msg: &Msg<'_>) -> Result<Self, Refusal> {
        let nothing = sys::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        let mut iov = Iov { pieces: [nothing; _], descriptors: [ptr::null_mut(); _], count: msg.pieces.len() };
        if iov.count > IoVecs::MOST {
            return Err(Refusal::Errno(Errno::EINVAL));
        }
        for ((lent, piece), descriptor) in msg.pieces.iter().zip(&mut iov.pieces).zip(&mut iov.descriptors) {
            let memory = Memory::new(lent);
            *piece = sys::iovec { iov_base: memory.start, iov_len: memory.len };
            *descriptor = memory.descriptor;
        }
        Ok(iov)
    }

    fn of_receive<L>(endpoint: &Endpoint<L>, msg: &Msg<'_>) -> Result<Self, Refusal> {
        let mut iov = Iov::of(msg)?;
        if !endpoint.overruns() || !overrun::extends(msg) {
            return Ok(iov);
        }
        let mut count = 0;
        for at in 0..iov.count {
            if iov.pieces.get(at).is_some_and(|piece| piece.iov_len > 0) {
                iov.pieces.swap(at, count);
                iov.descriptors.swap(at, count);
                count += 1;
            }
        }
        if let (Some(piece), Some(descriptor)) = (iov.pieces.get_mut(count), iov.descriptors.get_mut(count)) {
            (*piece, *descriptor) = (overrun::rest(), ptr::null_mut());
            iov.count = count + 1;
        }
        Ok(iov)
    }
}

pub(crate) fn flags_and_data<L>(endpoint: &Endpoint<L>, msg: &Msg<'_>) -> (u64, u64) {
    let flags = if endpoint.is_selective() { msg.flags } else { reported(msg) };
    match msg.data {
        None => (flags.bits(), 0),
        Some(data) => ((flags | OpFlags::REMOTE_CQ_DATA).bits(), data.0),
    }
}

/// Some providers require `COMPLETION` even on an endpoint that reports every operation, because
/// they ignore the binding where flags are given.
fn reported(msg: &Msg<'_>) -> OpFlags {
    msg.flags | OpFlags::COMPLETION
}

fn message(msg: &Msg<'_>, iov: &mut Iov, data: u64) -> sys::fi_msg {
    sys::fi_msg {
        msg_iov: iov.pieces.as_ptr(),
        desc: iov.descriptors.as_mut_ptr(),
        iov_count: iov.count,
        addr: msg.address.0,
        context: msg.context.as_ptr().cast(),
        data,
    }
}

fn tagged(msg: &Msg<'_>, iov: &mut Iov, data: u64, tag: TagMatch) -> sys::fi_msg_tagged {
    sys::fi_msg_tagged {
        msg_iov: iov.pieces.as_ptr(),
        desc: iov.descriptors.as_mut_ptr(),
        iov_count: iov.count,
        addr: msg.address.0,
        tag: tag.tag.0,
        ignore: tag.ignore,
        context: msg.context.as_ptr().cast(),
        data,
    }
}

pub(crate) unsafe fn sendmsg<L>(endpoint: &Endpoint<L>, msg: &Msg<'_>) -> Posted {
    let (raw, mut iov, (flags, data)) = (endpoint.raw(), Iov::of(msg)?, flags_and_data(endpoint, msg));
    let send = entry!(raw, msg => sendmsg)?;
    let message = message(msg, &mut iov, data);
    // SAFETY: H1, T1 and L1 to L4, O1 to O3. The message is read in the call.
    posted(unsafe { send(raw.as_ptr(), &raw const message, flags) })
}

pub(crate) unsafe fn recvmsg<L>(endpoint: &Endpoint<L>, msg: &Msg<'_>) -> Posted {
    let (raw, mut iov, flags) = (endpoint.raw(), Iov::of_receive(endpoint, msg)?, reported(msg).bits());
    let recv = entry!(raw, msg => recvmsg)?;
    let message = message(msg, &mut iov, 0);
    // SAFETY: H1, T1 and L1 to L4, O1 to O3. The message is read in the call.
    posted(unsafe { recv(raw.as_ptr(), &raw const message, flags) })
}

pub(crate) unsafe fn tagged_sendmsg<L>(endpoint: &Endpoint<L>, msg: &Msg<'_>, tag: Tag) -> Posted {
    let (raw, mut iov, (flags, data)) = (endpoint.raw(), Iov::of(msg)?, flags_and_data(endpoint, msg));
    let send = entry!(raw, tagged => sendmsg)?;
    let message = tagged(msg, &mut iov, data, tag.into());
    // SAFETY: H1, T1 and L1 to L4, O1 to O3. The message is read in the call.
    posted(unsafe { send(raw.as_ptr(), &raw const message, flags) })
}

pub(crate) unsafe fn tagged_recvmsg<L>(endpoint: &Endpoint<L>, msg: &Msg<'_>, tag: TagMatch) -> Posted {
    let (raw, mut iov, flags) = (endpoint.raw(), Iov::of_receive(endpoint, msg)?, reported(msg).bits());
    let recv = entry!(raw, tagged => recvmsg)?;
    let message = tagged(msg, &mut iov, 0, tag);
    // SAFETY: H1, T1 and L1 to L4, O1 to O3. The message is read in the call.
    posted(unsafe { recv(raw.as_ptr(), &raw const message, flags) })
}

fn remote_iov(remote: &[RemotePart]) -> Result<[sys::fi_rma_iov; IoVecs::MOST], Refusal> {
    let mut parts = [sys::fi_rma_iov { addr: 0, len: 0, key: 0 }; IoVecs::MOST];
    if remote.len() > parts.len() {
        return Err(Refusal::Errno(Errno::EINVAL));
    }
    for (part, given) in parts.iter_mut().zip(remote) {
        *part = sys::fi_rma_iov { addr: given.addr.0, len: given.len, key: given.key.0 };
    }
    Ok(parts)
}

fn rma(msg: &Msg<'_>, iov: &mut Iov, data: u64, parts: &[sys::fi_rma_iov], count: usize) -> sys::fi_msg_rma {
    sys::fi_msg_rma {
        msg_iov: iov.pieces.as_ptr(),
        desc: iov.descriptors.as_mut_ptr(),
        iov_count: iov.count,
        addr: msg.address.0,
        rma_iov: parts.as_ptr(),
        rma_iov_count: count,
        context: msg.context.as_ptr().cast(),
        data,
    }
}

pub(crate) unsafe fn readmsg<L>(endpoint: &Endpoint<L>, msg: &Msg<'_>, remote: &[RemotePart]) -> Posted {
    let (raw, mut iov, (flags, data)) = (endpoint.raw(), Iov::of(msg)?, flags_and_data(endpoint, msg));
    let read = entry!(raw, rma => readmsg)?;
    let parts = remote_iov(remote)?;
    let message = rma(msg, &mut iov, data, &parts, remote.len());
    // SAFETY: H1, T1 and L1 to L4, O1 to O3. The message is read in the call.
    posted(unsafe { read(raw.as_ptr(), &raw const message, flags) })
}

pub(crate) unsafe fn writemsg<L>(endpoint: &Endpoint<L>, msg: &Msg<'_>, remote: &[RemotePart]) -> Posted {
    let (raw, mut iov, (flags, data)) = (endpoint.raw(), Iov::of(msg)?, flags_and_data(endpoint, msg));
    let write = entry!(raw, rma => writemsg)?;
    let parts = remote_iov(remote)?;
    let message = rma(msg, &mut iov, data, &parts, remote.len());
    // SAFETY: H1, T1 and L1 to L4, O1 to O3. The message is read in the call.
    posted(unsafe { write(raw.as_ptr(), &raw const message, flags) })
}
