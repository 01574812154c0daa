//! [`Timers`]: futures that wait for a time.

mod heap;
mod sleep;
mod timeout;

use core::fmt;
use core::future::IntoFuture;
use core::time::Duration;

use loom_core::driver::Drive;

use self::heap::Heap;
pub use self::sleep::Sleep;
pub use self::timeout::Timeout;
use crate::clock::Clock;

/// Wakes futures by a clock.
///
/// A turn wakes the due futures, never early, by deadline and then by first poll.
///
/// A future's first poll takes constant time, its end amortised logarithmic time.
///
/// ```
/// use core::time::Duration;
///
/// use loom_async::block_on;
/// use loom_async::clock::{Clock, ManualClock};
/// use loom_async::timers::Timers;
/// use loom_core::driver::Drive;
///
/// /// Each turn of this is a millisecond.
/// struct Ticks<'t>(&'t Timers<ManualClock>);
/// impl Drive for Ticks<'_> {
///     fn turn(&self, budget: usize) -> usize {
///         self.0.clock().advance(Duration::from_millis(1));
///         self.0.turn(budget)
///     }
/// }
///
/// let timers = Timers::new(ManualClock::new());
/// block_on(&Ticks(&timers), timers.sleep(Duration::from_millis(20)));
/// assert_eq!(timers.clock().now(), Duration::from_millis(20));
/// ```
pub struct Timers<C> {
    clock: C,
    heap: Heap,
}

impl<C: Clock> Timers<C> {
    /// Creates timers of a clock.
    #[must_use]
    pub const fn new(clock: C) -> Self {
        Timers { clock, heap: Heap::new() }
    }

    /// Clock.
    ///
    /// ```
    /// use core::time::Duration;
    ///
    /// use loom_async::clock::{Clock, ManualClock};
    /// use loom_async::timers::Timers;
    ///
    /// let timers = Timers::new(ManualClock::new());
    /// // A deadline by the same clock that the timers go by.
    /// let deadline = timers.clock().now() + Duration::from_secs(3);
    /// timers.clock().advance(Duration::from_secs(4));
    /// assert!(timers.clock().now() > deadline);
    /// ```
    #[must_use]
    pub const fn clock(&self) -> &C {
        &self.clock
    }

