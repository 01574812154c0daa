//! Drives a fabric in a tokio runtime, beside sockets and timers.
//!
//! [`run`] drives during a future, [`drive`] until dropped, on a current-thread runtime or a
//! [`LocalSet`](::tokio::task::LocalSet). Other threads use a [`remote`].
//!
//! ```
//! use std::time::Duration;
//!
//! use loom_async::tokio::{Mode, run};
//! use loom_core::driver::{CqDriver, Unclaimed};
//! use loom_core::{Av, Cq, CqAttr, Domain, Error, Source, WaitObj};
//! # fixture::domain!(network, domain);
//!
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
//! let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, CqAttr { wait: WaitObj::FD, ..CqAttr::new(16) })?);
//! # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
//! # let to_bob = av.insert(&bob.address()?)?;
//! let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
//! let received = runtime.block_on(run(&driver, Mode::Sleep, async {
//!     driver.run(b"hello".to_vec(), |message| alice.send(to_bob, message)).await?.result()?;
//!     let received = driver.run(vec![0; 5], |room| bob.recv(Source::Any, room));
//!     Ok::<_, Error>(tokio::time::timeout(Duration::from_secs(10), received).await.expect("a message")?.into_buf())
//! }))??;
//! assert_eq!(received, b"hello");
//! # Ok::<_, Error>(())
//! ```
//!
//! # Modes
//!
//! Sleep requires queues with a descriptor ([`CqAttr::wait`](loom_core::CqAttr::wait)), which
//! not every provider supports: otherwise it fails with
//! [`CqError::NotOpenedFor`](loom_core::CqError::NotOpenedFor), or the provider's error on opening.

#![allow(unsafe_code, reason = "lends descriptors to the runtime")]

mod remote;

use core::convert::Infallible;
use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use core::time::Duration;
use std::boxed::Box;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Instant;
use std::vec::Vec;

use ::tokio::io::Interest;
use ::tokio::io::unix::AsyncFd;
use ::tokio::time::{Sleep, sleep};
use loom_core::driver::Sleepable;
use loom_core::{Errno, Error};

pub use self::remote::{Remote, Request, Requests, remote};
use crate::BUDGET;

/// Time until a future and its fabric yield to the runtime.
const STRETCH: Duration = Duration::from_micros(10);

/// Times that readiness is cleared before it counts as permanent.
const LOOKS: u32 = 8;

/// Behaviour of the thread without events.
///
/// ```
/// use std::time::Duration;
///
/// use loom_async::tokio::{Mode, run};
/// use loom_core::driver::{CqDriver, Unclaimed};
/// use loom_core::{Cq, CqError, Domain, Error};
/// # fixture::domain!(network, domain);
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
/// // This queue was opened without a descriptor.
/// let cq = Cq::<_, Vec<u8>>::open(&domain, 16)?;
/// let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
/// let slept = runtime.block_on(run(&driver, Mode::Hybrid { spin: Duration::from_micros(50) }, async { 7 }));
/// assert!(matches!(slept, Err(Error::Queue(CqError::NotOpenedFor))));
/// let busy = runtime.block_on(run(&driver, Mode::Busy, async { 7 }))?;
/// assert_eq!(busy, 7);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Spins. Queues need no descriptor.
    Busy,
    /// Sleeps.
    Sleep,
    /// Spins for a time after the last event, then sleeps.
    Hybrid {
        /// Duration.
        spin: Duration,
    },
}

/// Drives until dropped: [`drive`].
///
/// ```
/// use loom_async::tokio::{Mode, drive};
/// use loom_core::driver::{CqDriver, Unclaimed};
/// use loom_core::{Error, Source};
/// # use loom_core::{Av, Cq, CqAttr, Domain, WaitObj};
/// # fixture::domain!(network, domain);
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, CqAttr { wait: WaitObj::FD, ..CqAttr::new(16) })?);
/// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// # let to_bob = av.insert(&bob.address()?)?;
/// # let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
///
/// let work = async {
///     driver.run(b"hello".to_vec(), |message| alice.send(to_bob, message)).await?.result()?;
///     Ok::<_, Error>(driver.run(vec![0; 5], |room| bob.recv(Source::Any, room)).await?.into_buf())
/// };
/// let received = runtime.block_on(async {
///     let driving = drive(&driver, Mode::Sleep)?;
///     tokio::select! {
///         failed = driving => match failed? {},
///         received = work => received,
///     }
/// })?;
/// assert_eq!(received, b"hello");
/// # Ok::<_, Error>(())
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct DriveTask<D> {
    // First field: dropped before the queues close the descriptors.
    descriptors: Vec<AsyncFd<Borrowed>>,
    drive: D,
    mode: Mode,
    busy: Option<Instant>,
    /// Ends a sleep that descriptors may not end.
    nap: Option<Pin<Box<Sleep>>>,
}

