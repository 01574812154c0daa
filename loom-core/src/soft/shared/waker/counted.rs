//! [`Bell`] for the model checker. It counts its rings.

use core::ffi::c_int;

use crate::util::sync::{AtomicU32, Ordering};
use crate::vocabulary::{Errno, WaitObj};

#[derive(Debug)]
pub(crate) struct Bell {
    rung: AtomicU32,
    shown: AtomicU32,
    /// Plain memory with the lifetime of the bell.
    alive: loom::cell::UnsafeCell<bool>,
}

// SAFETY: the models test the accesses to `alive`, and the checker fails on two accesses without
// order.
#[allow(unsafe_code, reason = "plain memory that the checker looks at")]
unsafe impl Sync for Bell {}

impl Bell {
    #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
    pub(crate) fn new(_: WaitObj) -> Result<Self, Errno> {
        let alive = loom::cell::UnsafeCell::new(true);
        Ok(Bell { rung: AtomicU32::new(0), shown: AtomicU32::new(0), alive })
    }

    #[allow(unsafe_code, reason = "plain memory that the checker looks at")]
    fn touch(&self) {
        // SAFETY: the checker fails the model on a concurrent write.
        assert!(self.alive.with(|alive| unsafe { *alive }), "rung when it was gone");
    }

    #[cfg(test)]
    #[allow(unsafe_code, reason = "plain memory that the checker looks at")]
    pub(crate) fn end(&self) {
        // SAFETY: the checker fails the model on a concurrent access.
        self.alive.with_mut(|alive| unsafe { *alive = false });
    }

    #[cfg(test)]
    pub(crate) fn rings(&self) -> (u32, u32) {
        (self.rung.load(Ordering::Relaxed), self.shown.load(Ordering::Relaxed))
    }

    // Relaxed throughout: models read the counts after every thread has ended.
    pub(crate) fn ring(&self) {
        self.touch();
        self.rung.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn show(&self) {
        self.touch();
        self.shown.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn hide(&self) {
        self.shown.swap(0, Ordering::Relaxed);
    }

    pub(crate) fn wait(&self, _: &Left) -> bool {
        self.rung.swap(0, Ordering::Relaxed) > 0
    }

    #[expect(clippy::unused_self, reason = "as the real one")]
    pub(crate) fn descriptor(&self) -> Result<c_int, Errno> {
        Err(Errno::ENOSYS)
    }
}

#[derive(Debug)]
pub(crate) struct Left;

impl Left {
    pub(crate) const fn milliseconds(_: i32) -> Self {
        Left
    }
}
