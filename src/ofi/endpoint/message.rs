//! Messages, through the endpoint's table.
//!
//! Every `unsafe fn` relies on H1, T1, L1 to L4 and O1 to O3 of the [contract of
//! callers](loom_core::transport#contract-of-callers). libfabric reads messages and arrays, and
//! copies injected bytes, in the call.

#![allow(unsafe_code, reason = "calls libfabric, and implements the unsafe trait `Messages`")]

use loom_core::buffer::Lent;
use loom_core::transport::{Context, Messages, Msg, Refusal};
use loom_core::vocabulary::{FabricAddr, ImmediateData, Tag, TagMatch};

use super::Endpoint;
use super::iov::{Iov, flags_and_data, reported};
use crate::ofi::ffi::call::{Memory, entry, posted};
use crate::ofi::quirks::overrun::Longer;
use crate::ofi::sys;
use crate::ofi::threading::Level;
use crate::ofi::transport::Ofi;

// SAFETY: see `Transport`.
unsafe impl<L: Level> Messages for Ofi<L> {
    // Inlined: tag and data are constants of the caller.
    #[inline(always)]
    unsafe fn send(
        endpoint: &Endpoint<L>,
        to: FabricAddr,
        lent: &Lent,
        tag: Option<Tag>,
        data: Option<ImmediateData>,
        context: Context,
    ) -> Result<(), Refusal> {
        let (raw, Memory { start, len, descriptor }) = (endpoint.raw(), Memory::new(lent));
        let context = context.as_ptr().cast();
        match (tag, data) {
            (None, None) => {
                let send = entry!(raw, msg => send)?;
                // SAFETY: H1, T1, L1–L4, O1–O3.
                posted(unsafe { send(raw.as_ptr(), start, len, descriptor, to.0, context) })
            }
            (None, Some(data)) => {
                let send = entry!(raw, msg => senddata)?;
                // SAFETY: H1, T1, L1–L4, O1–O3.
                posted(unsafe { send(raw.as_ptr(), start, len, descriptor, data.0, to.0, context) })
            }
            (Some(tag), None) => {
                let send = entry!(raw, tagged => send)?;
                // SAFETY: H1, T1, L1–L4, O1–O3.
                posted(unsafe { send(raw.as_ptr(), start, len, descriptor, to.0, tag.0, context) })
            }
            (Some(tag), Some(data)) => {
                let send = entry!(raw, tagged => senddata)?;
                // SAFETY: H1, T1, L1–L4, O1–O3.
                posted(unsafe { send(raw.as_ptr(), start, len, descriptor, data.0, to.0, tag.0, context) })
            }
        }
    }

    #[inline(always)]
    unsafe fn inject(
        endpoint: &Endpoint<L>,
        to: FabricAddr,
        bytes: &[u8],
        tag: Option<Tag>,
        data: Option<ImmediateData>,
    ) -> Result<(), Refusal> {
        let (raw, start, len) = (endpoint.raw(), bytes.as_ptr().cast(), bytes.len());
        match (tag, data) {
            (None, None) => {
                let inject = entry!(raw, msg => inject)?;
                // SAFETY: H1, T1, L1–L4, O1–O3.
                posted(unsafe { inject(raw.as_ptr(), start, len, to.0) })
            }
            (None, Some(data)) => {
                let inject = entry!(raw, msg => injectdata)?;
                // SAFETY: H1, T1, L1–L4, O1–O3.
                posted(unsafe { inject(raw.as_ptr(), start, len, data.0, to.0) })
            }
            (Some(tag), None) => {
                let inject = entry!(raw, tagged => inject)?;
                // SAFETY: H1, T1, L1–L4, O1–O3.
                posted(unsafe { inject(raw.as_ptr(), start, len, to.0, tag.0) })
            }
            (Some(tag), Some(data)) => {
                let inject = entry!(raw, tagged => injectdata)?;
                // SAFETY: H1, T1, L1–L4, O1–O3.
                posted(unsafe { inject(raw.as_ptr(), start, len, data.0, to.0, tag.0) })
            }
        }
    }

    #[inline(always)]
    unsafe fn recv(
        endpoint: &Endpoint<L>,
        from: FabricAddr,
        lent: &Lent,
        tag: Option<TagMatch>,
        context: Context,
    ) -> Result<(), Refusal> {
        match tag {
            // SAFETY: H1, T1, L1–L4, O1–O3.
            None => unsafe { recv(endpoint, from, lent, context) },
            // SAFETY: H1, T1, L1–L4, O1–O3.
            Some(tag) => unsafe { tagged_recv(endpoint, from, lent, tag, context) },
        }
    }

