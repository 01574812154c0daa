//! [`CompletionQueues`] and [`Counters`].

#![allow(unsafe_code, reason = "implements unsafe traits of the boundary")]

use core::alloc::Layout;
use core::ffi::c_int;
use core::ptr::NonNull;

use loom_core::transport::{CompletionQueues, CounterAttr, CounterWait, Counters, Event};
use loom_core::vocabulary::{Errno, WaitObj};

use super::{Tcp, TcpCounter, TcpCq, TcpDomain};
use crate::engine::Loss;
use crate::memory::Ring;

/// Returns `true` if an object has a descriptor to sleep on.
pub(super) fn waits(wait: WaitObj) -> Result<bool, Errno> {
    match wait {
        WaitObj::NONE => Ok(false),
        WaitObj::FD | WaitObj::UNSPEC => Ok(true),
        _ => Err(Errno::ENOSYS),
    }
}

// SAFETY: see `Transport`.
unsafe impl CompletionQueues for Tcp {
    type Cq = TcpCq;
    type Polled<'q> = Event;

    fn cq_layout(depth: usize) -> Layout {
        Ring::layout(depth)
    }

    unsafe fn cq_open(
        domain: &TcpDomain,
        depth: usize,
        _: bool,
        wait: WaitObj,
        memory: NonNull<u8>,
    ) -> Result<TcpCq, Errno> {
        let waits = waits(wait)?;
        // SAFETY: the memory has the layout of the depth, and stays with the queue (M1).
        let ring = unsafe { Ring::over(memory, depth) }.ok_or(Errno::EINVAL)?;
        // SAFETY: open (H1).
        let index = unsafe { domain.engine.get() }?.open_queue(ring, waits)?;
        Ok(TcpCq { engine: domain.engine, index })
    }

    unsafe fn cq_close(cq: &TcpCq) -> Result<(), Errno> {
        // SAFETY: open (H1).
        unsafe { cq.engine.get() }?.close_queue(cq.index);
        Ok(())
    }

    #[inline]
    unsafe fn cq_poll(cq: &TcpCq) -> Result<Option<Event>, Errno> {
        // SAFETY: open (H1).
        unsafe { cq.engine.get() }?.poll(cq.index)
    }

    unsafe fn cq_sleep(cq: &TcpCq, milliseconds: i32) -> Result<(), Errno> {
        // SAFETY: open (H1).
        let engine = unsafe { cq.engine.get() }?;
        if engine.may_sleep(cq.index)? { engine.progress(cq.index, milliseconds) } else { Ok(()) }
    }

    unsafe fn cq_wait_fd(cq: &TcpCq) -> Result<c_int, Errno> {
        // SAFETY: open (H1).
        unsafe { cq.engine.get() }?.wait_fd(cq.index)
    }

    unsafe fn cq_may_sleep(_: &TcpDomain, cq: &TcpCq) -> Result<bool, Errno> {
        // SAFETY: open (H1).
        unsafe { cq.engine.get() }?.may_sleep(cq.index)
    }

    unsafe fn cq_read_error(cq: &TcpCq) -> Result<Option<Event>, Errno> {
        // SAFETY: open (H1).
        Ok(unsafe { cq.engine.get() }?.next_event(cq.index))
    }

    unsafe fn cq_error_text(_: &TcpCq, provider_errno: i32, out: &mut [u8]) -> usize {
        let text = Loss::text(provider_errno).as_bytes();
        let len = text.len().min(out.len());
        out[..len].copy_from_slice(&text[..len]);
        len
    }
}

// SAFETY: see `Transport`.
unsafe impl Counters for Tcp {
    type Counter = TcpCounter;

    unsafe fn counter_open(domain: &TcpDomain, attr: CounterAttr) -> Result<TcpCounter, Errno> {
        let waits = waits(attr.wait)?;
        // SAFETY: open (H1).
        let index = unsafe { domain.engine.get() }?.open_counter(waits)?;
        Ok(TcpCounter { engine: domain.engine, index })
    }

    unsafe fn counter_close(counter: &TcpCounter) -> Result<(), Errno> {
        // SAFETY: open (H1).
        unsafe { counter.engine.get() }?.close_counter(counter.index);
        Ok(())
    }

    unsafe fn counter_read(counter: &TcpCounter) -> Result<u64, Errno> {
        // SAFETY: open (H1).
        Ok(unsafe { counter.engine.get() }?.counter(counter.index).value)
    }

    unsafe fn counter_read_error(counter: &TcpCounter) -> Result<u64, Errno> {
        // SAFETY: open (H1).
        Ok(unsafe { counter.engine.get() }?.counter(counter.index).errors)
    }

    unsafe fn counter_add(counter: &TcpCounter, value: u64) -> Result<(), Errno> {
        // SAFETY: open (H1).
        let engine = unsafe { counter.engine.get() }?;
        engine.change_counter(counter.index, |counter| counter.value = counter.value.wrapping_add(value));
        Ok(())
    }

    unsafe fn counter_add_error(counter: &TcpCounter, value: u64) -> Result<(), Errno> {
        // SAFETY: open (H1).
        let engine = unsafe { counter.engine.get() }?;
        engine.change_counter(counter.index, |counter| counter.errors = counter.errors.wrapping_add(value));
        Ok(())
    }

    unsafe fn counter_set(counter: &TcpCounter, value: u64) -> Result<(), Errno> {
        // SAFETY: open (H1).
        unsafe { counter.engine.get() }?.change_counter(counter.index, |counter| counter.value = value);
        Ok(())
    }

    unsafe fn counter_set_error(counter: &TcpCounter, value: u64) -> Result<(), Errno> {
        // SAFETY: open (H1).
        unsafe { counter.engine.get() }?.change_counter(counter.index, |counter| counter.errors = value);
        Ok(())
    }

    unsafe fn counter_wait(counter: &TcpCounter, threshold: u64, milliseconds: i32) -> Result<CounterWait, Errno> {
        // SAFETY: open (H1).
        unsafe { counter.engine.get() }?.await_counter(counter.index, threshold, milliseconds)
    }

    unsafe fn counter_wait_fd(counter: &TcpCounter) -> Result<c_int, Errno> {
        // SAFETY: open (H1).
        unsafe { counter.engine.get() }?.counter_fd(counter.index)
    }

    unsafe fn counter_may_sleep(_: &TcpDomain, counter: &TcpCounter) -> Result<bool, Errno> {
        // SAFETY: open (H1).
        unsafe { counter.engine.get() }?.may_await_counter(counter.index)
    }
}
