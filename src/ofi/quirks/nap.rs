//! Waiting without the provider, for queues and counters with unsafe wait calls.
//!
//! After a close, `fi_trywait`, `fi_cq_sread` and `fi_cntr_wait` of `ofi_rxm` and `ofi_rxd` read
//! freed memory (`…-sleep-after-an-endpoint-was-closed-crashes`), and the descriptor misses events.
//!
//! So a close marks the endpoint's queues and counters as [deserted](is_deserted), which are then
//! polled once a millisecond.

#![allow(unsafe_code, reason = "calls the C library, and marks the context of an open object")]

use core::ffi::{c_int, c_short, c_ulong, c_void};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use loom_core::vocabulary::Errno;

use crate::ofi::raw::Raw;
use crate::ofi::sys;

/// Bit of an object's context word that marks it as deserted.
/// [`PollSet`](crate::ofi::queue::sets::PollSet) stores an address in the others.
const DESERTED: usize = 1;

/// Word of an open object that libfabric stores for the application. loom opens objects with zero.
///
/// # Safety
/// The object is open.
unsafe fn context<'a>(fid: NonNull<sys::fid>) -> &'a AtomicPtr<c_void> {
    // SAFETY: the caller guarantees that the object is open, so that the pointer to its word is
    // valid and aligned.
    let word = unsafe { &raw mut (*fid.as_ptr()).context };
    // SAFETY: providers do not write the word. They read it in calls of the thread that uses the
    // object.
    unsafe { AtomicPtr::from_ptr(word) }
}

/// `true` if an endpoint was closed, which makes the provider's wait calls unsafe.
///
/// # Safety
/// The object is open.
pub(crate) unsafe fn is_deserted(fid: Raw<sys::fid>) -> bool {
    // SAFETY: the caller keeps the object open. Relaxed suffices: one thread at a time uses it and
    // its endpoints.
    unsafe { context(fid.pointer()) }.load(Ordering::Relaxed).addr() & DESERTED != 0
}

/// # Safety
/// The object is open.
pub(crate) unsafe fn set_name(fid: NonNull<sys::fid>) {
    // SAFETY: the caller keeps the object open.
    let word = unsafe { context(fid) };
    let mark = word.load(Ordering::Relaxed).addr() & DESERTED;
    word.store(fid.as_ptr().cast::<c_void>().map_addr(|name| name | mark), Ordering::Relaxed);
}

pub(crate) fn name(context: *const c_void) -> *const sys::fid {
    context.map_addr(|name| name & !DESERTED).cast()
}

#[derive(Debug)]
pub(crate) struct Deserts(heapless::Vec<Raw<sys::fid>, { Self::MOST }>);

impl Deserts {
    /// Two queues, and a counter of each kind of operation.
    const MOST: usize = 8;

    pub(crate) const fn none() -> Self {
        Deserts(heapless::Vec::new())
    }

    pub(crate) fn add(&mut self, fids: impl IntoIterator<Item = Raw<sys::fid>>) -> Result<(), Errno> {
        fids.into_iter().try_for_each(|fid| self.0.push(fid)).map_err(|_| Errno::EINVAL)
    }

    /// # Safety
    /// They are open.
    pub(crate) unsafe fn mark(&self) {
        for fid in &self.0 {
            // SAFETY: the caller keeps the objects open.
            let word = unsafe { context(fid.pointer()) };
            word.store(word.load(Ordering::Relaxed).map_addr(|name| name | DESERTED), Ordering::Relaxed);
        }
    }
}

#[repr(C)]
struct PollFd {
    fd: c_int,
    events: c_short,
    revents: c_short,
}

const POLLIN: c_short = 1;

unsafe extern "C" {
    fn poll(fds: *mut PollFd, count: c_ulong, milliseconds: c_int) -> c_int;
}

pub(crate) fn is_readable(fd: c_int) -> bool {
    let mut fd = PollFd { fd, events: POLLIN, revents: 0 };
    // SAFETY: the length is one entry. A descriptor that is not open is reported.
    unsafe { poll(&raw mut fd, 1, 0) > 0 }
}

/// A negative time is unlimited.
pub(crate) fn look_for<R>(milliseconds: c_int, mut look: impl FnMut() -> Option<R>) -> Option<R> {
    let mut left = milliseconds;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if left == 0 {
            return None;
        }
        // SAFETY: no entries. A signal ends the call early.
        unsafe { poll(ptr::null_mut(), 0, 1) };
        left -= c_int::from(left > 0);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn mark_and_name_share_a_word() {
        let mut object = sys::fid { fclass: 0, context: ptr::null_mut(), ops: ptr::null_mut() };
        let fid = NonNull::from(&mut object);
        let raw = Raw::opened(fid);
        // SAFETY: an object of the test, which no other code uses.
        let named = || name(unsafe { (*fid.as_ptr()).context });
        // SAFETY: an object of the test.
        let is_marked = || unsafe { is_deserted(raw) };
        let mut deserts = Deserts::none();
        deserts.add([raw]).unwrap();
        // SAFETY: an object of the test.
        unsafe { set_name(fid) };
        assert!(!is_marked());
        assert_eq!(named(), fid.as_ptr().cast_const());
        // SAFETY: an object of the test.
        unsafe {
            deserts.mark();
            set_name(fid);
        }
        assert!(is_marked(), "a name leaves the mark");
        assert_eq!(named(), fid.as_ptr().cast_const(), "a mark leaves the name");
        assert_eq!(deserts.add([raw; 8]), Err(Errno::EINVAL));
    }

    #[test]
    fn looks_until_something_is_found_or_the_time_has_passed() {
        let looks = |milliseconds, found_at: u32| {
            let mut looks = 0;
            let found = look_for(milliseconds, || {
                looks += 1;
                (looks == found_at).then_some(())
            });
            (looks, found.is_some())
        };
        assert_eq!(
            [looks(0, 1), looks(0, 2), looks(5, 9), looks(5, 3)],
            [(1, true), (1, false), (6, false), (3, true)]
        );
        assert_eq!(looks(-1, 4), (4, true));
    }
}
