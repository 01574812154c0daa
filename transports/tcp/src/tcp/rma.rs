//! [`Rma`].

#![allow(unsafe_code, reason = "implements unsafe traits of the boundary")]

use loom_core::buffer::Lent;
use loom_core::transport::{Context, Msg, Refusal, RemotePart, Rma, RmaTarget};
use loom_core::vocabulary::{Errno, ImmediateData, OpFlags};

use super::{Tcp, TcpEndpoint};
use crate::attr::TcpAttr;
use crate::engine::Verb;
use crate::wire::{MAX_PARTS, Operation, RemoteRange};

fn one_range(target: RmaTarget, len: usize) -> heapless::Vec<RemoteRange, MAX_PARTS> {
    core::iter::once(RemoteRange { addr: target.addr.0, len: len as u64, key: target.key.0 }).collect()
}

fn ranges(remote: &[RemotePart]) -> Result<heapless::Vec<RemoteRange, MAX_PARTS>, Refusal> {
    let mut parts = heapless::Vec::new();
    for part in remote {
        let part = RemoteRange { addr: part.addr.0, len: part.len as u64, key: part.key.0 };
        parts.push(part).map_err(|_| Refusal::Errno(Errno::EINVAL))?;
    }
    Ok(parts)
}

// SAFETY: see `Transport`.
unsafe impl Rma for Tcp {
    unsafe fn read(endpoint: &TcpEndpoint, from: RmaTarget, piece: &Lent, context: Context) -> Result<(), Refusal> {
        let operation = Operation::ReadRequest { parts: one_range(from, piece.len) };
        // SAFETY: open (H1), and the memory valid (L1).
        unsafe { endpoint.post_piece(from.to, piece, (Verb::Read, operation), context) }
    }

    unsafe fn write(
        endpoint: &TcpEndpoint,
        to: RmaTarget,
        piece: &Lent,
        data: Option<ImmediateData>,
        context: Context,
    ) -> Result<(), Refusal> {
        let operation = Operation::Write { data: data.map(|data| data.0), parts: one_range(to, piece.len) };
        // SAFETY: open (H1), and the memory valid (L1).
        unsafe { endpoint.post_piece(to.to, piece, (Verb::Write, operation), context) }
    }

    unsafe fn inject_write(
        endpoint: &TcpEndpoint,
        to: RmaTarget,
        bytes: &[u8],
        data: Option<ImmediateData>,
    ) -> Result<(), Refusal> {
        if bytes.len() > TcpAttr::INJECT_SIZE {
            return Err(Refusal::Errno(Errno::EINVAL));
        }
        let operation = Operation::Write { data: data.map(|data| data.0), parts: one_range(to, bytes.len()) };
        // SAFETY: open (H1), and no memory is lent.
        unsafe { endpoint.post(TcpEndpoint::injected(to.to, bytes, (Verb::Write, operation))) }
    }

    unsafe fn readmsg(endpoint: &TcpEndpoint, msg: &Msg<'_>, remote: &[RemotePart]) -> Result<(), Refusal> {
        let operation = Operation::ReadRequest { parts: ranges(remote)? };
        // Requests for an acknowledgement would be copied into the response.
        let flags = msg.flags & (OpFlags::COMPLETION | OpFlags::MORE);
        // SAFETY: open (H1), and the memory valid (L1).
        unsafe { endpoint.post_msg(&Msg { flags, ..*msg }, (Verb::Read, operation)) }
    }

    unsafe fn writemsg(endpoint: &TcpEndpoint, msg: &Msg<'_>, remote: &[RemotePart]) -> Result<(), Refusal> {
        let operation = Operation::Write { data: msg.data.map(|data| data.0), parts: ranges(remote)? };
        // SAFETY: open (H1), and the memory valid (L1).
        unsafe { endpoint.post_msg(msg, (Verb::Write, operation)) }
    }
}
