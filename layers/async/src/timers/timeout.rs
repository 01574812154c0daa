#![allow(unsafe_code, reason = "projects pins")]

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use loom_core::Errno;

use super::Sleep;
use crate::clock::Clock;

/// Runs a future until a time: [`Timers::timeout`](super::Timers::timeout),
/// [`Timers::timeout_at`](super::Timers::timeout_at).
///
/// ```
/// use core::future::{pending, ready};
/// use core::time::Duration;
///
/// use loom_async::block_on;
/// use loom_async::clock::StdClock;
/// use loom_async::timers::Timers;
/// use loom_core::Errno;
///
/// let timers = Timers::new(StdClock::new());
/// let results = block_on(&timers, async {
///     // What is over in time comes back, whatever the deadline was.
///     (timers.timeout(Duration::ZERO, ready(7)).await, timers.timeout(Duration::ZERO, pending::<u8>()).await)
/// });
/// assert_eq!(results, (Ok(7), Err(Errno::ETIMEDOUT)));
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct Timeout<'t, C, F> {
    sleep: Sleep<'t, C>,
    /// `None` after completion or the deadline.
    future: Option<F>,
}

impl<'t, C, F> Timeout<'t, C, F> {
    pub(super) const fn new(sleep: Sleep<'t, C>, future: F) -> Self {
        Timeout { sleep, future: Some(future) }
    }
}

impl<C: Clock, F: Future> Future for Timeout<'_, C, F> {
    type Output = Result<F::Output, Errno>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: both fields stay pinned and are not moved.
        let Timeout { sleep, future } = unsafe { self.get_unchecked_mut() };
        // SAFETY: a field of a pinned value.
        let sleep = unsafe { Pin::new_unchecked(sleep) };
        // SAFETY: a field of a pinned value.
        let mut future = unsafe { Pin::new_unchecked(future) };
        if let Some(running) = future.as_mut().as_pin_mut()
            && let Poll::Ready(output) = running.poll(cx)
        {
            future.set(None);
            return Poll::Ready(Ok(output));
        }
        if future.is_some() && sleep.poll(cx).is_pending() {
            return Poll::Pending;
        }
        // User code: the future gives up its operations now.
        future.set(None);
        Poll::Ready(Err(Errno::ETIMEDOUT))
    }
}

impl<C, F> fmt::Debug for Timeout<'_, C, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeout").field("sleep", &self.sleep).finish_non_exhaustive()
    }
}