/// Drives until dropped or failed, beside other tasks of the runtime.
///
/// ```text
/// let driving = tokio::task::spawn_local(drive(driver.clone(), Mode::Sleep)?);
/// ```
///
/// The future fails when a queue can no longer be slept on.
///
/// # Errors
/// [`Error::Queue`] if the mode sleeps without a descriptor, [`Error::System`] if the runtime rejects
/// it.
///
/// # Panics
/// Panics in a sleeping mode outside a runtime with `enable_io` and `enable_time`.
pub fn drive<D: Sleepable>(drive: D, mode: Mode) -> Result<DriveTask<D>, Error> {
    let mut descriptors = Vec::new();
    if mode != Mode::Busy {
        let mut added = Ok(());
        drive.wait_fds(&mut |fd| {
            // SAFETY: the driver, dropped after this, keeps it open (`Sleepable`).
            match unsafe { AsyncFd::register_with_interest(Borrowed(fd), Interest::READABLE) } {
                Ok(descriptor) => descriptors.push(descriptor),
                Err(error) => added = Err(error.into_parts().1),
            }
        })?;
        added.map_err(refused)?;
    }
    Ok(DriveTask { descriptors, drive, mode, busy: None, nap: None })
}

/// Drives during a future and returns its output.
///
/// ```
/// use std::time::Duration;
///
/// use loom_async::tokio::{Mode, run};
/// use loom_core::driver::{CqDriver, Unclaimed};
/// use loom_core::{Av, Cq, CqAttr, Domain, Source, WaitObj};
/// # fixture::domain!(network, domain);
///
/// let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, CqAttr { wait: WaitObj::FD, ..CqAttr::new(16) })?);
/// # let bob = cq.endpoint(&av)?;
/// let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
/// // No message comes. The runtime's timer has its turn while the fabric sleeps.
/// let received = runtime.block_on(run(&driver, Mode::Sleep, async {
///     let received = driver.run(vec![0; 5], |room| bob.recv(Source::Any, room));
///     tokio::time::timeout(Duration::from_millis(2), received).await
/// }))?;
/// assert!(received.is_err());
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # Errors
/// Errors of [`drive`].
///
/// # Panics
/// Panics like [`drive`].
pub async fn run<D: Sleepable, F: Future>(drive: D, mode: Mode, future: F) -> Result<F::Output, Error> {
    let mut driving = self::drive(drive, mode)?;
    let mut future = pin!(future);
    poll_fn(|cx| {
        let begin = Instant::now();
        while begin.elapsed() < STRETCH {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            match driving.goes_on(cx) {
                Ok(true) => {}
                Ok(false) => return Poll::Pending,
                // The failure may have completed the future.
                Err(error) => {
                    return match future.as_mut().poll(cx) {
                        Poll::Ready(output) => Poll::Ready(Ok(output)),
                        Poll::Pending => Poll::Ready(Err(error)),
                    };
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

impl<D> Unpin for DriveTask<D> {}

impl<D: Sleepable> DriveTask<D> {
    /// `false`: the mode sleeps, and `cx` will be woken.
    fn goes_on(&mut self, cx: &mut Context<'_>) -> Result<bool, Error> {
        let events = self.drive.turn(BUDGET);
        if self.spins(events > 0) || events > 0 {
            return Ok(true);
        }
        // Contract of `Sleepable`: clear the runtime's readiness before `sleeps_for`.
        for descriptor in &self.descriptors {
            let mut looks = 0;
            while let Poll::Ready(ready) = descriptor.poll_read_ready(cx) {
                ready.map_err(refused)?.clear_ready();
                looks += 1;
                if looks == LOOKS {
                    // Permanently readable, like after a hang-up, so no sleep.
                    return Ok(true);
                }
            }
        }
        let Some(time) = self.drive.sleeps_for(cx.waker())? else { return Ok(true) };
        if time == Duration::MAX {
            return Ok(false);
        }
        let nap = self.nap.get_or_insert_with(|| Box::pin(sleep(time)));
        nap.as_mut().reset(::tokio::time::Instant::now() + time);
        Ok(nap.as_mut().poll(cx).is_ready())
    }

    fn spins(&mut self, had_events: bool) -> bool {
        match self.mode {
            Mode::Busy => true,
            Mode::Sleep => false,
            Mode::Hybrid { spin } => {
                let now = Instant::now();
                if had_events {
                    self.busy = Some(now);
                }
                self.busy.is_some_and(|busy| now.duration_since(busy) < spin)
            }
        }
    }
}

impl<D: Sleepable> Future for DriveTask<D> {
    type Output = Result<Infallible, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.goes_on(cx)? {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl<D: fmt::Debug> fmt::Debug for DriveTask<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriveTask").field("drive", &self.drive).field("mode", &self.mode).finish_non_exhaustive()
    }
}

struct Borrowed(RawFd);

impl AsRawFd for Borrowed {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

fn refused(error: std::io::Error) -> Error {
    Error::System { call: "epoll_ctl", errno: error.raw_os_error().map_or(Errno::EOTHER, Errno::from_raw) }
}
