//! [`Users`]: how many endpoints are bound to an object, which has to stay open as long.

use core::sync::atomic::{AtomicU32, Ordering};

/// How many endpoints are bound to an address vector or event queue, forgotten ones too.
#[derive(Debug)]
pub(crate) struct Users(AtomicU32);

impl Users {
    pub(crate) const fn none() -> Self {
        Users(AtomicU32::new(0))
    }

    pub(crate) fn opened(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Release: what the endpoint did happens before the close that sees the count at zero.
    pub(crate) fn closed(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    pub(crate) fn are_none(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}
