#![allow(unsafe_code, reason = "queries the transport about an open queue")]

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use super::{Completion, Cq, CqError};
use crate::buffer::Buffer;
use crate::deadline::Deadline;
use crate::transport::{Signals, Transport};
use crate::util::debug::debug_struct;
use crate::vocabulary::{Errno, WaitObj};

/// Maximum sleep in milliseconds: most libfabric providers lose a signal that arrives as a sleep
/// begins.
const SLICE: i32 = 20;

impl<'m, T: Transport, B: Buffer> Cq<'m, T, B> {
    /// Returns the next completion, and sleeps for at most `time`, rounded up to milliseconds.
    /// `Ok(None)` means that the time has passed, or a [signal](super::Signaller::signal) or
    /// spurious wake-up.
    ///
    /// Does not end a post's transient error: use [`post`](Self::post) or [`retry`](Self::retry).
    /// Requires [`CqAttr::wait`](super::CqAttr::wait).
    ///
    /// ```
    /// use core::time::Duration;
    /// use loom_core::{Av, Completion, Cq, CqAttr, Forever, Source, WaitObj, allocator_api2::alloc::Global};
    ///
    /// # fixture::domain!(network, domain);
    /// # let av = Av::open(&domain, 2)?;
    /// // Some transports have no descriptor to sleep on.
    /// if let Ok(cq) = Cq::open_in(&domain, CqAttr { wait: WaitObj::FD, ..CqAttr::new(16) }, Global) {
    /// # let bob = cq.endpoint(&av)?;
    /// # let to_bob = av.insert(&bob.address()?)?;
    ///     bob.recv(Source::Any, vec![0; 5])?;
    ///     assert!(cq.poll_for(Duration::from_millis(1))?.is_none(), "the time is over");
    ///     cq.retry(Forever, || bob.inject(to_bob, b"hello"))?;
    ///     let Some(Completion::Op(done)) = cq.poll_for(Duration::from_secs(60))? else { panic!("no message") };
    ///     assert_eq!(done.into_buf(), b"hello");
    /// }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Cq::poll`](Self::poll), and [`CqError::NotOpenedFor`].
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
            // SAFETY: handles keep H1 and T1, apart from signals (P17), and the poll has just found
            // the queue empty.
            unsafe { T::cq_sleep(&self.body.tx, now) }?;
            if let Some(completion) = self.poll()? {
                return Ok(Some(completion));
            }
            left -= now;
        }
        Ok(None)
    }

    /// Returns the next completion, and sleeps until the deadline. `Ok(None)` means that the
    /// deadline has passed or a [`Signaller`] has signalled. Spurious wake-ups do not end the call.
    ///
    /// A deadline without a time ([`Deadline::left`]) is checked every 20 ms. A queue without a
    /// wait object ([`Cq::wait_obj`]) is polled without sleeping.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use loom_core::{Av, Completion, Cq, CqAttr, Forever, Source, WaitObj};
    ///
    /// # fixture::domain!(network, domain);
    /// # let av = Av::open(&domain, 2)?;
    /// let attr = CqAttr { wait: WaitObj::FD, wait_is_optional: true, ..CqAttr::new(16) };
    /// let cq = Cq::open(&domain, attr)?;
    /// # let bob = cq.endpoint(&av)?;
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// bob.recv(Source::Any, vec![0; 5])?;
    /// let soon = Instant::now() + Duration::from_millis(1);
    /// assert!(cq.poll_until(soon)?.is_none() && Instant::now() >= soon);
    /// cq.retry(Forever, || bob.inject(to_bob, b"hello"))?;
    /// let Some(Completion::Op(done)) = cq.poll_until(Forever)? else { panic!("no message") };
    /// assert_eq!(done.into_buf(), b"hello");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Cq::poll`](Self::poll).
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
            // SAFETY: see `poll_for`.
            unsafe { T::cq_sleep(&self.body.tx, now) }?;
        }
    }

    /// File descriptor that becomes readable when the queue may have an event. Call
    /// [`may_sleep`](Self::may_sleep) before each sleep. The queue owns and closes it.
    ///
    /// Some queues support sleeping without a descriptor (`udp;ofi_rxd`).
    ///
    /// # Errors
    /// [`CqError::NotOpenedFor`] if the queue was not opened with a descriptor, [`CqError::Queue`]
    /// if the provider does not have one.
    #[doc(alias = "FI_GETWAIT")]
    pub fn wait_fd(&self) -> Result<c_int, CqError> {
        if self.body.wait != WaitObj::FD {
            return Err(CqError::NotOpenedFor);
        }
        // SAFETY: handles keep H1 and T1.
        Ok(unsafe { T::cq_wait_fd(&self.body.tx) }?)
    }

    /// Returns `true` if the program may sleep on the file descriptor. If `false`, poll until the
    /// queue is empty, then call again. Call again after any use of the queue or its endpoints. A
    /// [signal](super::Signaller::signal) is reported once.
    ///
    /// Over `tcp;ofi_rxm` and `udp;ofi_rxd`, `false` after an endpoint of the queue was closed:
    /// libfabric's sleep would crash. The call then waits up to 1 ms for a completion, and
    /// [`poll_for`](Self::poll_for) polls once per millisecond.
    ///
    /// ```
    /// use loom_core::{Av, Cq, CqAttr, Forever, Source, WaitObj, allocator_api2::alloc::Global};
    ///
    /// # fixture::domain!(network, domain);
    /// # let av = Av::open(&domain, 2)?;
    /// // Some transports have no descriptor to sleep on.
    /// if let Ok(cq) = Cq::open_in(&domain, CqAttr { wait: WaitObj::FD, ..CqAttr::new(16) }, Global) {
    /// # let bob = cq.endpoint(&av)?;
    /// # let to_bob = av.insert(&bob.address()?)?;
    ///     bob.recv(Source::Any, vec![0; 5])?;
    ///     assert!(cq.may_sleep()?, "the program may sleep until `wait_fd` is readable");
    ///     cq.retry(Forever, || bob.inject(to_bob, b"hello"))?;
    ///     while !cq.may_sleep()? {
    ///         while cq.poll()?.is_some() {}
    ///     }
    /// }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`CqError::NotOpenedFor`] without a descriptor, [`CqError::Queue`] if the provider queue
    /// failed.
    #[doc(alias = "fi_trywait")]
    pub fn may_sleep(&self) -> Result<bool, CqError> {
        self.sleeps(|| self.body.keeps_something())
    }

    /// Returns `true` if the queue can only be polled, once per millisecond.
    pub(crate) fn naps(&self) -> bool {
        // SAFETY: handles keep H1 and T1.
        unsafe { T::cq_naps(&self.body.tx) }
    }

    pub(super) fn has_to_wake(&self, has_work: impl FnOnce() -> bool) -> Result<bool, CqError> {
        if self.body.wait != WaitObj::FD {
            return Err(CqError::NotOpenedFor);
        }
        Ok(self.body.signalled.take() || has_work())
    }

    pub(super) fn sleeps(&self, has_work: impl FnOnce() -> bool) -> Result<bool, CqError> {
        if self.has_to_wake(has_work)? {
            return Ok(false);
        }
        // SAFETY: handles keep H1 and T1, and the queue belongs to this domain (H4).
        Ok(unsafe { T::cq_may_sleep(self.body.domain.raw(), &self.body.tx) }?)
    }
}

