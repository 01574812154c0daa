//! [`Bell`], on which the thread of a queue sleeps: the only part of the transport that needs an
//! operating system.
//!
//! Exists with the feature `std` on Unix.

#[cfg(all(feature = "std", unix, not(loom_model)))]
mod system;
#[cfg(all(feature = "std", unix, not(loom_model)))]
pub(crate) use self::system::{Bell, Left};

#[cfg(not(any(loom_model, all(feature = "std", unix))))]
mod missing;
#[cfg(not(any(loom_model, all(feature = "std", unix))))]
pub(crate) use self::missing::{Bell, Left};

#[cfg(loom_model)]
mod counted;
#[cfg(loom_model)]
pub(crate) use self::counted::{Bell, Left};

use crate::vocabulary::WaitObj;

/// Without them, no post looks for a sleeping thread.
pub(crate) const EXISTS: bool = cfg!(any(loom_model, all(feature = "std", unix)));

pub(crate) fn exists_for(wait: WaitObj) -> bool {
    EXISTS && [WaitObj::UNSPEC, WaitObj::FD].contains(&wait)
}
