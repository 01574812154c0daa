//! The C side: `raw.c`, which the build script compiles with `-O2`.

use std::ffi::{CString, c_char, c_int, c_long, c_void};
use std::time::Duration;

use loom_core::vocabulary::Errno;

use super::{FULL, LONGEST, Operation, Provider, SIZES, Side, timed, work};

type Run = unsafe extern "C" fn(*mut c_void, usize, c_long) -> c_int;

unsafe extern "C" {
    fn raw_open(provider: *const c_char, node: *const c_char, size: usize, raw: *mut *mut c_void) -> c_int;
    fn raw_close(raw: *mut c_void);
    fn raw_inject_size(raw: *const c_void) -> usize;
    fn raw_inject(raw: *mut c_void, len: usize, count: c_long) -> c_int;
    fn raw_message(raw: *mut c_void, len: usize, count: c_long) -> c_int;
    fn raw_tagged(raw: *mut c_void, len: usize, count: c_long) -> c_int;
    fn raw_unexpected(raw: *mut c_void, len: usize, count: c_long) -> c_int;
    fn raw_write(raw: *mut c_void, len: usize, count: c_long) -> c_int;
    fn raw_write_data(raw: *mut c_void, len: usize, count: c_long) -> c_int;
    fn raw_read(raw: *mut c_void, len: usize, count: c_long) -> c_int;
    fn raw_poll_empty(raw: *mut c_void, len: usize, count: c_long) -> c_int;
    fn raw_poll_full(raw: *mut c_void, batch: usize, count: c_long, took: *mut c_long) -> c_int;
}

/// Two endpoints of one provider, driven by C.
pub(crate) struct C {
    /// Open, or null.
    raw: *mut c_void,
}

impl C {
    /// Opens them, and does every operation some times.
    pub(crate) fn open(provider: Provider) -> Result<Self, String> {
        let name = CString::new(provider.name).map_err(|error| error.to_string())?;
        let node = provider.node.map(CString::new).transpose().map_err(|error| error.to_string())?;
        let node = node.as_ref().map_or(std::ptr::null(), |node| node.as_ptr());
        let mut raw = std::ptr::null_mut();
        // SAFETY: strings that end, or no node; a place for the result.
        let code = unsafe { raw_open(name.as_ptr(), node, LONGEST, &raw mut raw) };
        if code != 0 {
            return Err(format!("C over {}: {}", provider.name, Errno::from_raw(-code)));
        }
        let mut side = C { raw };
        for (operation, len) in work(side.inject_size()) {
            side.run(operation, len, 10);
        }
        Ok(side)
    }

    /// The longest message that can be injected.
    pub(crate) fn inject_size(&self) -> usize {
        // SAFETY: open.
        unsafe { raw_inject_size(self.raw) }
    }

    /// Nanoseconds of `count` completions.
    fn poll_full(&mut self, batch: usize, count: u32) -> Duration {
        let times = count.div_ceil(FULL as u32);
        let mut took = 0;
        // SAFETY: open; at most 64 of a batch fit; a place for the result.
        let code = unsafe { raw_poll_full(self.raw, batch.min(FULL), times.into(), &raw mut took) };
        assert_eq!(code, 0, "polling a full queue in C");
        let took = Duration::from_nanos(took.try_into().expect("time goes on"));
        took.mul_f64(f64::from(count) / f64::from(times * FULL as u32))
    }
}

impl Side for C {
    fn run(&mut self, operation: Operation, len: usize, count: u32) -> Duration {
        assert!(len == 0 || SIZES.contains(&len), "the buffers are that long");
        let run: Run = match operation {
            Operation::Inject => raw_inject,
            Operation::Message => raw_message,
            Operation::Tagged => raw_tagged,
            Operation::Unexpected => raw_unexpected,
            Operation::Write => raw_write,
            Operation::WriteData => raw_write_data,
            Operation::Read => raw_read,
            Operation::PollEmpty => raw_poll_empty,
            Operation::PollFull(batch) => return self.poll_full(batch, count),
        };
        timed(|| {
            // SAFETY: `raw` is open; its buffers have the longest of the lengths.
            let code = unsafe { run(self.raw, len, count.into()) };
            assert_eq!(code, 0, "{operation:?} in C");
        })
    }
}

impl Drop for C {
    fn drop(&mut self) {
        // SAFETY: open, and not used any more.
        unsafe { raw_close(self.raw) };
    }
}
