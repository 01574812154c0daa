//! [`Signaller`]: by which other threads wake up the one that sleeps on a queue.

#![allow(unsafe_code, reason = "names an open queue to other threads")]

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};

use super::{Cq, CqError};
use crate::buffer::Buffer;
use crate::transport::Signals;
use crate::vocabulary::{Errno, WaitObj};

/// Whether a [`Signaller`] has signalled, and no sleeper was told of it yet.
#[derive(Debug)]
pub(super) struct Signalled(AtomicBool);

impl Signalled {
    pub(super) const fn not_yet() -> Self {
        Signalled(AtomicBool::new(false))
    }

    /// Release: what this thread did before happens before what the sleeper does that is told of it.
    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Acquire: see [`set`](Self::set).
    pub(super) fn take(&self) -> bool {
        self.0.swap(false, Ordering::Acquire)
    }
}

/// Wakes up the thread that sleeps on a queue. It borrows the handle of the queue, which other threads cannot otherwise name.
///
/// # References
/// - `man fi_cq`
pub struct Signaller<'q, T: Signals> {
    raw: T::Signal,
    /// The queue's, which is open as long as it is borrowed.
    signalled: &'q Signalled,
}

impl<T: Signals> Signaller<'_, T> {
    /// Ends [`Cq::poll_for`](super::Cq::poll_for), which returns `Ok(None)`; if nobody sleeps, it is the next one that
    /// does not sleep. Signals that come meanwhile are one. What this thread did before, the sleeper sees afterwards.
    ///
    /// The queue's file descriptor becomes readable, too, and [`Cq::may_sleep`](super::Cq::may_sleep) says once that the
    /// program may not sleep.
    ///
    /// Providers may wake the sleeper up some 20 ms late: most of them lose a signal that comes just when a sleep begins.
    ///
    /// # Errors
    /// The provider's: `ENOSYS` if it has no signals. The sleeper wakes up all the same, but as late as that.
    #[doc(alias = "fi_cq_signal")]
    pub fn signal(&self) -> Result<(), Errno> {
        // Before the provider wakes the sleeper up, who looks for this.
        self.signalled.set();
        // SAFETY: the queue is borrowed, so it is open until this returns.
        unsafe { T::cq_signal(&self.raw) }
    }
}

impl<T: Signals> fmt::Debug for Signaller<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signaller").field("signalled", self.signalled).finish_non_exhaustive()
    }
}

impl<T: Signals, B: Buffer> Cq<'_, T, B> {
    /// What other threads need to wake this one up from sleeping on the queue.
    ///
    /// Over libfabric it is there where threads share a domain (`Ofi<Shared>`).
    ///
    /// # Errors
    /// [`CqError::NotOpenedFor`] if there is nothing to sleep on.
    #[doc(alias = "fi_cq_signal")]
    pub fn signaller(&self) -> Result<Signaller<'_, T>, CqError> {
        if self.body.wait == WaitObj::NONE {
            return Err(CqError::NotOpenedFor);
        }
        self.body.has_signallers.set(true);
        // SAFETY: the queue is open until its last handle is dropped, with something to sleep on.
        let raw = unsafe { T::cq_signal_of(&self.body.tx) };
        Ok(Signaller { raw, signalled: &self.body.signalled })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handed_over::is_seen_by_another_thread;

    #[test]
    fn thread_that_takes_a_signal_sees_what_was_done_before() {
        is_seen_by_another_thread(&Signalled::not_yet(), Signalled::set, Signalled::take);
    }
}
