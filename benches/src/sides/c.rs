//! The C sides: `raw.c`, which the build script compiles with `-O2`.

use std::ffi::{CString, c_char, c_int, c_long, c_void};
use std::time::Duration;

use loom_core::vocabulary::Errno;
use loom_transfer::Block;

use crate::sets::parts;

use super::{FULL, LONGEST, Operation, Provider, SIZES, Side, timed, work};

type Run = unsafe extern "C" fn(*mut c_void, usize, c_long) -> c_int;

/// Functions of the loops in `raw.c`.
#[repr(C)]
struct Loops {
    open: unsafe extern "C" fn(*const c_char, *const c_char, usize, c_int, *mut *mut c_void) -> c_int,
    close: unsafe extern "C" fn(*mut c_void),
    inject_size: unsafe extern "C" fn(*const c_void) -> usize,
    poll_full: unsafe extern "C" fn(*mut c_void, usize, c_long, *mut c_long) -> c_int,
    inject: Run,
    message: Run,
    tagged: Run,
    unexpected: Run,
    write: Run,
    write_data: Run,
    read: Run,
    fetch_add: Run,
    poll_empty: Run,
    write_list: unsafe extern "C" fn(*mut c_void, *const Range, c_long) -> c_int,
}

/// Block of a list (`struct block`).
#[repr(C)]
struct Range {
    from: u64,
    to: u64,
    len: u64,
}

/// List of blocks within buffers of `area` bytes.
pub(crate) struct List {
    ranges: Vec<Range>,
    area: usize,
}

unsafe extern "C" {
    static raw_loops: Loops;
    static shim_loops: Loops;
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Calls {
    /// Calls libfabric's inline functions, as C does.
    Inline,
    /// Calls C functions that wrap them, as bindings without inline functions do.
    Shim,
}

pub(crate) struct C {
    loops: &'static Loops,
    /// Open loops, or null.
    raw: *mut c_void,
    /// Length of the buffers.
    area: usize,
}

impl C {
    /// Opens the loops, and does every operation some times.
    pub(crate) fn open(provider: Provider, calls: Calls) -> Result<Self, String> {
        let mut side = C::over(provider, calls, LONGEST)?;
        for (operation, len) in work(side.inject_size(), provider.atomics) {
            side.run(operation, len, 10);
        }
        Ok(side)
    }

    /// Opens the loops, with memory of `area` bytes.
    pub(crate) fn over(provider: Provider, calls: Calls, area: usize) -> Result<Self, String> {
        // SAFETY: constants.
        let loops = unsafe {
            match calls {
                Calls::Inline => &raw_loops,
                Calls::Shim => &shim_loops,
            }
        };
        let name = CString::new(provider.name).map_err(|error| error.to_string())?;
        let node = provider.node.map(CString::new).transpose().map_err(|error| error.to_string())?;
        let node = node.as_ref().map_or(std::ptr::null(), |node| node.as_ptr());
        let mut raw = std::ptr::null_mut();
        // SAFETY: terminated strings, or no node. Room for the result.
        let code = unsafe { (loops.open)(name.as_ptr(), node, area, provider.atomics.into(), &raw mut raw) };
        if code != 0 {
            return Err(format!("C over {}: {}", provider.name, Errno::from_raw(-code)));
        }
        Ok(C { loops, raw, area })
    }

    pub(crate) fn inject_size(&self) -> usize {
        // SAFETY: open.
        unsafe { (self.loops.inject_size)(self.raw) }
    }

    /// Returns a list within the buffers of this side.
    pub(crate) fn list(&self, blocks: &[Block]) -> List {
        let range = |&Block { local: from, remote: to, len }: &Block| {
            let fits = |at: u64| at.checked_add(len).is_some_and(|end| end <= self.area as u64);
            assert!(fits(from) && fits(to), "within the buffers");
            Range { from, to, len }
        };
        List { ranges: blocks.iter().map(range).collect(), area: self.area }
    }

    /// Does `count` writes of a list from block `first` on, several in flight, and again from its
    /// start after its end.
    pub(crate) fn write_list(&mut self, list: &List, first: usize, count: u32) -> Duration {
        assert!(list.area <= self.area, "a list for these buffers");
        let parts = parts(&list.ranges, first % list.ranges.len(), count);
        parts
            .map(|part| {
                timed(|| {
                    // SAFETY: `raw` is open, and `list` has checked the blocks.
                    let code = unsafe { (self.loops.write_list)(self.raw, part.as_ptr(), part.len() as c_long) };
                    assert_eq!(code, 0, "a list of writes in C");
                })
            })
            .sum()
    }

    /// Returns the duration of `count` completions.
    fn poll_full(&mut self, batch: usize, count: u32) -> Duration {
        let times = count.div_ceil(FULL as u32);
        let mut took = 0;
        // SAFETY: open. At most 64 of a batch fit. Room for the result.
        let code = unsafe { (self.loops.poll_full)(self.raw, batch.min(FULL), times.into(), &raw mut took) };
        assert_eq!(code, 0, "polling a full queue in C");
        let took = Duration::from_nanos(took.try_into().expect("time goes on"));
        took.mul_f64(f64::from(count) / f64::from(times * FULL as u32))
    }
}

impl Side for C {
    fn run(&mut self, operation: Operation, len: usize, count: u32) -> Duration {
        assert!(len == 0 || SIZES.contains(&len), "the buffers are that long");
        let run: Run = match operation {
            Operation::Inject => self.loops.inject,
            Operation::Message => self.loops.message,
            Operation::Tagged => self.loops.tagged,
            Operation::Unexpected => self.loops.unexpected,
            Operation::Write => self.loops.write,
            Operation::WriteData => self.loops.write_data,
            Operation::Read => self.loops.read,
            Operation::FetchAdd => self.loops.fetch_add,
            Operation::PollEmpty => self.loops.poll_empty,
            Operation::PollFull(batch) => return self.poll_full(batch, count),
        };
        timed(|| {
            // SAFETY: `raw` is open, and its buffers have the maximum length.
            let code = unsafe { run(self.raw, len, count.into()) };
            assert_eq!(code, 0, "{operation:?} in C");
        })
    }
}

impl Drop for C {
    fn drop(&mut self) {
        // SAFETY: open, and not used afterwards.
        unsafe { (self.loops.close)(self.raw) };
    }
}
