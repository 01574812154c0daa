//! How long to wait: the core has no clock, so the caller brings one.

use core::time::Duration;

use super::cq::CqError;

/// Says when waiting is over.
///
/// Asked now and then while nothing happens, between two calls of the transport: a call in which a provider itself hangs
/// is not bounded by it. `std::time::Instant` is one with the feature `std`.
///
/// Between two looks the processor does not pause: that would take longer than many operations do. `Yielding` (feature `std`) gives it to other threads. A
/// deadline of the caller's may pause, yield or count when it is asked.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use core::sync::atomic::{AtomicBool, Ordering};
///
/// use loom_core::{Av, Cq, Deadline, Domain, Source};
///
/// /// A deadline that passes when another thread sets a flag.
/// struct Stopped<'s>(&'s AtomicBool);
///
/// impl Deadline for Stopped<'_> {
///     fn passed(&mut self) -> bool {
///         self.0.load(Ordering::Relaxed)
///     }
/// }
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// # let to_bob = av.insert(&bob.address()?)?;
/// # let _ = (&alice, to_bob);
/// let stop = AtomicBool::new(false);
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// stop.store(true, Ordering::Relaxed);
/// assert!(cq.wait(received, Stopped(&stop))?.is_none());
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
pub trait Deadline {
    /// Whether the time has come.
    fn passed(&mut self) -> bool;

    /// Time until the deadline passes, if it is known: a [sleep](super::cq::Cq::poll_until) takes as long. `None`, the default, makes a
    /// sleeper wake up and call [`passed`](Self::passed) every 20 milliseconds.
    fn left(&self) -> Option<Duration> {
        None
    }
}

/// A deadline of this number of looks: bounds a wait where there is no clock. They follow each other without a pause.
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

/// No deadline at all: for waits that something else bounds. It spins without a pause.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::{Av, Cq, Domain, Forever, Source, Spins};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// # let to_bob = av.insert(&bob.address()?)?;
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// // No message is under way: `Forever` would not return here.
/// assert!(cq.wait(received, Spins(100))?.is_none());
/// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
/// # }
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

/// Another deadline, with the processor given to other threads between two looks.
///
/// For programs with more threads that wait than processors: a thread that spins keeps its peer from running until the scheduler takes
/// the processor away, which takes milliseconds. Where each thread has a processor, spinning alone answers sooner.
///
/// ```
/// use loom_core::objects::deadline::Yielding;
/// use loom_core::{Av, Cq, Domain, Forever, Source};
/// # use loom_core::soft::{Network, NetworkAttr};
///
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 1)?, Cq::open(&domain, 4)?);
/// # let (alice, bob) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
/// # let to_bob = av.insert(&bob.address()?)?;
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// cq.retry(Yielding::new(Forever), || alice.inject(to_bob, b"hello"))?;
/// let (bytes, _) = cq.finish(received, Yielding::new(Forever).after(100))?.into_parts();
/// assert_eq!(bytes, b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug)]
pub struct Yielding<D> {
    until: D,
    spins: u32,
}

#[cfg(feature = "std")]
impl<D: Deadline> Yielding<D> {
    /// Yields at each look.
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

    /// The same, but it spins at this number of looks before the first one that yields.
    ///
    /// ```
    /// use loom_core::{Deadline, Spins, Yielding};
    ///
    /// let mut until = Yielding::new(Spins(1)).after(100);
    /// assert_eq!([until.passed(), until.passed()], [false, true]);
    /// ```
    #[must_use]
    pub fn after(self, looks: u32) -> Self {
        Yielding { spins: looks, ..self }
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

/// Another deadline, with other queues driven between two looks.
///
/// A post, retry or wait drives its own queue. The endpoints of another queue on the thread make no progress meanwhile, and over most
/// providers (`shm`, `tcp;ofi_rxm`) and a [strict network](crate::soft#strict-networks) an operation needs the progress of both sides.
/// A call to a peer on another queue of the thread takes this deadline, which drives that queue.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::objects::deadline::Driving;
/// use loom_core::{Av, Cq, Domain, Forever, Source};
/// # use loom_core::soft::{Network, NetworkAttr};
///
/// # let network = Network::new(NetworkAttr { strict: true, ..NetworkAttr::default() })?;
/// # let domain = Domain::open(&network.info())?;
/// # let av = Av::open(&domain, 2)?;
/// let [here, there] = [Cq::open(&domain, 4)?, Cq::open(&domain, 4)?];
/// let (alice, bob) = (here.endpoint(&av)?, there.endpoint(&av)?);
/// let to_bob = av.insert(&bob.address()?)?;
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// // The post needs a connection, for which bob's queue has to be driven.
/// let until = Driving::new(Forever, || there.progress());
/// let sent = here.post(b"hello".to_vec(), until, |message| alice.send(to_bob, message))?;
/// let (bytes, _) = there.finish(received, Driving::new(Forever, || here.progress()))?.into_parts();
/// assert_eq!(bytes, b"hello");
/// here.finish(sent, Driving::new(Forever, || there.progress()))?;
/// // Several queues take a closure that drives each.
/// let queues = [here, there];
/// let until = Driving::new(Forever, || queues.iter().try_fold(false, |busy, cq| Ok(busy | cq.progress()?)));
/// # let _ = until;
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Driving<D, F> {
    until: D,
    drive: F,
    failed: Option<CqError>,
}

impl<D: Deadline, F: FnMut() -> Result<bool, CqError>> Driving<D, F> {
    /// Calls `drive` at each look: [`Cq::progress`](super::cq::Cq::progress) of the other queues, for example.
    #[must_use]
    pub const fn new(until: D, drive: F) -> Self {
        Driving { until, drive, failed: None }
    }

    /// Result of driving. The deadline passes when it fails: a caller that passes `&mut` of this value finds the error here.
    ///
    /// # Errors
    /// The error that `drive` returned.
    pub fn result(&self) -> Result<(), CqError> {
        self.failed.map_or(Ok(()), Err)
    }
}

impl<D: Deadline, F: FnMut() -> Result<bool, CqError>> Deadline for Driving<D, F> {
    #[inline]
    fn passed(&mut self) -> bool {
        self.failed = (self.drive)().err();
        self.failed.is_some() || self.until.passed()
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
