//! [`Notified`]: a monitor to which the program gives notice.

#![allow(unsafe_code, reason = "implements an unsafe trait with what its user has promised")]

use super::{MemoryMonitor, Notices};

/// A monitor that the program tells, by [`Notices::give`]; from any thread, without a lock on the side of the caches.
///
/// Memory that is never unmapped needs no notice: statics, arenas, pools, and whatever else is mapped as long as the caches are
/// there. Which is why this is the monitor to begin with.
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
    /// A monitor that has not been told anything.
    ///
    /// # Safety
    /// Before other pages come to lie behind the addresses of memory of which a buffer was ever given to a cache with this
    /// monitor (see [`MemoryMonitor`] for how), the range is [told](Self::notices). No buffer in it is given to a cache from then on
    /// until that has happened.
    ///
    /// What the global allocator hands out is not such memory, unless that one keeps what it has mapped: it gives no notice.
    #[must_use]
    pub const unsafe fn new() -> Self {
        Notified { notices: Notices::new() }
    }

    /// Where the program gives notice.
    #[must_use]
    pub const fn notices(&self) -> &Notices {
        &self.notices
    }
}

// SAFETY: the program that has made it gives notice before the pages change, and gives buffers to caches afterwards.
unsafe impl MemoryMonitor for Notified {
    #[inline]
    fn notices(&self) -> &Notices {
        &self.notices
    }

    fn watch(&self, _: usize, _: usize) -> bool {
        true
    }
}
