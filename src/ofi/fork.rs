//! The process that opened an object, and copies of objects in forked children.
//!
//! Closing a copy harms the parent (`tcp-close-in-a-forked-child-ends-the-parents-connection` and
//! others). So each [`Raw`](super::raw::Raw) pointer records its process, and
//! [`entry!`](super::ffi::call::entry) returns no function in another process: objects leak there.
//!
//! A handler of `pthread_atfork` numbers processes, and releases the locks of this module's
//! statics. Only opening a fabric and ending an object compare the process id, which detects a
//! child made without handlers (`clone`, `_Fork`).

#![allow(unsafe_code, reason = "registers a handler for forks, which releases the locks of other threads")]

use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, Ordering};

use super::quirks::{av_lock, shm_registry};
use super::raw::NUMBER;

unsafe extern "C" {
    pub(crate) safe fn getpid() -> c_int;
    fn pthread_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
    ) -> c_int;
}

static ID: AtomicI32 = AtomicI32::new(0);

/// Returns the number of this process, which differs in a forked child.
pub(super) fn process_number() -> u32 {
    unsafe extern "C" fn in_child() {
        // A child in its own namespace may have the process id of its parent.
        NUMBER.fetch_add(1, Ordering::Relaxed);
        ID.store(getpid(), Ordering::Relaxed);
        // SAFETY: a forked child has one thread. It does not hold the locks: calls that hold them
        // do not fork.
        unsafe { av_lock::release() };
        // SAFETY: that thread does not hold the lock.
        unsafe { shm_registry::start_anew() };
    }
    if ID.load(Ordering::Relaxed) == 0 {
        // SAFETY: the handler calls only functions that signal handlers may call. Registering it
        // twice is harmless.
        let code = unsafe { pthread_atfork(None, None, Some(in_child)) };
        if code == 0 {
            ID.store(getpid(), Ordering::Relaxed);
        }
    }
    NUMBER.load(Ordering::Relaxed)
}

/// Numbers a child made without handlers. Locks stay unchanged.
pub(crate) fn notice_fork() {
    let (noted, id) = (ID.load(Ordering::Relaxed), getpid());
    if noted != 0 && noted != id && ID.compare_exchange(noted, id, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        NUMBER.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use core::ptr::NonNull;
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;
    use crate::ofi::quirks::av_lock::AvLock;
    use crate::ofi::raw::Raw;

    unsafe extern "C" {
        safe fn fork() -> c_int;
        safe fn alarm(seconds: u32) -> u32;
        safe fn _exit(code: c_int) -> !;
        fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
    }

    #[test]
    fn locks_that_other_threads_hold_are_free_in_a_forked_child() {
        let av = Raw::opened(NonNull::dangling());
        let turn = AvLock::of(av);
        thread::scope(|scope| {
            let (holds, is_held) = channel();
            let (end, ends) = channel::<()>();
            scope.spawn(move || {
                turn.take(|| {
                    shm_registry::alone(|| {
                        holds.send(()).expect("the test waits");
                        let _ = ends.recv();
                    });
                });
            });
            is_held.recv().expect("the thread holds the locks");
            let child = fork();
            if child == 0 {
                alarm(20);
                let taken = turn.take(|| shm_registry::alone(|| true));
                _exit(i32::from(!taken || av.is_here() || !Raw::opened(av.pointer()).is_here()));
            }
            let mut status = -1;
            // SAFETY: the status is written in the call.
            let ended = unsafe { waitpid(child, &raw mut status, 0) };
            drop(end);
            assert!(child > 0 && ended == child && status == 0, "status of the child {child}: {status}");
        });
        assert!(av.is_here(), "the parent goes on");
    }
}
