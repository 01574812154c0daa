//! Transfers in many parts, with a fixed number in flight.
//!
//! [`transfer`] posts parts while fewer than `N` are in flight, and returns one [`Outcome`] for
//! all:
//! - A transient error (`FI_EAGAIN`, a full queue) waits for room.
//! - After the first error, no part is posted, and all posted parts complete before the outcome. A
//!   failed queue gives up operations in flight, except [`Failed::key`].
//! - Dropping a transfer gives up operations in flight. The driver's
//!   [`Unclaimed`](loom_core::driver::Unclaimed) determines the fate of the buffers.
//!
//! Each wake-up polls all operations in flight.
//!
//! ```
//! use loom_async::block_on;
//! use loom_async::window::{Window, transfer};
//! use loom_core::driver::{CqDriver, Unclaimed};
//! use loom_core::{Access, Mr};
//! # use loom_core::{Av, Cq, Domain};
//! # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
//!
//! let region = Mr::open(&domain, vec![0; 1 << 20], Access::REMOTE_WRITE)?;
//! let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
//! let pages = (0..256).map(|page| vec![page as u8; 4096]);
//! let written = block_on(&driver, transfer(&driver, Window::<4>, pages, |page, buf| {
//!     alice.write(to_bob, &region.remote(), page as u64 * 4096, buf)
//! }));
//! assert_eq!(written.result()?, 1 << 20);
//! # Ok::<_, loom_core::Error>(())
//! ```

use core::fmt;
use core::future::poll_fn;
use core::ops::Range;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};

use loom_core::buffer::Buffer;
use loom_core::driver::{CqDriver, Finish};
use loom_core::error::Rejected;
use loom_core::{Done, Error, Info, OpKey, Transport};

/// Ranges of `len` bytes, of at most `most` bytes and the provider's `max_msg_size`. A limit of
/// zero counts as one byte.
///
/// ```
/// use loom_async::block_on;
/// use loom_async::window::{Window, ranges, transfer};
/// # use loom_core::driver::{CqDriver, Unclaimed};
/// # use loom_core::{Access, Av, Cq, Domain, Mr};
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// # let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
/// # let region = Mr::open(&domain, vec![0; 100_000], Access::REMOTE_WRITE)?;
///
/// let bytes = vec![7; 100_000];
/// let parts = ranges(&network.info(), bytes.len(), 4096).map(|range| bytes[range].to_vec());
/// let written = block_on(&driver, transfer(&driver, Window::<8>, parts, |part, buf| {
///     alice.write(to_bob, &region.remote(), part as u64 * 4096, buf)
/// }));
/// assert_eq!((written.parts, written.result()?), (25, 100_000));
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

/// Maximum operations in flight, at least one.
///
/// ```
/// use loom_async::block_on;
/// use loom_async::window::{Window, transfer};
/// use loom_core::driver::{CqDriver, Unclaimed};
/// use loom_core::{Access, Av, Cq, Domain, Mr};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let region = Mr::open(&domain, vec![0; 4096], Access::REMOTE_WRITE)?;
/// let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
/// // Each part waits for the one before it.
/// let one_by_one = Window::<1>;
/// let parts = (0..4).map(|part| vec![part; 1024]);
/// let written = block_on(&driver, transfer(&driver, one_by_one, parts, |part, buf| {
///     alice.write(to_bob, &region.remote(), part as u64 * 1024, buf)
/// }));
/// assert_eq!((written.parts, written.bytes), (4, 4096));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Window<const N: usize>;

/// Outcome of a transfer.
///
/// ```
/// use loom_async::block_on;
/// use loom_async::window::{Window, transfer};
/// use loom_core::driver::{CqDriver, Unclaimed};
/// use loom_core::{Access, Av, Cq, Domain, Mr};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
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
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "it reports whether the transfer succeeded"]
pub struct Outcome {
    /// Parts transferred.
    pub parts: usize,
    /// Bytes of these parts.
    pub bytes: u64,
    /// First error, if any.
    pub failed: Option<Failed>,
}

