use super::CqError;
use crate::deadline::Deadline;

/// Deadline that drives other queues whenever it is checked.
///
/// A wait drives only its own queue, but most providers and a [strict
/// network](crate::soft#strict-networks) need progress on both sides. For a peer on another queue
/// of the same thread.
///
/// ```
/// use loom_core::{Av, Cq, Domain, Driving, Forever, Source};
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
/// here.post(b"hello".to_vec(), until, |message| alice.send(to_bob, message))?;
/// let done = there.finish(received, Driving::new(Forever, || here.progress()))?;
/// assert_eq!(done.into_buf(), b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Driving<D, F> {
    until: D,
    drive: F,
    failed: Option<CqError>,
}

impl<D: Deadline, F: FnMut() -> Result<bool, CqError>> Driving<D, F> {
    /// Calls `drive`, for example [`Cq::progress`](super::Cq::progress) of other queues, at each
    /// check.
    #[must_use]
    pub const fn new(until: D, drive: F) -> Self {
        Driving { until, drive, failed: None }
    }

    /// Returns the result of driving. A failure makes the deadline pass.
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
