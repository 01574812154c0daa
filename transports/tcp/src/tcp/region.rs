//! [`MemoryRegions`].

#![allow(unsafe_code, reason = "implements unsafe traits of the boundary")]

use core::ptr::NonNull;

use loom_core::buffer::Lent;
use loom_core::transport::{MemoryRegions, RegionAttr};
use loom_core::vocabulary::{Errno, MemoryKey, MrFlags};

use super::{Tcp, TcpCounter, TcpDomain, TcpEndpoint, TcpMr};
use crate::memory::Span;

// SAFETY: see `Transport`.
unsafe impl MemoryRegions for Tcp {
    type Mr = TcpMr;
    const MR_CLOSE_FENCES: bool = true;

    unsafe fn mr_open(domain: &TcpDomain, memory: &Lent, attr: RegionAttr) -> Result<TcpMr, Errno> {
        if attr.dmabuf.is_some() || attr.flags != MrFlags::empty() {
            return Err(Errno::EOPNOTSUPP);
        }
        // SAFETY: the memory stays until the region is closed (M3), or is not reached (M2).
        let span = unsafe { Span::new(memory.ptr, memory.len) };
        // SAFETY: open (H1).
        let (index, key) = unsafe { domain.engine.get() }?.open_region(span, attr.access)?;
        Ok(TcpMr { engine: domain.engine, index, key })
    }

    unsafe fn mr_bind_endpoint(_: &mut TcpMr, _: &TcpEndpoint) -> Result<(), Errno> {
        Err(Errno::ENOSYS)
    }

    unsafe fn mr_bind_counter(mr: &mut TcpMr, counter: &TcpCounter) -> Result<(), Errno> {
        // SAFETY: open (H1).
        unsafe { mr.engine.get() }?.bind_region(mr.index, counter.index);
        Ok(())
    }

    unsafe fn mr_enable(_: &mut TcpMr) -> Result<(), Errno> {
        Ok(())
    }

    unsafe fn mr_refresh(_: &TcpMr, _: NonNull<u8>, _: usize) -> Result<(), Errno> {
        Ok(())
    }

    fn mr_key(mr: &TcpMr) -> MemoryKey {
        MemoryKey(mr.key)
    }

    fn mr_descriptor(_: &TcpMr) -> usize {
        0
    }

    unsafe fn mr_close(mr: &TcpMr) -> Result<(), Errno> {
        // SAFETY: open (H1).
        unsafe { mr.engine.get() }?.close_region(mr.index);
        Ok(())
    }
}