/// First failed part of a transfer.
///
/// ```
/// use loom_async::block_on;
/// use loom_async::window::{Window, transfer};
/// use loom_core::driver::{CqDriver, Unclaimed};
/// use loom_core::{Av, Cq, Domain, Error};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
/// av.remove(to_bob);
/// let sent = block_on(&driver, transfer(&driver, Window::<4>, [vec![7; 8]], |_, buf| alice.send(to_bob, buf)));
/// let failed = sent.failed.expect("the peer was removed");
/// // For logs it names the part.
/// assert!(failed.to_string().starts_with("part 0: not posted: "));
/// match failed.error {
///     // Nothing is under way: the program may insert the peer again.
///     Error::Post(error) => assert!(!error.is_transient()),
///     Error::Operation(error) => panic!("the peer has failed: {error}"),
///     error => panic!("the queue has failed: {error}"),
/// }
/// # Ok::<_, Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Part, from 0.
    pub part: usize,
    /// [`Error::Post`] if the part was not posted, [`Error::Operation`] or [`Error::Queue`].
    pub error: Error,
    /// Operation that keeps its slot if the queue failed. [Wait](CqDriver::finish) for it.
    pub key: Option<OpKey>,
}

impl Outcome {
    /// Bytes of a successful transfer.
    ///
    /// # Errors
    /// [`Error::Post`], [`Error::Operation`] or [`Error::Queue`]: the first error.
    pub const fn result(self) -> Result<u64, Error> {
        match self.failed {
            None => Ok(self.bytes),
            Some(failed) => Err(failed.error),
        }
    }

    fn fails(&mut self, part: usize, error: impl Into<Error>, key: Option<OpKey>) {
        self.failed.get_or_insert(Failed { part, error: error.into(), key });
    }
}

/// Transfers parts (see the [module](self)). `post` posts a part's number and buffer through an
/// endpoint of the driver's queue.
///
/// Buffers are dropped when their parts complete.
///
/// ```
/// use loom_async::block_on;
/// use loom_async::window::{Window, transfer};
/// use loom_core::driver::{CqDriver, Unclaimed};
/// use loom_core::{Av, Cq, Domain, Forever, Source};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
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

/// Like [`transfer`], and passes each part's number and [`Done`], with the buffer, to `each`.
///
/// A buffer is taken from the iterator when the window has a free slot, and dropped if it cannot be
/// posted.
///
/// ```
/// use loom_async::block_on;
/// use loom_async::window::{Window, transfer_each};
/// use loom_core::driver::{CqDriver, Unclaimed};
/// use loom_core::{Access, Av, Cq, Domain, Mr};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
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
                flight.outcome.fails(part, error, None);
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
        write!(f, "part {}: ", self.part)?;
        self.error.fmt(f)
    }
}

struct InFlight<'d, 'm, T: Transport, B: Buffer, E, const N: usize> {
    driver: &'d CqDriver<'m, T, B>,
    places: [Option<(usize, Finish<'m, T, B>)>; N],
    count: usize,
    outcome: Outcome,
    each: E,
}

impl<'m, T: Transport, B: Buffer, E: FnMut(usize, Done<B>), const N: usize> InFlight<'_, 'm, T, B, E, N> {
    fn add(&mut self, part: usize, finish: Finish<'m, T, B>) {
        if let Some(place) = self.places.iter_mut().find(|place| place.is_none()) {
            *place = Some((part, finish));
            self.count += 1;
        }
    }

    fn look(&mut self, cx: &mut Context<'_>) {
        let InFlight { driver, places, count, outcome, each } = self;
        for place in places {
            let Some((part, finish)) = place else { continue };
            let (part, key) = (*part, finish.key());
            let Poll::Ready(result) = Pin::new(finish).poll(cx) else { continue };
            *place = None;
            *count -= 1;
            match result {
                Err(_) if outcome.failed.is_some() => drop(driver.finish(key)),
                Err(error) => outcome.fails(part, error, Some(key)),
                Ok(done) => {
                    match done.result() {
                        Ok(transfer) => {
                            outcome.parts += 1;
                            outcome.bytes += transfer.len as u64;
                        }
                        Err(error) => outcome.fails(part, error, None),
                    }
                    each(part, done);
                }
            }
        }
    }
}
