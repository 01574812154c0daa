//! Sleeping until a queue has something.

#![allow(unsafe_code, reason = "asks the transport about an open queue")]

use core::ffi::c_int;
use core::time::Duration;

use super::Completion;
use super::{Cq, CqError};
use crate::buffer::Buffer;
use crate::transport::Transport;
use crate::vocabulary::WaitObj;

/// For how many milliseconds a thread sleeps at most that others can wake up: most of libfabric's providers lose a signal that
/// comes when a sleep begins, just after it has looked for one.
const SLICE: i32 = 20;

impl<'m, T: Transport, B: Buffer> Cq<'m, T, B> {
    /// The next completion, for which it sleeps so long at most. `Ok(None)` says that the time is over, or that it was woken
    /// up: by a [signal](super::Signaller::signal), or for nothing.
    ///
    /// For queues that were opened with something to sleep on ([`CqAttr::with_fd`](super::CqAttr::with_fd)). Milliseconds
    /// count; what is left of one is rounded up.
    ///
    /// # Errors
    /// As [`Cq::poll`](Self::poll), and [`CqError::NotOpenedFor`].
    #[doc(alias = "fi_cq_sread")]
    pub fn poll_for(&self, time: Duration) -> Result<Option<Completion<'m, B>>, CqError> {
        if self.body.wait == WaitObj::NONE {
            return Err(CqError::NotOpenedFor);
        }
        if let Some(completion) = self.poll()? {
            return Ok(Some(completion));
        }
        let mut left = i32::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX);
        while !self.body.signalled.take() && left > 0 {
            let now = if self.body.has_signallers.get() { left.min(SLICE) } else { left };
            // SAFETY: the queue is open until its last handle is dropped, this thread is its only user but for signals, and the poll
            // has just found it empty.
            unsafe { T::cq_sleep(&self.body.tx, now) }.map_err(CqError::Queue)?;
            if let Some(completion) = self.poll()? {
                return Ok(Some(completion));
            }
            left -= now;
        }
        Ok(None)
    }

    /// The file descriptor that becomes readable when the queue may have something, for a program that sleeps on many.
    /// Before sleeping on it, ask [`may_sleep`](Self::may_sleep). It is the queue's, which closes it.
    ///
    /// Some providers have queues that can be slept on but no descriptor (`udp;ofi_rxd`), and one has a descriptor that is
    /// readable nearly always (`net` 1.17).
    ///
    /// # Errors
    /// [`CqError::NotOpenedFor`] if the queue was not opened with one, [`CqError::Queue`] if the provider has none.
    #[doc(alias = "FI_GETWAIT")]
    pub fn wait_fd(&self) -> Result<c_int, CqError> {
        if self.body.wait != WaitObj::FD {
            return Err(CqError::NotOpenedFor);
        }
        // SAFETY: the queue is open until its last handle is dropped, and this thread is its only user.
        unsafe { T::cq_wait_fd(&self.body.tx) }.map_err(CqError::Queue)
    }

    /// Whether the program may sleep on the file descriptor now. If not, something has come: poll until nothing is left, and
    /// ask again. (Of a [signal](super::Signaller::signal) it tells once.)
    ///
    /// # Errors
    /// [`CqError::NotOpenedFor`] if there is none, [`CqError::Queue`] if the provider's queue failed.
    #[doc(alias = "fi_trywait")]
    pub fn may_sleep(&self) -> Result<bool, CqError> {
        if self.body.wait != WaitObj::FD {
            return Err(CqError::NotOpenedFor);
        }
        if self.body.signalled.take() || self.body.keeps_something() {
            // No descriptor tells of what is kept.
            return Ok(false);
        }
        // SAFETY: as above; the queue is one of this domain.
        unsafe { T::cq_may_sleep(self.body.domain.raw(), &self.body.tx) }.map_err(CqError::Queue)
    }
}
