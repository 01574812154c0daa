//! [`Clock`]: the time of timers.

use core::cell::Cell;
use core::time::Duration;

/// Clock that never goes back.
///
/// ```
/// use core::cell::Cell;
/// use core::time::Duration;
///
/// use loom_async::clock::Clock;
///
/// /// A counter that a device raises each microsecond.
/// struct Microseconds(Cell<u64>);
/// impl Clock for Microseconds {
///     fn now(&self) -> Duration {
///         Duration::from_micros(self.0.get())
///     }
/// }
///
/// assert_eq!(Microseconds(Cell::new(1_500)).now(), Duration::from_micros(1_500));
/// ```
pub trait Clock {
    /// Time since a fixed moment.
    ///
    /// ```
    /// use core::time::Duration;
    ///
    /// use loom_async::clock::{Clock, ManualClock};
    ///
    /// /// How long something takes by a clock.
    /// fn time(clock: &impl Clock, run: impl FnOnce()) -> Duration {
    ///     let begin = clock.now();
    ///     run();
    ///     clock.now() - begin
    /// }
    ///
    /// let clock = ManualClock::new();
    /// assert_eq!(time(&clock, || clock.advance(Duration::from_secs(3))), Duration::from_secs(3));
    /// ```
    fn now(&self) -> Duration;
}

impl<C: Clock + ?Sized> Clock for &C {
    #[inline]
    fn now(&self) -> Duration {
        (**self).now()
    }
}

/// Clock of the standard library ([`Instant`](std::time::Instant)).
///
/// ```
/// use core::time::Duration;
///
/// use loom_async::block_on;
/// use loom_async::clock::{Clock, StdClock};
/// use loom_async::timers::Timers;
///
/// let timers = Timers::new(StdClock::new());
/// block_on(&timers, timers.sleep(Duration::from_millis(2)));
/// assert!(timers.clock().now() >= Duration::from_millis(2));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug)]
pub struct StdClock {
    start: std::time::Instant,
}

#[cfg(feature = "std")]
impl StdClock {
    /// Creates a clock at zero.
    #[must_use]
    pub fn new() -> Self {
        StdClock { start: std::time::Instant::now() }
    }
}

#[cfg(feature = "std")]
impl Default for StdClock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(feature = "std")]
impl Clock for StdClock {
    #[inline]
    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

/// Clock for tests.
///
/// ```
/// use core::pin::pin;
/// use core::task::{Context, Waker};
/// use core::time::Duration;
///
/// use loom_async::clock::ManualClock;
/// use loom_async::timers::Timers;
/// use loom_core::driver::Drive;
///
/// // A test of what happens after a minute, which takes none.
/// let timers = Timers::new(ManualClock::new());
/// let mut cx = Context::from_waker(Waker::noop());
/// let mut minute = pin!(timers.sleep(Duration::from_secs(60)));
/// assert!(minute.as_mut().poll(&mut cx).is_pending());
/// timers.clock().advance(Duration::from_secs(60));
/// assert_eq!(timers.turn(16), 1);
/// assert!(minute.as_mut().poll(&mut cx).is_ready());
/// ```
#[derive(Debug, Default)]
pub struct ManualClock {
    now: Cell<Duration>,
}

impl ManualClock {
    /// Creates a clock at zero.
    #[must_use]
    pub const fn new() -> Self {
        ManualClock { now: Cell::new(Duration::ZERO) }
    }

    /// Moves the clock on.
    ///
    /// ```
    /// use core::time::Duration;
    ///
    /// use loom_async::clock::{Clock, ManualClock};
    ///
    /// let clock = ManualClock::new();
    /// clock.advance(Duration::from_secs(3));
    /// clock.advance(Duration::MAX);
    /// assert_eq!(clock.now(), Duration::MAX, "it does not go round");
    /// ```
    pub fn advance(&self, by: Duration) {
        self.now.set(self.now.get().saturating_add(by));
    }
}

impl Clock for ManualClock {
    #[inline]
    fn now(&self) -> Duration {
        self.now.get()
    }
}
