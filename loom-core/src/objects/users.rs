//! [`Users`]: how many endpoints are bound to an object, which has to stay open as long.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::objects::count::SharedCount;

/// How many endpoints are bound to an address vector, event queue or counter, or contexts are open of a scalable endpoint,
/// forgotten ones too.
#[derive(Debug)]
pub(crate) struct Users {
    count: SharedCount,
    left: AtomicBool,
}

impl Users {
    pub(crate) const fn none() -> Self {
        Users { count: SharedCount::none(), left: AtomicBool::new(false) }
    }

    /// With so many endpoints already.
    #[cfg(test)]
    pub(crate) const fn counted(count: SharedCount) -> Self {
        Users { count, left: AtomicBool::new(false) }
    }

    pub(crate) fn opened(&self) {
        self.count.add();
    }

    pub(crate) fn closed(&self) {
        self.count.remove();
    }

    /// Whether there are none. The caller keeps new ones from being counted for as long as it acts upon the answer: it has the object
    /// exclusively, or holds the lock under which they are counted.
    pub(crate) fn are_none(&self) -> bool {
        self.count.is_none()
    }

    /// One of the endpoints stays open for good, and nothing may drive it any more.
    pub(crate) fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    pub(crate) fn some_are_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }
}
