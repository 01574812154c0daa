//! [`Bell`]: what the thread of a queue sleeps on, and by what other threads wake it up. The one thing in this transport that needs an
//! operating system.
//!
//! Without the feature `std`, and on systems that are no Unix, there is none. The model checker has one that counts.

#[cfg(all(feature = "std", unix, not(loom_model)))]
mod system;
#[cfg(all(feature = "std", unix, not(loom_model)))]
pub(super) use self::system::{Bell, Left};

#[cfg(not(any(loom_model, all(feature = "std", unix))))]
mod missing;
#[cfg(not(any(loom_model, all(feature = "std", unix))))]
pub(super) use self::missing::{Bell, Left};

#[cfg(loom_model)]
mod counted;
#[cfg(loom_model)]
pub(super) use self::counted::{Bell, Left};

use crate::vocabulary::WaitObj;

/// Whether there are bells, and so threads that sleep: without them, no post looks for one.
pub(super) const EXISTS: bool = cfg!(any(loom_model, all(feature = "std", unix)));

/// Whether there is a bell for queues that are opened so.
pub(super) fn exists_for(wait: WaitObj) -> bool {
    EXISTS && [WaitObj::UNSPEC, WaitObj::FD].contains(&wait)
}
