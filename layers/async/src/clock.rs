//! [`Clock`]: the time that timers go by.

use core::cell::Cell;
use core::time::Duration;

/// A clock that never goes back.
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
    /// The time since some moment that stays the same.
    fn now(&self) -> Duration;
}

impl<C: Clock + ?Sized> Clock for &C {
    #[inline]
    fn now(&self) -> Duration {
        (**self).now()
    }
}

/// The clock of the standard library ([`Instant`](std::time::Instant)).
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug)]
pub struct StdClock {
    start: std::time::Instant,
}

#[cfg(feature = "std")]
impl StdClock {
    /// A clock that starts at zero.
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

/// A clock that is moved by hand, for tests.
#[derive(Debug, Default)]
pub struct ManualClock {
    now: Cell<Duration>,
}

impl ManualClock {
    /// A clock that stands at zero.
    #[must_use]
    pub const fn new() -> Self {
        ManualClock { now: Cell::new(Duration::ZERO) }
    }

    /// Moves the clock on. It stops at [`Duration::MAX`].
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
