//! Transfers in many parts, of which a fixed number is in flight.
//!
//! [`transfer`] posts one part after the other, as long as fewer than `N` are in flight, and gives one [`Outcome`] for all of them:
//! - What is refused for the moment (`FI_EAGAIN`, a full queue) waits for room.
//! - After the first error no further part is posted, and all that were posted are waited for. So nothing of the transfer is in
//!   flight when its outcome is there, unless the queue itself has failed: what is in flight is given up then, but for the operation that
//!   [`PartError::Queue`] names.
//! - A transfer that is dropped gives up what is in flight, as any future of an operation does: the driver's
//!   [`Unclaimed`](loom_core::driver::Unclaimed) says what becomes of the buffers.
//!
//! The window is an array in the future: nothing is allocated. Each wake-up looks at all operations in flight, so a window of hundreds
//! is better split over several tasks.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use loom_async::block_on;
//! use loom_async::window::{Window, transfer};
//! use loom_core::driver::{CqDriver, Unclaimed};
//! use loom_core::soft::{Network, NetworkAttr};
//! use loom_core::{Access, Av, Cq, Domain, Mr};
//!
//! let network = Network::new(NetworkAttr::default())?;
//! let domain = Domain::open(&network.info())?;
//! let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
//! let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
//! let to_bob = av.insert(&bob.address()?)?;
//! let region = Mr::open(&domain, vec![0; 1 << 20], Access::REMOTE_WRITE)?;
//! let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
//!
//! // A page each, four at a time.
//! let pages = (0..256).map(|page| vec![page as u8; 4096]);
//! let at = region.remote();
//! let written = block_on(&driver, transfer(&driver, Window::<4>, pages, |page, buf| {
//!     alice.write(to_bob, &at, page as u64 * 4096, buf)
//! }));
//! assert_eq!(written.result()?, 1 << 20);
//! # }
//! # Ok::<_, loom_core::Error>(())
//! ```

use core::fmt;
use core::future::poll_fn;
use core::ops::Range;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};

use loom_core::buffer::Buffer;
use loom_core::completion::OpError;
use loom_core::cq::CqError;
use loom_core::driver::{CqDriver, Finish};
use loom_core::error::{PostError, Rejected};
use loom_core::{Done, Error, Info, OpKey, Transport};

/// The ranges of `len` bytes that one operation each can move: as long as the provider grants (`max_msg_size`), and `most` at most. One of zero counts
/// as one byte.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_async::block_on;
/// use loom_async::window::{Window, ranges, transfer};
/// use loom_core::driver::{CqDriver, Unclaimed};
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::{Access, Av, Cq, Domain, Mr, scope};
///
/// let network = Network::new(NetworkAttr::default())?;
/// let (info, bytes) = (network.info(), vec![7; 100_000]);
/// scope(|s| {
///     let domain = s.open(&info)?;
///     let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
///     let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
///     let to_bob = av.insert(&bob.address()?)?;
///     let region = Mr::open(&domain, vec![0; bytes.len()], Access::REMOTE_WRITE)?;
///     let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
///
///     let parts = ranges(&info, bytes.len(), 4096).map(|range| &bytes[range]);
///     let at = region.remote();
///     let written = block_on(&driver, transfer(&driver, Window::<8>, parts, |part, buf| {
///         alice.write(to_bob, &at, part as u64 * 4096, buf)
///     }));
///     assert_eq!((written.parts, written.result()?), (25, 100_000));
///     Ok::<_, loom_core::Error>(())
/// })?;
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
pub fn ranges<T: Transport>(
    info: &Info<T>,
    len: usize,
    most: usize,
) -> impl Iterator<Item = Range<usize>> + Clone + use<T> {
    let step = info.attributes().endpoint.max_msg_size.min(most).max(1);
    (0..len).step_by(step).map(move |begin| begin..begin.saturating_add(step).min(len))
}

/// How many operations of a transfer are in flight at most: at least one.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_async::block_on;
/// use loom_async::window::{Window, transfer};
/// use loom_core::driver::{CqDriver, Unclaimed};
/// use loom_core::{Access, Av, Cq, Domain, Mr};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// # let to_bob = av.insert(&bob.address()?)?;
/// let region = Mr::open(&domain, vec![0; 4096], Access::REMOTE_WRITE)?;
/// let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
/// // Each part waits for the one before it.
/// let one_by_one = Window::<1>;
/// let parts = (0..4).map(|part| vec![part; 1024]);
/// let written = block_on(&driver, transfer(&driver, one_by_one, parts, |part, buf| {
///     alice.write(to_bob, &region.remote(), part as u64 * 1024, buf)
/// }));
/// assert_eq!((written.parts, written.bytes), (4, 4096));
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Window<const N: usize>;