fn milliseconds(time: Duration) -> i32 {
    i32::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
}

#[derive(Debug)]
pub(super) struct Signalled(AtomicBool);

impl Signalled {
    pub(super) const fn not_yet() -> Self {
        Signalled(AtomicBool::new(false))
    }

    /// Release pairs with the Acquire of `take`: the sleeper sees writes from before the signal.
    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(super) fn take(&self) -> bool {
        self.0.swap(false, Ordering::Acquire)
    }
}

/// Wakes the thread that sleeps on a queue, from other threads. Borrows a handle of the queue.
///
/// ```
/// use core::time::Duration;
/// use loom_core::{Cq, CqAttr, WaitObj, allocator_api2::alloc::Global};
///
/// # fixture::domain!(network, domain);
/// // Some transports have no descriptor to sleep on.
/// if let Ok(cq) = Cq::<_, Vec<u8>>::open_in(&domain, CqAttr { wait: WaitObj::FD, ..CqAttr::new(16) }, Global) {
///     let signaller = cq.signaller()?;
///     std::thread::scope(|threads| {
///         threads.spawn(move || signaller.signal());
///         assert!(cq.poll_for(Duration::from_secs(60))?.is_none(), "woken without a completion");
///         Ok::<_, loom_core::Error>(())
///     })?;
/// }
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
/// - `man fi_cq`
pub struct Signaller<'q, T: Signals> {
    raw: T::Signal,
    signalled: &'q Signalled,
}

impl<T: Signals> Signaller<'_, T> {
    /// Ends [`Cq::poll_for`](super::Cq::poll_for) and [`Cq::poll_until`](super::Cq::poll_until), or
    /// the next such sleep, with `Ok(None)`. Signals before a wake-up count as one. The file
    /// descriptor becomes readable, and [`Cq::may_sleep`](super::Cq::may_sleep) returns `false`
    /// once.
    ///
    /// Most providers of libfabric wake a sleeper that begins to sleep about 20 ms late.
    ///
    /// # Errors
    /// `ENOSYS` without signals: the sleeper wakes about 20 ms late.
    #[doc(alias = "fi_cq_signal")]
    pub fn signal(&self) -> Result<(), Errno> {
        // Before the provider wakes the sleeper, which checks this flag.
        self.signalled.set();
        // SAFETY: the borrowed queue is open (H1), and any thread may signal (P17).
        unsafe { T::cq_signal(&self.raw) }
    }
}

debug_struct!([T: Signals] Signaller['_, T], |it| signalled: it.signalled);

impl<T: Signals, B: Buffer> Cq<'_, T, B> {
    /// Returns a handle with which other threads end a sleep. Over libfabric, requires
    /// `Ofi<Shared>`.
    ///
    /// # Errors
    /// [`CqError::NotOpenedFor`] without a wait object.
    #[doc(alias = "fi_cq_signal")]
    pub fn signaller(&self) -> Result<Signaller<'_, T>, CqError> {
        if self.body.wait == WaitObj::NONE {
            return Err(CqError::NotOpenedFor);
        }
        self.body.has_signallers.set(true);
        // SAFETY: handles keep the queue open (H1), which has a wait object.
        let raw = unsafe { T::cq_signal_of(&self.body.tx) };
        Ok(Signaller { raw, signalled: &self.body.signalled })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::visibility::is_seen_by_another_thread;

    #[test]
    fn thread_that_takes_a_signal_sees_earlier_writes() {
        is_seen_by_another_thread(&Signalled::not_yet(), Signalled::set, Signalled::take);
    }
}
