//! Posting operations: one indirect call each, through the endpoint's operation tables.
//!
//! Every `unsafe fn` here relies on the
//! [contract of callers](loom_core::transport#contract-of-callers): the endpoint is open (H1), one
//! thread uses it (T1), lent memory and the context's space stay valid until the event or the close
//! (L1, L2), and addresses come from the endpoint's vector (O1). `inject` copies its bytes before
//! it returns.

#![allow(unsafe_code, reason = "calls libfabric")]

use core::ffi::c_void;
use core::ptr;

use loom_core::buffer::Lent;
use loom_core::transport::{Context, Refusal, RmaTarget};
use loom_core::vocabulary::{FabricAddr, ImmediateData, Tag, TagMatch};

use super::Endpoint;
use crate::ofi::ffi::call::{entry, posted};
use crate::ofi::quirks::overrun::Longer;

type Posted = Result<(), Refusal>;

#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) start: *mut c_void,
    pub(crate) len: usize,
    pub(crate) descriptor: *mut c_void,
}

impl Memory {
    #[inline]
    pub(crate) fn new(lent: &Lent) -> Self {
        let descriptor = match lent.descriptor() {
            // `mr_open` exposed its provenance.
            Some(descriptor) => ptr::with_exposed_provenance_mut(descriptor.raw()),
            None => ptr::null_mut(),
        };
        Memory { start: lent.ptr().as_ptr().cast(), len: lent.len(), descriptor }
    }
}

#[inline]
pub(crate) unsafe fn send<L>(
    endpoint: &Endpoint<L>,
    to: FabricAddr,
    lent: &Lent,
    data: Option<ImmediateData>,
    context: Context,
) -> Posted {
    let (raw, memory, context) = (endpoint.raw(), Memory::new(lent), context.as_ptr().cast());
    match data {
        None => {
            let send = entry!(raw, msg => send)?;
            // SAFETY: H1, T1 and L1 to L4, O1 to O3.
            posted(unsafe { send(raw.as_ptr(), memory.start, memory.len, memory.descriptor, to.0, context) })
        }
        Some(data) => {
            let send = entry!(raw, msg => senddata)?;
            // SAFETY: H1, T1 and L1 to L4, O1 to O3.
            posted(unsafe { send(raw.as_ptr(), memory.start, memory.len, memory.descriptor, data.0, to.0, context) })
        }
    }
}

#[inline]
pub(crate) unsafe fn inject<L>(
    endpoint: &Endpoint<L>,
    to: FabricAddr,
    bytes: &[u8],
    data: Option<ImmediateData>,
) -> Posted {
    let (raw, start) = (endpoint.raw(), bytes.as_ptr().cast());
    match data {
        None => {
            let inject = entry!(raw, msg => inject)?;
            // SAFETY: H1, T1 and L1 to L4, O1 to O3.
            posted(unsafe { inject(raw.as_ptr(), start, bytes.len(), to.0) })
        }
        Some(data) => {
            let inject = entry!(raw, msg => injectdata)?;
            // SAFETY: H1, T1 and L1 to L4, O1 to O3.
            posted(unsafe { inject(raw.as_ptr(), start, bytes.len(), data.0, to.0) })
        }
    }
}

#[inline]
pub(crate) unsafe fn recv<L>(endpoint: &Endpoint<L>, from: FabricAddr, lent: &Lent, context: Context) -> Posted {
    let (raw, memory) = (endpoint.raw(), Memory::new(lent));
    let context = context.as_ptr().cast();
    if endpoint.overruns() {
        let longer = Longer::new(lent);
        let recvv = entry!(raw, msg => recvv)?;
        let (pieces, mut descriptors) = (longer.pieces.as_ptr(), longer.descriptors);
        // SAFETY: H1, T1 and L1 to L4, O1 to O3. The arrays are read in the call.
        return posted(unsafe { recvv(raw.as_ptr(), pieces, descriptors.as_mut_ptr(), longer.count, from.0, context) });
    }
    let recv = entry!(raw, msg => recv)?;
    // SAFETY: H1, T1 and L1 to L4, O1 to O3.
    posted(unsafe { recv(raw.as_ptr(), memory.start, memory.len, memory.descriptor, from.0, context) })
}

#[inline]
pub(crate) unsafe fn tagged_send<L>(
    endpoint: &Endpoint<L>,
    to: FabricAddr,
    lent: &Lent,
    data: Option<ImmediateData>,
    tag: Tag,
    context: Context,
) -> Posted {
    let (raw, Memory { start, len, descriptor }) = (endpoint.raw(), Memory::new(lent));
    let context = context.as_ptr().cast();
    match data {
        None => {
            let send = entry!(raw, tagged => send)?;
            // SAFETY: H1, T1 and L1 to L4, O1 to O3.
            posted(unsafe { send(raw.as_ptr(), start, len, descriptor, to.0, tag.0, context) })
        }
        Some(data) => {
            let send = entry!(raw, tagged => senddata)?;
            // SAFETY: H1, T1 and L1 to L4, O1 to O3.
            posted(unsafe { send(raw.as_ptr(), start, len, descriptor, data.0, to.0, tag.0, context) })
        }
    }
}