/// What a transfer has come to.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_async::block_on;
/// use loom_async::window::{PartError, Window, transfer};
/// use loom_core::driver::{CqDriver, Unclaimed};
/// use loom_core::{Access, Av, Cq, Domain, Mr};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// # let to_bob = av.insert(&bob.address()?)?;
/// let region = Mr::open(&domain, vec![0; 3 * 1024], Access::REMOTE_WRITE)?;
/// let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
/// // The last of four parts does not fit into the region.
/// let parts = (0..4).map(|part| vec![part; 1024]);
/// let written = block_on(&driver, transfer(&driver, Window::<1>, parts, |part, buf| {
///     alice.write(to_bob, &region.remote(), part as u64 * 1024, buf)
/// }));
/// // The outcome says what arrived all the same.
/// assert_eq!((written.parts, written.bytes), (3, 3 * 1024));
/// assert_eq!(written.failed.map(|failed| failed.part), Some(3));
/// assert!(written.result().is_err());
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "it says whether the transfer succeeded"]
pub struct Outcome {
    /// How many parts were transferred.
    pub parts: usize,
    /// How many bytes these had.
    pub bytes: u64,
    /// The first error, if there was one.
    pub failed: Option<Failed>,
}

/// The first part of a transfer that failed.
///
/// ```
/// use loom_async::window::{Failed, PartError};
/// use loom_core::error::PostError;
///
/// let failed = Failed { part: 3, error: PartError::Post(PostError::UnknownPeer) };
/// // For logs it names the part; with `?` it becomes the error of the part.
/// assert!(failed.to_string().starts_with("part 3: "));
/// assert!(matches!(loom_core::Error::from(failed), loom_core::Error::Post(PostError::UnknownPeer)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Its number. The first part has 0.
    pub part: usize,
    /// Why it failed.
    pub error: PartError,
}

/// Why a part failed.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_async::block_on;
/// use loom_async::window::{PartError, Window, transfer};
/// use loom_core::driver::{CqDriver, Unclaimed};
/// use loom_core::{Av, Cq, Domain};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// # let to_bob = av.insert(&bob.address()?)?;
/// let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
/// av.remove(to_bob);
/// let sent = block_on(&driver, transfer(&driver, Window::<4>, [vec![7; 8]], |_, buf| alice.send(to_bob, buf)));
/// match sent.failed.expect("the peer was removed").error {
///     // Nothing is under way: the program may insert the peer again.
///     PartError::Post(error) => assert!(!error.is_transient()),
///     PartError::Operation(error) => panic!("the peer has failed: {error}"),
///     PartError::Queue { .. } => panic!("the queue has failed"),
///     _ => panic!("another error"),
/// }
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartError {
    /// It was not posted.
    Post(PostError),
    /// Its operation failed.
    Operation(OpError),
    /// The queue cannot go on. The operation is in its slot, and can be [waited for](CqDriver::finish) by its key.
    Queue {
        /// The operation.
        key: OpKey,
        /// Why.
        error: CqError,
    },
}

impl Outcome {
    /// The bytes of a transfer of which every part succeeded.
    ///
    /// # Errors
    /// The first error.
    pub const fn result(self) -> Result<u64, Failed> {
        match self.failed {
            None => Ok(self.bytes),
            Some(failed) => Err(failed),
        }
    }

    fn fails(&mut self, part: usize, error: PartError) {
        self.failed.get_or_insert(Failed { part, error });
    }
}

/// The operations in flight, with the numbers of their parts.
struct InFlight<'d, 'm, T: Transport, B: Buffer, E, const N: usize> {
    driver: &'d CqDriver<'m, T, B>,
    places: [Option<(usize, Finish<'m, T, B>)>; N],
    count: usize,
    outcome: Outcome,
    each: E,
}

impl<'m, T: Transport, B: Buffer, E: FnMut(usize, Done<B>), const N: usize> InFlight<'_, 'm, T, B, E, N> {
    /// Adds an operation. There is a place for it.
    fn add(&mut self, part: usize, finish: Finish<'m, T, B>) {
        if let Some(place) = self.places.iter_mut().find(|place| place.is_none()) {
            *place = Some((part, finish));
            self.count += 1;
        }
    }

    /// Takes what is over, and has the task be woken for the rest.
    fn look(&mut self, cx: &mut Context<'_>) {
        let InFlight { driver, places, count, outcome, each } = self;
        for place in places {
            let Some((part, finish)) = place else { continue };
            let (part, key) = (*part, finish.key());
            let Poll::Ready(result) = Pin::new(finish).poll(cx) else { continue };
            *place = None;
            *count -= 1;
            match result {
                // Only one key can be told.
                Err(_) if outcome.failed.is_some() => drop(driver.finish(key)),
                Err(error) => outcome.fails(part, PartError::Queue { key, error }),
                Ok(done) => {
                    match done.result() {
                        Ok(transfer) => {
                            outcome.parts += 1;
                            outcome.bytes += transfer.len() as u64;
                        }
                        Err(error) => outcome.fails(part, PartError::Operation(error)),
                    }
                    each(part, done);
                }
            }
        }
    }
}

/// Transfers parts, as the [module](self) says: `post` posts the buffer of each, whose number it gets, through an endpoint of the driver's queue. The
/// buffers are dropped when their parts are over.
///
/// `post` is called again with the same part where it is refused for the moment.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_async::block_on;
/// use loom_async::window::{Window, transfer};
/// use loom_core::driver::{CqDriver, Unclaimed};
/// use loom_core::{Av, Cq, Domain, Forever, Source};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// # let to_bob = av.insert(&bob.address()?)?;
/// let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
/// let mut received = Vec::new();
/// for _ in 0..8 {
///     received.push(bob.recv(Source::Any, vec![0; 4])?);
/// }
/// let messages = (0..8).map(|number| vec![number; 4]);
/// let task = async {
///     let sent = transfer(&driver, Window::<4>, messages, |_, message| alice.send(to_bob, message)).await.result()?;
///     let last = driver.finish(received[7]).await?.into_buf();
///     Ok::<_, loom_core::Error>((sent, last))
/// };
/// assert_eq!(block_on(&driver, task)?, (8 * 4, vec![7; 4]));
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
pub async fn transfer<'m, T, B, I, P, const N: usize>(
    driver: &CqDriver<'m, T, B>,
    window: Window<N>,
    parts: I,
    post: P,
) -> Outcome
where
    T: Transport,
    B: Buffer,
    I: IntoIterator<Item = B>,
    P: FnMut(usize, B) -> Result<OpKey, Rejected<B>>,
{
    transfer_each(driver, window, parts, post, |_, done| drop(done)).await
}

