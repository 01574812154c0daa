//! [`Atomics`], which the protocol lacks.

#![allow(unsafe_code, reason = "implements unsafe traits of the boundary")]

use loom_core::atomic::Atomic;
use loom_core::buffer::Lent;
use loom_core::transport::{AtomicAttr, AtomicRanges, Atomics, Context, Msg, Refusal, RemotePart, RmaTarget};
use loom_core::vocabulary::Errno;

use super::{Tcp, TcpDomain, TcpEndpoint};

// SAFETY: see `Transport`. The protocol has no atomic operations.
unsafe impl Atomics for Tcp {
    unsafe fn query_atomic(_: &TcpDomain, _: Atomic) -> Result<AtomicAttr, Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    unsafe fn atomic(_: &TcpEndpoint, _: RmaTarget, _: &Lent, _: Atomic, _: Context) -> Result<(), Refusal> {
        Err(Refusal::Errno(Errno::EOPNOTSUPP))
    }

    unsafe fn inject_atomic(_: &TcpEndpoint, _: RmaTarget, _: &[u8], _: Atomic) -> Result<(), Refusal> {
        Err(Refusal::Errno(Errno::EOPNOTSUPP))
    }

    unsafe fn fetch_atomic(
        _: &TcpEndpoint,
        _: RmaTarget,
        _: &Lent,
        _: &Lent,
        _: Atomic,
        _: Context,
    ) -> Result<(), Refusal> {
        Err(Refusal::Errno(Errno::EOPNOTSUPP))
    }

    unsafe fn compare_atomic(
        _: &TcpEndpoint,
        _: RmaTarget,
        _: [&Lent; 3],
        _: Atomic,
        _: Context,
    ) -> Result<(), Refusal> {
        Err(Refusal::Errno(Errno::EOPNOTSUPP))
    }

    unsafe fn atomicmsg(
        _: &TcpEndpoint,
        _: &Msg<'_>,
        _: AtomicRanges<'_>,
        _: &[RemotePart],
        _: Atomic,
    ) -> Result<(), Refusal> {
        Err(Refusal::Errno(Errno::EOPNOTSUPP))
    }
}
