//! Lent memory, flags and data in the form of libfabric.

use core::ffi::c_void;
use core::ptr;

use loom_core::buffer::IoVecs;
use loom_core::transport::{Msg, Refusal};
use loom_core::vocabulary::{Errno, OpFlags};

use super::Endpoint;
use crate::ofi::ffi::call::Memory;
use crate::ofi::quirks::overrun;
use crate::ofi::sys;

/// Providers copy pieces in the call, or get at most one (`FI_ASYNC_IOV`).
pub(super) struct Iov {
    pub(super) pieces: [sys::iovec; IoVecs::MOST],
    pub(super) descriptors: [*mut c_void; IoVecs::MOST],
    pub(super) count: usize,
}

impl Iov {
    pub(super) fn of(msg: &Msg<'_>) -> Result<Self, Refusal> {
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

    /// Pieces of a receive, with the last piece for the rest ([`overrun`]), and without empty ones:
    /// one in front of the last piece would end a message of `tcp`.
    pub(super) fn of_receive<L>(endpoint: &Endpoint<L>, msg: &Msg<'_>) -> Result<Self, Refusal> {
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

pub(super) fn flags_and_data<L>(endpoint: &Endpoint<L>, msg: &Msg<'_>) -> (u64, u64) {
    let flags = if endpoint.is_selective() { msg.flags } else { reported(msg) };
    match msg.data {
        None => (flags.bits(), 0),
        Some(data) => ((flags | OpFlags::REMOTE_CQ_DATA).bits(), data.0),
    }
}

/// Some providers require `COMPLETION` even on an endpoint that reports every operation: they
/// ignore the binding where flags are given.
pub(super) fn reported(msg: &Msg<'_>) -> OpFlags {
    msg.flags | OpFlags::COMPLETION
}