/// As [`transfer`], and gives each part's number and [`Done`], with the buffer, to `each`, in the order in which operations end.
///
/// A buffer is taken from the iterator when there is a place in the window. It is dropped if it cannot be posted, or if another part fails while it waits
/// for room. Parts after that stay with the iterator.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_async::block_on;
/// use loom_async::window::{Window, transfer_each};
/// use loom_core::driver::{CqDriver, Unclaimed};
/// use loom_core::{Access, Av, Cq, Domain, Mr};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// # let to_bob = av.insert(&bob.address()?)?;
/// let region = Mr::open(&domain, (0..64).collect::<Vec<u8>>(), Access::REMOTE_READ)?;
/// let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
/// // Reads give their buffers back, in whatever order they end.
/// let mut parts = vec![Vec::new(); 8];
/// let rooms = (0..8).map(|_| vec![0; 8]);
/// let read = |part, room| alice.read(to_bob, &region.remote(), part as u64 * 8, room);
/// let outcome = block_on(&driver, transfer_each(&driver, Window::<4>, rooms, read, |part, done| {
///     parts[part] = done.into_buf();
/// }));
/// assert_eq!(outcome.result()?, 64);
/// assert_eq!(parts.concat(), (0..64).collect::<Vec<u8>>());
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
pub async fn transfer_each<'m, T, B, I, P, E, const N: usize>(
    driver: &CqDriver<'m, T, B>,
    _: Window<N>,
    parts: I,
    mut post: P,
    each: E,
) -> Outcome
where
    T: Transport,
    B: Buffer,
    I: IntoIterator<Item = B>,
    P: FnMut(usize, B) -> Result<OpKey, Rejected<B>>,
    E: FnMut(usize, Done<B>),
{
    const { assert!(N > 0, "a window of no operations") };
    let (places, outcome) = ([const { None }; N], Outcome::default());
    let mut flight = InFlight::<T, B, E, N> { driver, places, count: 0, outcome, each };
    let mut parts = parts.into_iter().enumerate();
    loop {
        if flight.count == N {
            poll_fn(|cx| {
                flight.look(cx);
                if flight.count < N { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
        if flight.outcome.failed.is_some() {
            break;
        }
        let Some((part, buf)) = parts.next() else { break };
        let mut posting = pin!(driver.post(buf, |buf| post(part, buf)));
        let mut has_looked = false;
        let posted = poll_fn(|cx| {
            // Until the post is refused nothing has been driven since the last look.
            if has_looked {
                flight.look(cx);
            }
            if flight.outcome.failed.is_some() {
                return Poll::Ready(None);
            }
            if let Poll::Ready(posted) = posting.as_mut().poll(cx) {
                return Poll::Ready(Some(posted));
            }
            if !core::mem::replace(&mut has_looked, true) {
                flight.look(cx);
            }
            if flight.outcome.failed.is_some() { Poll::Ready(None) } else { Poll::Pending }
        });
        match posted.await {
            None => break,
            Some(Ok(key)) => flight.add(part, driver.finish(key)),
            Some(Err(Rejected { error, .. })) => {
                flight.outcome.fails(part, PartError::Post(error));
                break;
            }
        }
    }
    poll_fn(|cx| {
        flight.look(cx);
        if flight.count == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    flight.outcome
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "part {}: {}", self.part, Error::from(self.error))
    }
}

impl fmt::Display for PartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Error::from(*self).fmt(f)
    }
}

impl core::error::Error for Failed {}
impl core::error::Error for PartError {}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        failed.error.into()
    }
}

impl From<PartError> for Error {
    fn from(error: PartError) -> Self {
        match error {
            PartError::Post(error) => error.into(),
            PartError::Operation(error) => error.into(),
            PartError::Queue { error, .. } => error.into(),
        }
    }
}
