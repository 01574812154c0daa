#![allow(unsafe_code, reason = "implements an unsafe trait with what its user has promised")]

use super::{MemoryMonitor, Notices};

/// Monitor that the program notifies by [`Notices::give`], from any thread.
///
/// Memory mapped as long as the caches, like statics, arenas and pools, needs no notice.
///
/// ```
/// use loom_alloc::mr_cache::Notified;
///
/// // SAFETY: buffers are given to caches from statics alone.
/// static MONITOR: Notified = unsafe { Notified::new() };
/// ```
#[derive(Debug)]
pub struct Notified {
    notices: Notices,
}

impl Notified {
    /// Creates a monitor.
    ///
    /// # Safety
    /// Before addresses of any buffer ever given to a cache with this monitor get other pages (see
    /// [`MemoryMonitor`]), the program gives [notice](Self::notices) of them. From then until the
    /// change, it gives no buffer there to a cache.
    ///
    /// The global allocator gives no notice, so its memory qualifies only if it stays mapped.
    #[must_use]
    pub const unsafe fn new() -> Self {
        Notified { notices: Notices::new() }
    }

    /// Notices, for the program to give.
    #[must_use]
    pub const fn notices(&self) -> &Notices {
        &self.notices
    }
}

// SAFETY: the caller of `new` guarantees notice before a change, and buffers only after it.
unsafe impl MemoryMonitor for Notified {
    #[inline]
    fn notices(&self) -> &Notices {
        &self.notices
    }

    fn watch(&self, _: usize, _: usize) -> bool {
        true
    }
}
