//! Sleeping until a queue has something, and [`Signaller`], which ends a sleep.

#![allow(unsafe_code, reason = "asks the transport about an open queue")]

use core::ffi::c_int;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use super::{Completion, Cq, CqError};
use crate::buffer::Buffer;
use crate::deadline::Deadline;
use crate::transport::{Signals, Transport};
use crate::vocabulary::{Errno, WaitObj};

/// For how many milliseconds a thread sleeps at most that others can wake up: most of libfabric's providers lose a signal that
/// comes when a sleep begins, just after it has looked for one.
const SLICE: i32 = 20;

impl<'m, T: Transport, B: Buffer> Cq<'m, T, B> {
    /// The next completion, for which it sleeps so long at most. `Ok(None)` says that the time is over, or that it was woken
    /// up: by a [signal](super::Signaller::signal), or for nothing.
    ///
    /// What ends the sleep is a completion. After a post that is refused for the moment, there may be none to come: then
    /// [`post`](Self::post) and [`retry`](Self::retry) are the way to go on.
    ///
    /// For queues that were opened with something to sleep on ([`CqAttr::with_fd`](super::CqAttr::with_fd)). Milliseconds
    /// count; what is left of one is rounded up.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use core::time::Duration;
    ///
    /// use loom_core::allocator_api2::alloc::Global;
    /// use loom_core::{Av, Completion, Cq, CqAttr, Domain, Forever, Source};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// # let av = Av::open(&domain, 2)?;
    /// // Some transports have nothing to sleep on.
    /// if let Ok(cq) = Cq::open_in(&domain, CqAttr::new(16).with_fd(), Global) {
    ///     # let bob = cq.endpoint(&av)?;
    ///     # let to_bob = av.insert(&bob.address()?)?;
    ///     bob.recv(Source::Any, vec![0; 5])?;
    ///     assert!(cq.poll_for(Duration::from_millis(1))?.is_none(), "the time is over");
    ///     cq.retry(Forever, || bob.inject(to_bob, b"hello"))?;
    ///     let Some(Completion::Op(done)) = cq.poll_for(Duration::from_secs(60))? else { panic!("no message") };
    ///     assert_eq!(done.into_buf(), b"hello");
    /// }
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
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
        let mut left = milliseconds(time);
        while !self.body.signalled.take() && left > 0 {
            let now = if self.body.has_signallers.get() { left.min(SLICE) } else { left };
            // SAFETY: the queue is open until its last handle is dropped (C1), this thread is its only user (C5) but for signals
            // (P16), and the poll has just found it empty.
            unsafe { T::cq_sleep(&self.body.tx, now) }?;
            if let Some(completion) = self.poll()? {
                return Ok(Some(completion));
            }
            left -= now;
        }
        Ok(None)
    }

    /// The next completion, for which it sleeps until the deadline at most. `Ok(None)` means that the deadline has passed, or that a
    /// [`Signaller`] has woken the thread: a wake-up of the system or of the provider without a completion ends no sleep here.
    ///
    /// A sleep takes the time that is left until the deadline ([`Deadline::left`]). A deadline without such a time, as
    /// [`Driving`](crate::Driving) and [`Spins`](crate::Spins), is looked at every 20 milliseconds. A queue without a wait object
    /// ([`Cq::wait_obj`]) is polled without sleeping.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use std::time::{Duration, Instant};
    ///
    /// use loom_core::{Av, Completion, Cq, Domain, Forever, Source};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// # let av = Av::open(&domain, 2)?;
    /// let cq = Cq::open_waitable(&domain, 16)?;
    /// # let bob = cq.endpoint(&av)?;
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// bob.recv(Source::Any, vec![0; 5])?;
    /// let soon = Instant::now() + Duration::from_millis(1);
    /// assert!(cq.poll_until(soon)?.is_none() && Instant::now() >= soon);
    /// cq.retry(Forever, || bob.inject(to_bob, b"hello"))?;
    /// let Some(Completion::Op(done)) = cq.poll_until(Forever)? else { panic!("no message") };
    /// assert_eq!(done.into_buf(), b"hello");
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Cq::poll`](Self::poll).
    #[doc(alias = "fi_cq_sread")]
    pub fn poll_until(&self, mut until: impl Deadline) -> Result<Option<Completion<'m, B>>, CqError> {
        loop {
            if let Some(completion) = self.poll()? {
                return Ok(Some(completion));
            }
            if self.body.signalled.take() || until.passed() {
                return Ok(None);
            }
            if self.body.wait == WaitObj::NONE {
                core::hint::spin_loop();
                continue;
            }
            let left = until.left().map_or(SLICE, milliseconds);
            let now = if self.body.has_signallers.get() { left.min(SLICE) } else { left };
            // SAFETY: the queue is open until its last handle is dropped (C1), this thread is its only user (C5) but for signals
            // (P16), and the poll has just found it empty.
            unsafe { T::cq_sleep(&self.body.tx, now) }?;
        }
    }

    /// The file descriptor that becomes readable when the queue may have something, for a program that sleeps on many.
    /// Before sleeping on it, ask [`may_sleep`](Self::may_sleep). It is the queue's, which closes it.
    ///
    /// Some providers have queues that can be slept on but no descriptor (`udp;ofi_rxd`).
    ///
    /// # Errors
    /// [`CqError::NotOpenedFor`] if the queue was not opened with one, [`CqError::Queue`] if the provider has none.
    #[doc(alias = "FI_GETWAIT")]
    pub fn wait_fd(&self) -> Result<c_int, CqError> {
        if self.body.wait != WaitObj::FD {
            return Err(CqError::NotOpenedFor);
        }
        // SAFETY: the queue is open until its last handle is dropped (C1), and these stay on this thread (C5).
        Ok(unsafe { T::cq_wait_fd(&self.body.tx) }?)
    }

    /// Whether the program may sleep on the file descriptor now. If not, something has come: poll until nothing is left, and
    /// ask again. A program that uses the queue or its endpoints in between asks again, too: what it has begun may be over already. (Of a [signal](super::Signaller::signal) it tells once.)
    ///
    /// Over `tcp;ofi_rxm` and `udp;ofi_rxd` it is `false` for good after an endpoint of the queue was closed, because libfabric's sleep crashes
    /// then. The call waits up to a millisecond for a completion instead, so that a program which polls and asks in turn uses little processor
    /// time. [`poll_for`](Self::poll_for) polls once a millisecond there.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::allocator_api2::alloc::Global;
    /// use loom_core::{Av, Cq, CqAttr, Domain, Forever, Source};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// # let av = Av::open(&domain, 2)?;
    /// // Some transports have nothing to sleep on.
    /// if let Ok(cq) = Cq::open_in(&domain, CqAttr::new(16).with_fd(), Global) {
    ///     # let bob = cq.endpoint(&av)?;
    ///     # let to_bob = av.insert(&bob.address()?)?;
    ///     bob.recv(Source::Any, vec![0; 5])?;
    ///     assert!(cq.may_sleep()?, "the program may sleep until `wait_fd` is readable");
    ///     cq.retry(Forever, || bob.inject(to_bob, b"hello"))?;
    ///     while !cq.may_sleep()? {
    ///         // Completions have come: take all of them, and ask again.
    ///         while let Some(completion) = cq.poll()? {
    ///             drop(completion);
    ///         }
    ///     }
    /// }
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`CqError::NotOpenedFor`] if there is none, [`CqError::Queue`] if the provider's queue failed.
    #[doc(alias = "fi_trywait")]
    pub fn may_sleep(&self) -> Result<bool, CqError> {
        self.sleeps(|| self.body.keeps_something())
    }

    /// Returns `true` if the queue cannot be slept on any more, and is polled once a millisecond.
    pub(crate) fn naps(&self) -> bool {
        // SAFETY: the queue is open until its last handle is dropped (C1), and these stay on this thread (C5).
        unsafe { T::cq_naps(&self.body.tx) }
    }

    /// Returns `true` if a signal has come, or something is to be done that no descriptor reports.
    pub(super) fn has_to_wake(&self, has_to_do: impl FnOnce() -> bool) -> Result<bool, CqError> {
        if self.body.wait != WaitObj::FD {
            return Err(CqError::NotOpenedFor);
        }
        Ok(self.body.signalled.take() || has_to_do())
    }

    /// Whether the program may sleep, if nothing is to be done of which no descriptor tells.
    pub(super) fn sleeps(&self, has_to_do: impl FnOnce() -> bool) -> Result<bool, CqError> {
        if self.has_to_wake(has_to_do)? {
            return Ok(false);
        }
        // SAFETY: as above; the queue is one of this domain (C4).
        Ok(unsafe { T::cq_may_sleep(self.body.domain.raw(), &self.body.tx) }?)
    }
}

/// A time in whole milliseconds, rounded up.
fn milliseconds(time: Duration) -> i32 {
    i32::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
}

/// Whether a [`Signaller`] has signalled, and no sleeper was told of it yet.
#[derive(Debug)]
pub(super) struct Signalled(AtomicBool);

impl Signalled {
    pub(super) const fn not_yet() -> Self {
        Signalled(AtomicBool::new(false))
    }

    /// Release: what this thread did before the signal happens before what the sleeper does after it has seen it.
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
/// ```
/// # #[cfg(feature = "std")] {
/// use core::time::Duration;
///
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_core::{Cq, CqAttr, Domain};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// // Some transports have nothing to sleep on.
/// if let Ok(cq) = Cq::<_, Vec<u8>>::open_in(&domain, CqAttr::new(16).with_fd(), Global) {
///     let signaller = cq.signaller()?;
///     std::thread::scope(|threads| {
///         // This thread wakes the sleeper up.
///         threads.spawn(move || signaller.signal());
///         assert!(cq.poll_for(Duration::from_secs(60))?.is_none(), "nothing has completed");
///         Ok::<_, loom_core::Error>(())
///     })?;
/// }
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
/// - `man fi_cq`
pub struct Signaller<'q, T: Signals> {
    raw: T::Signal,
    /// The queue's, which is open as long as it is borrowed.
    signalled: &'q Signalled,
}