#[inline]
pub(crate) unsafe fn tagged_inject<L>(
    endpoint: &Endpoint<L>,
    to: FabricAddr,
    bytes: &[u8],
    data: Option<ImmediateData>,
    tag: Tag,
) -> Posted {
    let (raw, start) = (endpoint.raw(), bytes.as_ptr().cast());
    match data {
        None => {
            let inject = entry!(raw, tagged => inject)?;
            // SAFETY: H1, T1 and L1 to L4, O1 to O3.
            posted(unsafe { inject(raw.as_ptr(), start, bytes.len(), to.0, tag.0) })
        }
        Some(data) => {
            let inject = entry!(raw, tagged => injectdata)?;
            // SAFETY: H1, T1 and L1 to L4, O1 to O3.
            posted(unsafe { inject(raw.as_ptr(), start, bytes.len(), data.0, to.0, tag.0) })
        }
    }
}

#[inline]
pub(crate) unsafe fn tagged_recv<L>(
    endpoint: &Endpoint<L>,
    from: FabricAddr,
    lent: &Lent,
    tag: TagMatch,
    context: Context,
) -> Posted {
    let (raw, Memory { start, len, descriptor }) = (endpoint.raw(), Memory::new(lent));
    let context = context.as_ptr().cast();
    if endpoint.overruns() {
        let longer = Longer::new(lent);
        let recvv = entry!(raw, tagged => recvv)?;
        let (pieces, mut descriptors) = (longer.pieces.as_ptr(), longer.descriptors);
        let descriptors = descriptors.as_mut_ptr();
        // SAFETY: H1, T1 and L1 to L4, O1 to O3. The arrays are read in the call.
        return posted(unsafe {
            recvv(raw.as_ptr(), pieces, descriptors, longer.count, from.0, tag.tag.0, tag.ignore, context)
        });
    }
    let recv = entry!(raw, tagged => recv)?;
    // SAFETY: H1, T1 and L1 to L4, O1 to O3.
    posted(unsafe { recv(raw.as_ptr(), start, len, descriptor, from.0, tag.tag.0, tag.ignore, context) })
}

#[inline]
pub(crate) unsafe fn read<L>(endpoint: &Endpoint<L>, from: RmaTarget, lent: &Lent, context: Context) -> Posted {
    let (raw, Memory { start, len, descriptor }) = (endpoint.raw(), Memory::new(lent));
    let read = entry!(raw, rma => read)?;
    let context = context.as_ptr().cast();
    // SAFETY: H1, T1 and L1 to L4, O1 to O3.
    posted(unsafe { read(raw.as_ptr(), start, len, descriptor, from.to.0, from.addr.0, from.key.0, context) })
}

#[inline]
pub(crate) unsafe fn write<L>(
    endpoint: &Endpoint<L>,
    to: RmaTarget,
    lent: &Lent,
    data: Option<ImmediateData>,
    context: Context,
) -> Posted {
    let (raw, Memory { start, len, descriptor }) = (endpoint.raw(), Memory::new(lent));
    let context = context.as_ptr().cast();
    match data {
        None => {
            let write = entry!(raw, rma => write)?;
            // SAFETY: H1, T1 and L1 to L4, O1 to O3.
            posted(unsafe { write(raw.as_ptr(), start, len, descriptor, to.to.0, to.addr.0, to.key.0, context) })
        }
        Some(data) => {
            let write = entry!(raw, rma => writedata)?;
            // SAFETY: H1, T1 and L1 to L4, O1 to O3.
            posted(unsafe {
                write(raw.as_ptr(), start, len, descriptor, data.0, to.to.0, to.addr.0, to.key.0, context)
            })
        }
    }
}

#[inline]
pub(crate) unsafe fn inject_write<L>(
    endpoint: &Endpoint<L>,
    to: RmaTarget,
    bytes: &[u8],
    data: Option<ImmediateData>,
) -> Posted {
    let (raw, start) = (endpoint.raw(), bytes.as_ptr().cast());
    match data {
        None => {
            let inject = entry!(raw, rma => inject)?;
            // SAFETY: H1, T1 and L1 to L4, O1 to O3.
            posted(unsafe { inject(raw.as_ptr(), start, bytes.len(), to.to.0, to.addr.0, to.key.0) })
        }
        Some(data) => {
            let inject = entry!(raw, rma => injectdata)?;
            // SAFETY: H1, T1 and L1 to L4, O1 to O3.
            posted(unsafe { inject(raw.as_ptr(), start, bytes.len(), data.0, to.to.0, to.addr.0, to.key.0) })
        }
    }
}
