//! [`Users`]: how many endpoints are bound to an object, which has to stay open as long.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// How many endpoints are bound to an address vector, event queue or counter, or contexts are open of a scalable endpoint,
/// forgotten ones too.
#[derive(Debug)]
pub(crate) struct Users {
    count: AtomicU32,
    left: AtomicBool,
}

impl Users {
    pub(crate) const fn none() -> Self {
        Users { count: AtomicU32::new(0), left: AtomicBool::new(false) }
    }

    pub(crate) fn opened(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Release: what the endpoint did happens before the close that sees the count at zero.
    pub(crate) fn closed(&self) {
        self.count.fetch_sub(1, Ordering::Release);
    }

    pub(crate) fn are_none(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// One of the endpoints stays open for good, and nothing may drive it any more.
    pub(crate) fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    pub(crate) fn some_are_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }
}
