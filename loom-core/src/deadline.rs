//! Limits of waits. The core has no clock, so the caller provides one.

use core::time::Duration;

/// Limit of a wait.
///
/// Checked between calls of the transport. `std::time::Instant` implements it with the feature
/// `std`.
///
/// ```
/// use core::sync::atomic::{AtomicBool, Ordering};
/// use loom_core::{Deadline, Source};
///
/// /// Deadline that passes when another thread sets a flag.
/// struct Stopped<'s>(&'s AtomicBool);
/// impl Deadline for Stopped<'_> {
///     fn passed(&mut self) -> bool { self.0.load(Ordering::Relaxed) }
/// }
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let stop = AtomicBool::new(false);
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// stop.store(true, Ordering::Relaxed);
/// assert!(cq.wait(received, Stopped(&stop))?.is_none());
/// # Ok::<_, loom_core::Error>(())
/// ```
pub trait Deadline {
    /// Returns `true` once the wait should end.
    fn passed(&mut self) -> bool;

    /// Time until the deadline passes, if it is known, which limits a
    /// [sleep](super::cq::Cq::poll_until). With the default `None`, a sleeper wakes and calls
    /// [`passed`](Self::passed) every 20 ms.
    fn left(&self) -> Option<Duration> {
        None
    }
}

/// Deadline after this number of checks, without a pause. Bounds a wait without a clock.
///
/// ```
/// use loom_core::{Deadline, Spins};
///
/// let mut two = Spins(2);
/// assert_eq!([two.passed(), two.passed(), two.passed()], [false, false, true]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Spins(pub u64);

impl Deadline for Spins {
    #[inline]
    fn passed(&mut self) -> bool {
        match self.0.checked_sub(1) {
            Some(left) => {
                self.0 = left;
                false
            }
            None => true,
        }
    }
}

/// Deadline that never passes. Spins without a pause.
///
/// ```
/// use loom_core::{Forever, Source, Spins};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// // No message is under way: `Forever` would not return here.
/// assert!(cq.wait(received, Spins(100))?.is_none());
/// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Forever;

impl Deadline for Forever {
    #[inline]
    fn passed(&mut self) -> bool {
        false
    }

    fn left(&self) -> Option<Duration> {
        Some(Duration::MAX)
    }
}

#[cfg(feature = "std")]
impl Deadline for std::time::Instant {
    #[inline]
    fn passed(&mut self) -> bool {
        std::time::Instant::now() >= *self
    }

    fn left(&self) -> Option<Duration> {
        Some(self.saturating_duration_since(std::time::Instant::now()))
    }
}

/// Deadline that yields the processor to other threads at checks.
///
/// For programs with more waiting threads than processors.
///
/// ```
/// use loom_core::{Av, Cq, Forever, Source, Yielding};
///
/// # fixture::domain!(network, domain);
/// # let (av, cq) = (Av::open(&domain, 1)?, Cq::open(&domain, 4)?);
/// # let (alice, bob) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
/// # let to_bob = av.insert(&bob.address()?)?;
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// cq.retry(Yielding::new(Forever), || alice.inject(to_bob, b"hello"))?;
/// let (bytes, _) = cq.finish(received, Yielding { spins: 100, ..Yielding::new(Forever) })?.into_parts();
/// assert_eq!(bytes, b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug)]
pub struct Yielding<D> {
    /// Deadline of the wait.
    pub until: D,
    /// Number of checks before the first that yields.
    pub spins: u32,
}

#[cfg(feature = "std")]
impl<D: Deadline> Yielding<D> {
    /// Yields at each check.
    ///
    /// ```
    /// use loom_core::{Deadline, Spins, Yielding};
    ///
    /// let mut until = Yielding::new(Spins(2));
    /// assert_eq!([until.passed(), until.passed(), until.passed()], [false, false, true]);
    /// ```
    #[must_use]
    pub const fn new(until: D) -> Self {
        Yielding { until, spins: 0 }
    }
}

#[cfg(feature = "std")]
impl<D: Deadline> Deadline for Yielding<D> {
    #[inline]
    fn passed(&mut self) -> bool {
        match self.spins.checked_sub(1) {
            Some(left) => self.spins = left,
            None => std::thread::yield_now(),
        }
        self.until.passed()
    }

    fn left(&self) -> Option<Duration> {
        self.until.left()
    }
}

impl<D: Deadline + ?Sized> Deadline for &mut D {
    #[inline]
    fn passed(&mut self) -> bool {
        (**self).passed()
    }

    fn left(&self) -> Option<Duration> {
        (**self).left()
    }
}