    unsafe fn sendmsg(endpoint: &Endpoint<L>, msg: &Msg<'_>, tag: Option<Tag>) -> Result<(), Refusal> {
        let (raw, mut iov, (flags, data)) = (endpoint.raw(), Iov::of(msg)?, flags_and_data(endpoint, msg));
        match tag {
            None => {
                let send = entry!(raw, msg => sendmsg)?;
                let message = message(msg, &mut iov, data);
                // SAFETY: H1, T1, L1–L4, O1–O3.
                posted(unsafe { send(raw.as_ptr(), &raw const message, flags) })
            }
            Some(tag) => {
                let send = entry!(raw, tagged => sendmsg)?;
                let message = tagged(msg, &mut iov, data, tag.into());
                // SAFETY: H1, T1, L1–L4, O1–O3.
                posted(unsafe { send(raw.as_ptr(), &raw const message, flags) })
            }
        }
    }

    unsafe fn recvmsg(endpoint: &Endpoint<L>, msg: &Msg<'_>, tag: Option<TagMatch>) -> Result<(), Refusal> {
        let (raw, mut iov, flags) = (endpoint.raw(), Iov::of_receive(endpoint, msg)?, reported(msg).bits());
        match tag {
            None => {
                let recv = entry!(raw, msg => recvmsg)?;
                let message = message(msg, &mut iov, 0);
                // SAFETY: H1, T1, L1–L4, O1–O3.
                posted(unsafe { recv(raw.as_ptr(), &raw const message, flags) })
            }
            Some(tag) => {
                let recv = entry!(raw, tagged => recvmsg)?;
                let message = tagged(msg, &mut iov, 0, tag);
                // SAFETY: H1, T1, L1–L4, O1–O3.
                posted(unsafe { recv(raw.as_ptr(), &raw const message, flags) })
            }
        }
    }
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

/// Not inlined, to save registers of the caller.
///
/// # Safety
/// Those of [`Messages::recv`].
#[inline(never)]
unsafe fn recv<L: Level>(
    endpoint: &Endpoint<L>,
    from: FabricAddr,
    lent: &Lent,
    context: Context,
) -> Result<(), Refusal> {
    let (raw, context) = (endpoint.raw(), context.as_ptr().cast());
    if endpoint.overruns() {
        let Longer { pieces, mut descriptors, count } = Longer::new(lent);
        let (pieces, descriptors) = (pieces.as_ptr(), descriptors.as_mut_ptr());
        let recv = entry!(raw, msg => recvv)?;
        // SAFETY: H1, T1, L1–L4, O1–O3.
        return posted(unsafe { recv(raw.as_ptr(), pieces, descriptors, count, from.0, context) });
    }
    let Memory { start, len, descriptor } = Memory::new(lent);
    let recv = entry!(raw, msg => recv)?;
    // SAFETY: H1, T1, L1–L4, O1–O3.
    posted(unsafe { recv(raw.as_ptr(), start, len, descriptor, from.0, context) })
}

/// # Safety
/// Those of [`Messages::recv`].
#[inline(never)]
unsafe fn tagged_recv<L: Level>(
    endpoint: &Endpoint<L>,
    from: FabricAddr,
    lent: &Lent,
    TagMatch { tag, ignore }: TagMatch,
    context: Context,
) -> Result<(), Refusal> {
    let (raw, context) = (endpoint.raw(), context.as_ptr().cast());
    if endpoint.overruns() {
        let Longer { pieces, mut descriptors, count } = Longer::new(lent);
        let (pieces, descriptors) = (pieces.as_ptr(), descriptors.as_mut_ptr());
        let recv = entry!(raw, tagged => recvv)?;
        // SAFETY: H1, T1, L1–L4, O1–O3.
        return posted(unsafe { recv(raw.as_ptr(), pieces, descriptors, count, from.0, tag.0, ignore, context) });
    }
    let Memory { start, len, descriptor } = Memory::new(lent);
    let recv = entry!(raw, tagged => recv)?;
    // SAFETY: H1, T1, L1–L4, O1–O3.
    posted(unsafe { recv(raw.as_ptr(), start, len, descriptor, from.0, tag.0, ignore, context) })
}
