//! A bell for the model checker, which has no sleeping threads: it counts how often it was rung.

use core::ffi::c_int;

use crate::sync::{AtomicU32, Ordering};
use crate::vocabulary::{Errno, WaitObj};

#[derive(Debug)]
pub(in crate::soft) struct Bell {
    pub(in crate::soft) rung: AtomicU32,
    pub(in crate::soft) shown: AtomicU32,
}

impl Bell {
    #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
    pub(in crate::soft) fn new(_: WaitObj) -> Result<Self, Errno> {
        Ok(Bell { rung: AtomicU32::new(0), shown: AtomicU32::new(0) })
    }

    // Relaxed, all: models look when every thread has ended.
    pub(in crate::soft) fn ring(&self) {
        self.rung.fetch_add(1, Ordering::Relaxed);
    }

    pub(in crate::soft) fn show(&self) {
        self.shown.fetch_add(1, Ordering::Relaxed);
    }

    pub(in crate::soft) fn hide(&self) {
        self.shown.store(0, Ordering::Relaxed);
    }

    pub(in crate::soft) fn wait(&self, _: &Left) -> bool {
        self.rung.swap(0, Ordering::Relaxed) > 0
    }

    #[expect(clippy::unused_self, reason = "as the real one")]
    pub(in crate::soft) fn descriptor(&self) -> Result<c_int, Errno> {
        Err(Errno::ENOSYS)
    }
}

/// How long a sleep may still last.
#[derive(Debug)]
pub(in crate::soft) struct Left;

impl Left {
    pub(in crate::soft) const fn milliseconds(_: i32) -> Self {
        Left
    }
}
