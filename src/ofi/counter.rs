#![allow(unsafe_code, reason = "calls libfabric")]

use core::ffi::c_int;
use core::ptr;

use loom_core::transport::{CounterAttr, CounterWait, Counters};
use loom_core::vocabulary::Errno;

use super::control::{close, opened, try_wait, wait_fd};
use super::fabric::Domain;
use super::ffi::call::{Padded, done, entry, later_entry};
use super::quirks::nap;
use super::raw::Raw;
use super::threading::{Handle, Level};
use super::transport::Ofi;
use super::{quirks, sys};

/// A counter, raw.
#[doc(alias = "fid_cntr")]
#[derive(Debug)]
pub struct Counter<L>(Handle<sys::fid_cntr, L>);

impl<L> Counter<L> {
    pub(crate) fn of(raw: Raw<sys::fid_cntr>) -> Self {
        Counter(Handle::new(raw))
    }

    pub(crate) const fn fid(&self) -> Raw<sys::fid> {
        self.0.fid()
    }
}

/// A method that changes a counter.
macro_rules! change {
    ($name:ident, $entry:ident) => {
        unsafe fn $name(counter: &Counter<L>, value: u64) -> Result<(), Errno> {
            let raw = counter.0.raw();
            let change = later_entry!(raw, ops: sys::fi_ops_cntr => $entry)?;
            // SAFETY: open (H1).
            done(unsafe { change(raw.as_ptr(), value) })
        }
    };
}

// SAFETY: see `Transport`.
unsafe impl<L: Level> Counters for Ofi<L> {
    type Counter = Counter<L>;

    unsafe fn counter_open(domain: &Domain<L>, attr: CounterAttr) -> Result<Counter<L>, Errno> {
        if !quirks::can_sleep(attr.wait, domain.sleeps()) {
            return Err(Errno::ENOSYS);
        }
        let raw_domain = domain.raw();
        let open = entry!(raw_domain, ops => cntr_open)?;
        // Providers that cannot count bytes accept the request, and count operations.
        let mut attributes = Padded::new(sys::fi_cntr_attr {
            events: sys::FI_CNTR_EVENTS_COMP,
            wait_obj: attr.wait.as_raw(),
            ..Default::default()
        });
        let mut raw = ptr::null_mut();
        // SAFETY: open (H1). The call keeps no pointer.
        let code = unsafe { open(raw_domain.as_ptr(), attributes.as_mut_ptr(), &raw mut raw, ptr::null_mut()) };
        opened(code, raw).map(Counter::of)
    }

    unsafe fn counter_close(counter: &Counter<L>) -> Result<(), Errno> {
        // SAFETY: the counter is closed once (H1–H3).
        unsafe { close(counter.fid()) }
    }

    unsafe fn counter_read(counter: &Counter<L>) -> Result<u64, Errno> {
        let raw = counter.0.raw();
        let read = entry!(raw, ops => read)?;
        // SAFETY: open (H1).
        Ok(unsafe { read(raw.as_ptr()) })
    }

    unsafe fn counter_read_error(counter: &Counter<L>) -> Result<u64, Errno> {
        let raw = counter.0.raw();
        let read = entry!(raw, ops => readerr)?;
        // SAFETY: open (H1).
        Ok(unsafe { read(raw.as_ptr()) })
    }

    change!(counter_add, add);
    change!(counter_add_error, adderr);
    change!(counter_set, set);
    change!(counter_set_error, seterr);

    unsafe fn counter_wait(counter: &Counter<L>, threshold: u64, milliseconds: i32) -> Result<CounterWait, Errno> {
        let raw = counter.0.raw();
        // SAFETY: open (H1).
        if unsafe { nap::is_deserted(counter.fid()) } {
            // SAFETY: open (H1).
            return unsafe { poll_for(counter, threshold, milliseconds) };
        }
        let wait = entry!(raw, ops => wait)?;
        // SAFETY: open (H1), with a wait object.
        let code = unsafe { wait(raw.as_ptr(), threshold, milliseconds) };
        // `sockets` 1.17 returns the wrong sign, and does not wait.
        match done(code.saturating_abs().saturating_neg()) {
            // `sockets` compares thresholds as signed numbers.
            // SAFETY: open (H1).
            Ok(()) if unsafe { Ofi::counter_read(counter) }? < threshold => Ok(CounterWait::TimeIsOver),
            Ok(()) => Ok(CounterWait::Reached),
            Err(Errno::ETIMEDOUT | Errno::EAGAIN | Errno::EINTR) => Ok(CounterWait::TimeIsOver),
            Err(Errno::EAVAIL) => Ok(CounterWait::OperationFailed),
            Err(errno) => Err(errno),
        }
    }

    unsafe fn counter_wait_fd(counter: &Counter<L>) -> Result<c_int, Errno> {
        // SAFETY: open (H1), with a file descriptor.
        unsafe { wait_fd(counter.fid()) }
    }

    unsafe fn counter_may_sleep(domain: &Domain<L>, counter: &Counter<L>) -> Result<bool, Errno> {
        // SAFETY: open (H1).
        if unsafe { nap::is_deserted(counter.fid()) } {
            nap::look_for(1, || None::<()>);
            return Ok(false);
        }
        // SAFETY: open (H1).
        if unsafe { domain.is_left_readable(counter.fid()) } {
            // SAFETY: open (H1). The counter never reaches this threshold.
            unsafe { Self::counter_wait(counter, u64::MAX / 2, 1) }?;
            return Ok(false);
        }
        // SAFETY: open (H1), in this domain.
        unsafe { try_wait(domain, counter.fid()) }
    }

    unsafe fn counter_naps(counter: &Counter<L>) -> bool {
        // SAFETY: open (H1).
        unsafe { nap::is_deserted(counter.fid()) }
    }
}

unsafe fn poll_for<L: Level>(counter: &Counter<L>, threshold: u64, milliseconds: c_int) -> Result<CounterWait, Errno> {
    // SAFETY: open (H1).
    let failures = || unsafe { Ofi::counter_read_error(counter) };
    let before = failures()?;
    let look = || {
        // SAFETY: open (H1).
        if unsafe { Ofi::counter_read(counter) }? >= threshold {
            return Ok(Some(CounterWait::Reached));
        }
        Ok((failures()? != before).then_some(CounterWait::OperationFailed))
    };
    nap::look_for(milliseconds, || look().transpose()).unwrap_or(Ok(CounterWait::TimeIsOver))
}