    /// Earliest deadline.
    ///
    /// ```
    /// use core::pin::pin;
    /// use core::task::{Context, Waker};
    /// use core::time::Duration;
    ///
    /// use loom_async::clock::ManualClock;
    /// use loom_async::timers::Timers;
    ///
    /// let timers = Timers::new(ManualClock::new());
    /// assert_eq!(timers.next_deadline(), None);
    /// let mut sleep = pin!(timers.sleep(Duration::from_secs(3)));
    /// // A future waits when it has been polled.
    /// assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    /// assert_eq!(timers.next_deadline(), Some(Duration::from_secs(3)));
    /// ```
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        self.heap.earliest()
    }

    /// Waits until the clock reaches a time.
    ///
    /// ```
    /// use core::time::Duration;
    ///
    /// use loom_async::clock::ManualClock;
    /// use loom_async::timers::Timers;
    /// use loom_core::driver::Drive;
    ///
    /// /// Ten turns at equal distances: the time that a turn takes does not add up, as it would with `sleep`.
    /// async fn tick(timers: &Timers<ManualClock>) -> Vec<Duration> {
    ///     let mut ticks = Vec::new();
    ///     for tick in (1..=10).map(|tick| Duration::from_millis(100) * tick) {
    ///         timers.sleep_until(tick).await;
    ///         ticks.push(tick);
    ///     }
    ///     ticks
    /// }
    ///
    /// # struct Late<'t>(&'t Timers<ManualClock>);
    /// # impl Drive for Late<'_> {
    /// #     fn turn(&self, budget: usize) -> usize {
    /// #         self.0.clock().advance(Duration::from_millis(7));
    /// #         self.0.turn(budget)
    /// #     }
    /// # }
    /// let timers = Timers::new(ManualClock::new());
    /// let ticks = loom_async::block_on(&Late(&timers), tick(&timers));
    /// assert_eq!(ticks.last(), Some(&Duration::from_secs(1)));
    /// ```
    #[must_use = "futures do nothing unless they are polled"]
    pub const fn sleep_until(&self, deadline: Duration) -> Sleep<'_, C> {
        Sleep::new(self, deadline)
    }

    /// Waits for a duration from now, forever beyond the clock's end.
    ///
    /// ```
    /// use core::time::Duration;
    ///
    /// use loom_async::block_on;
    /// use loom_async::clock::StdClock;
    /// use loom_async::timers::Timers;
    ///
    /// let timers = Timers::new(StdClock::new());
    /// let mut refusals = [true, true, false].into_iter();
    /// block_on(&timers, async {
    ///     let mut pause = Duration::from_micros(10);
    ///     while refusals.next() == Some(true) {
    ///         timers.sleep(pause).await;
    ///         pause *= 2;
    ///     }
    /// });
    /// assert_eq!(refusals.len(), 0);
    /// ```
    #[must_use = "futures do nothing unless they are polled"]
    pub fn sleep(&self, duration: Duration) -> Sleep<'_, C> {
        self.sleep_until(self.clock.now().saturating_add(duration))
    }

    /// Runs a future until the clock reaches a time, then drops it.
    ///
    /// # Errors
    /// [`Errno::ETIMEDOUT`](loom_core::Errno::ETIMEDOUT) if the time came first. A future that
    /// completes when polled is never late.
    ///
    /// ```
    /// use core::future::{pending, ready};
    /// use core::time::Duration;
    ///
    /// use loom_async::block_on;
    /// use loom_async::clock::{Clock, StdClock};
    /// use loom_async::timers::Timers;
    /// use loom_core::Errno;
    ///
    /// let timers = Timers::new(StdClock::new());
    /// // One deadline for several futures.
    /// let deadline = timers.clock().now() + Duration::from_millis(2);
    /// assert_eq!(block_on(&timers, timers.timeout_at(deadline, ready(7))), Ok(7));
    /// assert_eq!(block_on(&timers, timers.timeout_at(deadline, pending::<()>())), Err(Errno::ETIMEDOUT));
    /// ```
    pub fn timeout_at<F: IntoFuture>(&self, deadline: Duration, future: F) -> Timeout<'_, C, F::IntoFuture> {
        Timeout::new(self.sleep_until(deadline), future.into_future())
    }

    /// Runs a future for a duration from now, then drops it.
    ///
    /// ```
    /// use core::time::Duration;
    ///
    /// use loom_async::block_on;
    /// use loom_async::clock::StdClock;
    /// use loom_async::timers::Timers;
    /// use loom_core::driver::{CqDriver, Unclaimed};
    /// use loom_core::{Av, Cq, Domain, Errno, Source};
    ///
    /// # fixture::domain!(network, domain);
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// # let bob = cq.endpoint(&av)?;
    /// let timers = Timers::new(StdClock::new());
    /// let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
    /// // No message comes. The receive goes on when its future is dropped.
    /// let received = driver.run(vec![0; 5], |room| bob.recv(Source::Any, room));
    /// let ended = block_on(&(&driver, &timers), timers.timeout(Duration::from_millis(2), received));
    /// assert!(matches!(ended, Err(Errno::ETIMEDOUT)));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Errno::ETIMEDOUT`](loom_core::Errno::ETIMEDOUT) like [`timeout_at`](Self::timeout_at).
    pub fn timeout<F: IntoFuture>(&self, duration: Duration, future: F) -> Timeout<'_, C, F::IntoFuture> {
        Timeout::new(self.sleep(duration), future.into_future())
    }
}

impl<C: Clock> Drive for Timers<C> {
    fn turn(&self, budget: usize) -> usize {
        if self.heap.earliest().is_none() {
            return 0;
        }
        let now = self.clock.now();
        let mut woken = 0;
        while woken < budget
            && let Some(waker) = self.heap.take_due(now)
        {
            woken += 1;
            // User code, with a consistent heap.
            if let Some(waker) = waker {
                waker.wake();
            }
        }
        woken
    }
}

impl<C> fmt::Debug for Timers<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers").field("earliest", &self.heap.earliest()).finish_non_exhaustive()
    }
}
