//! Reads and writes of peers' memory, by the rules of [`message`](super::message).

#![allow(unsafe_code, reason = "calls libfabric, and implements the unsafe trait `Rma`")]

use loom_core::buffer::{IoVecs, Lent};
use loom_core::transport::{Context, Msg, Refusal, RemotePart, Rma, RmaTarget};
use loom_core::vocabulary::{Errno, ImmediateData};

use super::Endpoint;
use super::iov::{Iov, flags_and_data};
use crate::ofi::ffi::call::{Memory, entry, posted};
use crate::ofi::sys;
use crate::ofi::threading::Level;
use crate::ofi::transport::Ofi;

// SAFETY: see `Transport`.
unsafe impl<L: Level> Rma for Ofi<L> {
    #[inline]
    unsafe fn read(endpoint: &Endpoint<L>, from: RmaTarget, lent: &Lent, context: Context) -> Result<(), Refusal> {
        let (raw, Memory { start, len, descriptor }) = (endpoint.raw(), Memory::new(lent));
        let read = entry!(raw, rma => read)?;
        let context = context.as_ptr().cast();
        // SAFETY: H1, T1, L1–L4, O1–O3.
        posted(unsafe { read(raw.as_ptr(), start, len, descriptor, from.to.0, from.addr.0, from.key.0, context) })
    }

    #[inline(always)]
    unsafe fn write(
        endpoint: &Endpoint<L>,
        to: RmaTarget,
        lent: &Lent,
        data: Option<ImmediateData>,
        context: Context,
    ) -> Result<(), Refusal> {
        let (raw, Memory { start, len, descriptor }) = (endpoint.raw(), Memory::new(lent));
        let context = context.as_ptr().cast();
        match data {
            None => {
                let write = entry!(raw, rma => write)?;
                // SAFETY: H1, T1, L1–L4, O1–O3.
                posted(unsafe { write(raw.as_ptr(), start, len, descriptor, to.to.0, to.addr.0, to.key.0, context) })
            }
            Some(data) => {
                let write = entry!(raw, rma => writedata)?;
                // SAFETY: H1, T1, L1–L4, O1–O3.
                posted(unsafe {
                    write(raw.as_ptr(), start, len, descriptor, data.0, to.to.0, to.addr.0, to.key.0, context)
                })
            }
        }
    }

    #[inline]
    unsafe fn inject_write(
        endpoint: &Endpoint<L>,
        to: RmaTarget,
        bytes: &[u8],
        data: Option<ImmediateData>,
    ) -> Result<(), Refusal> {
        let (raw, start) = (endpoint.raw(), bytes.as_ptr().cast());
        match data {
            None => {
                let inject = entry!(raw, rma => inject)?;
                // SAFETY: H1, T1, L1–L4, O1–O3.
                posted(unsafe { inject(raw.as_ptr(), start, bytes.len(), to.to.0, to.addr.0, to.key.0) })
            }
            Some(data) => {
                let inject = entry!(raw, rma => injectdata)?;
                // SAFETY: H1, T1, L1–L4, O1–O3.
                posted(unsafe { inject(raw.as_ptr(), start, bytes.len(), data.0, to.to.0, to.addr.0, to.key.0) })
            }
        }
    }

    unsafe fn readmsg(endpoint: &Endpoint<L>, msg: &Msg<'_>, remote: &[RemotePart]) -> Result<(), Refusal> {
        let (raw, mut iov, (flags, data)) = (endpoint.raw(), Iov::of(msg)?, flags_and_data(endpoint, msg));
        let read = entry!(raw, rma => readmsg)?;
        let parts = remote_iov(remote)?;
        let message = rma(msg, &mut iov, data, &parts, remote.len());
        // SAFETY: H1, T1, L1–L4, O1–O3.
        posted(unsafe { read(raw.as_ptr(), &raw const message, flags) })
    }

    unsafe fn writemsg(endpoint: &Endpoint<L>, msg: &Msg<'_>, remote: &[RemotePart]) -> Result<(), Refusal> {
        let (raw, mut iov, (flags, data)) = (endpoint.raw(), Iov::of(msg)?, flags_and_data(endpoint, msg));
        let write = entry!(raw, rma => writemsg)?;
        let parts = remote_iov(remote)?;
        let message = rma(msg, &mut iov, data, &parts, remote.len());
        // SAFETY: H1, T1, L1–L4, O1–O3.
        posted(unsafe { write(raw.as_ptr(), &raw const message, flags) })
    }
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