impl<T: Signals> Signaller<'_, T> {
    /// Ends [`Cq::poll_for`](super::Cq::poll_for) and [`Cq::poll_until`](super::Cq::poll_until), which return `Ok(None)`; if no thread
    /// sleeps, it is the next one that does not sleep. Signals that come meanwhile are one. What this thread did before, the sleeper sees afterwards.
    ///
    /// The queue's file descriptor becomes readable, too, and [`Cq::may_sleep`](super::Cq::may_sleep) says once that the
    /// program may not sleep.
    ///
    /// Providers of libfabric may wake the sleeper up some 20 ms late: most of them lose a signal that comes just when a sleep begins. The
    /// software transport loses none.
    ///
    /// # Errors
    /// The provider's: `ENOSYS` if it has no signals. The sleeper wakes up all the same, but as late as that.
    #[doc(alias = "fi_cq_signal")]
    pub fn signal(&self) -> Result<(), Errno> {
        // Before the provider wakes the sleeper up, who looks for this.
        self.signalled.set();
        // SAFETY: the queue is borrowed, so it is open until this returns (C1); any thread may signal (P16).
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
    /// It is there over the software transport, and over libfabric where threads share a domain (`Ofi<Shared>`).
    ///
    /// # Errors
    /// [`CqError::NotOpenedFor`] if there is nothing to sleep on.
    #[doc(alias = "fi_cq_signal")]
    pub fn signaller(&self) -> Result<Signaller<'_, T>, CqError> {
        if self.body.wait == WaitObj::NONE {
            return Err(CqError::NotOpenedFor);
        }
        self.body.has_signallers.set(true);
        // SAFETY: the queue is open until its last handle is dropped (C1), with something to sleep on.
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
