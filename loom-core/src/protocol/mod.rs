//! Protocol traits: what generic code asks of an endpoint.
//!
//! A function that asks for traits of this module runs over every kind of endpoint that has the operations, over each transport, and over
//! protocols of a program's own, which implement the same traits and may wrap any other. All calls are static: over an endpoint they are the
//! endpoint's own methods.
//!
//! | trait | operations | needs |
//! |---|---|---|
//! | [`Completes`] | waits for an operation, drives progress | |
//! | [`Transmitter`], [`Receiver`] | none: they name the other side | |
//! | [`MsgSend`], [`MsgRecv`] | messages | [`Caps::MSG`](crate::Caps::MSG) |
//! | [`TaggedSend`], [`TaggedRecv`] | tagged messages | [`Caps::TAGGED`](crate::Caps::TAGGED) |
//! | [`RmaRead`], [`RmaWrite`] | reads and writes of a peer's memory | [`Caps::RMA`](crate::Caps::RMA) |
//! | [`Atomics`] | atomic operations on a peer's memory | [`Caps::ATOMIC`](crate::Caps::ATOMIC) |
//! | [`Inject`], [`TaggedInject`] | messages that are copied at once | the same as the messages |
//! | [`Connection`] | what only a connection has | |
//!
//! | implemented by | traits |
//! |---|---|
//! | [`Endpoint`](crate::Endpoint), [`MulticastEndpoint`](crate::objects::endpoint::MulticastEndpoint) | all but `Connection` |
//! | [`MsgEndpoint`](crate::MsgEndpoint) | all; before it is connected `Receiver`, `MsgRecv`, `TaggedRecv` |
//! | [`TxContext`](crate::objects::endpoint::TxContext) | all of a `Transmitter` |
//! | [`RxContext`](crate::objects::endpoint::RxContext), [`SharedRx`](crate::objects::endpoint::SharedRx) | `Receiver`, `MsgRecv`, `TaggedRecv` |
//! | [`MulticastGroup`](crate::objects::endpoint::MulticastGroup) | `Transmitter`, `MsgSend` |
//! | [`TaggedEndpoint`](crate::tagged::TaggedEndpoint) | `Transmitter`, `Receiver`, `TaggedSend`, `TaggedRecv`, `TaggedInject` |
//!
//! That an endpoint has a trait does not say that its provider grants the operation: a post of one that is not granted is refused with
//! [`PostError::NotGranted`].
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use std::time::{Duration, Instant};
//!
//! use loom_core::protocol::{MsgRecv, MsgSend};
//! use loom_core::soft::{Network, NetworkAttr};
//! use loom_core::{Av, Cq, Domain};
//!
//! /// Sends a message over any protocol, and returns what the other end has received.
//! fn echo<S, R>(from: &mut S, peer: S::To, to: &mut R, message: Vec<u8>) -> Option<Vec<u8>>
//! where
//!     S: MsgSend<Buf = Vec<u8>>,
//!     R: MsgRecv<Buf = Vec<u8>>,
//! {
//!     let until = Instant::now() + Duration::from_secs(5);
//!     let received = to.post(vec![0; message.len()], until, |to, room| to.recv(R::ANY, room)).ok()?;
//!     let sent = from.post(message, until, |from, message| from.send(peer, message)).ok()?;
//!     let received = to.wait(received, until).ok()??;
//!     from.wait(sent, until).ok()??.result.ok()?;
//!     received.result.ok().map(|_| received.buf)
//! }
//!
//! let network = Network::new(NetworkAttr::default())?;
//! let domain = Domain::open(&network.info())?;
//! let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
//! let (mut alice, mut bob) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
//! let to_bob = av.insert(&bob.address()?)?;
//! assert_eq!(echo(&mut alice, to_bob, &mut bob, b"hello".to_vec()).unwrap(), b"hello");
//! # }
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! # Protocols of one's own
//!
//! A type implements [`Completes`] and those of the other traits whose operations it has. It chooses the buffers of its users, what names an
//! operation, and its errors. A refused post gives the buffer back in a [`Rejected`], with the protocol's own error; an operation gives it back
//! in an [`Outcome`]. `examples/framed.rs` wraps whatever has messages: each travels in a frame with its length and a checksum.
//!
//! Methods take `&mut self`, so that a protocol may keep state. Endpoints are counted handles: a clone of one is as good as the first.

mod objects;
mod tagged;

use core::error::Error;
use core::fmt;

use crate::atomic::{BaseOp, CompareOp, Element, FetchOp, ReadOp};
use crate::engine::op_table::{Fetched, Transfer};
use crate::error::{PostError, Rejected};
use crate::objects::atomic::Granted;
use crate::objects::cq::CqError;
use crate::objects::deadline::Deadline;
use crate::objects::mr::RemoteRegion;
use crate::vocabulary::{EndpointAddr, Errno, ImmediateData, Tag, TagMatch};

/// What posting a buffer returns: what names the operation, or the buffer and why it was not taken.
pub type Posted<P> = Result<<P as Completes>::Key, Rejected<<P as Completes>::Buf, <P as Completes>::PostError>>;

/// What waiting for an operation returns: how it ended, or `Ok(None)` if the deadline has passed.
pub type Waited<P> = Result<Option<Outcome<<P as Completes>::Buf, <P as Completes>::OpError>>, CqError>;

/// How an operation ended: its buffer, and what was transferred or why not.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::objects::cq::CqError;
/// use loom_core::protocol::{Completes, Outcome};
/// use loom_core::Forever;
///
/// /// Waits for a receive, and returns the bytes of its message.
/// fn message<P: Completes<Buf = Vec<u8>>>(protocol: &mut P, key: P::Key) -> Result<Option<Vec<u8>>, CqError> {
///     let Some(Outcome { mut buf, result }) = protocol.wait(key, Forever)? else { return Ok(None) };
///     Ok(result.ok().map(|transfer| {
///         buf.truncate(transfer.len());
///         buf
///     }))
/// }
/// # }
/// ```
#[must_use = "it holds the buffer, and says whether the operation succeeded"]
pub struct Outcome<B, E> {
    /// The buffer.
    pub buf: B,
    /// What was transferred, or why the operation failed.
    pub result: Result<Transfer, E>,
}

impl<B, E: fmt::Debug> fmt::Debug for Outcome<B, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome").field("result", &self.result).finish_non_exhaustive()
    }
}

/// Why a protocol did not take an operation.
///
/// ```
/// use loom_core::protocol::{MsgSend, PostFailure};
///
/// /// Sends, or keeps the message for later.
/// fn send_or_keep<P: MsgSend>(protocol: &mut P, to: P::To, message: P::Buf) -> Result<Option<P::Buf>, P::PostError> {
///     match protocol.send(to, message) {
///         Ok(_) => Ok(None),
///         Err(refused) if refused.error.is_transient() => Ok(Some(refused.buf)),
///         Err(refused) => Err(refused.error),
///     }
/// }
/// ```
pub trait PostFailure: Error {
    /// Whether the same post may succeed after [`Completes::progress`].
    fn is_transient(&self) -> bool;
}

impl PostFailure for PostError {
    #[inline]
    fn is_transient(&self) -> bool {
        PostError::is_transient(*self)
    }
}

/// What all protocols have: operations take a buffer, and give it back when they are over.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::objects::cq::CqError;
/// use loom_core::protocol::Completes;
/// use loom_core::{Av, Cq, Domain, Errno, Forever, Source};
///
/// /// Waits for all operations, and returns the buffers of those that have succeeded.
/// fn finish_all<P: Completes>(protocol: &mut P, keys: &[P::Key]) -> Result<Vec<P::Buf>, CqError> {
///     let mut succeeded = Vec::new();
///     for key in keys {
///         let outcome = protocol.wait(*key, Forever)?;
///         succeeded.extend(outcome.filter(|outcome| outcome.result.is_ok()).map(|outcome| outcome.buf));
///     }
///     Ok(succeeded)
/// }
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// # let to_bob = av.insert(&bob.address()?)?;
/// let receives = [bob.recv(Source::Any, vec![0; 5])?, bob.recv(Source::Any, vec![0; 5])?];
/// bob.cancel(receives[1])?;
/// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// assert_eq!(finish_all(&mut bob.clone(), &receives)?, [b"hello"]);
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
pub trait Completes {
    /// The buffers that operations take.
    type Buf;
    /// What names an operation from its post until its end.
    type Key: Copy + fmt::Debug;
    /// Why an operation is not taken.
    type PostError: PostFailure;
    /// Why an operation has failed.
    type OpError: Error;

    /// Waits for one operation. What completes meanwhile is kept; `Ok(None)` says that the deadline passed, and leaves the operation in flight.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::protocol::Completes;
    /// use loom_core::{Av, Cq, Domain, Forever, Source, Spins};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// # let mut bob = bob;
    /// let key = bob.recv(Source::Any, vec![0; 5])?;
    /// assert!(bob.wait(key, Spins(100))?.is_none(), "no message has come");
    /// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
    /// let outcome = bob.wait(key, Forever)?.expect("there is no deadline");
    /// assert_eq!((outcome.result?.len(), outcome.buf), (5, b"hello".to_vec()));
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`CqError::UnknownKey`] if the operation is over and its outcome was taken, or any other [`CqError`]: the queue below cannot go on.
    fn wait(&mut self, key: Self::Key, until: impl Deadline) -> Waited<Self>;

    /// Drives progress, and keeps what completes. Says whether anything happened.
    ///
    /// # Errors
    /// [`CqError`]: the queue below cannot go on.
    fn progress(&mut self) -> Result<bool, CqError>;

    /// Posts a buffer until it is taken, as [`Cq::post`](crate::Cq::post) does: as long as the refusal is
    /// [for the moment](PostFailure::is_transient), this drives progress and posts again.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::protocol::{Completes, MsgSend};
    /// use loom_core::{Av, Cq, Domain, Source, Spins};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// # let mut alice = alice;
    /// let received = bob.recv(Source::Any, vec![0; 5])?;
    /// // Tries again until there is room, with a bound.
    /// let sent = alice.post(b"hello".to_vec(), Spins(1000), |alice, message| MsgSend::send(alice, to_bob, message))?;
    /// cq.finish(sent, loom_core::Forever)?.result()?;
    /// assert_eq!(cq.finish(received, loom_core::Forever)?.into_buf(), b"hello");
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// The last refusal, with the buffer: one that is not for the moment, or when the deadline has passed, or when the queue cannot go on
    /// ([`progress`](Self::progress) says why).
    #[inline]
    fn post(
        &mut self,
        mut buf: Self::Buf,
        mut until: impl Deadline,
        mut post: impl FnMut(&mut Self, Self::Buf) -> Posted<Self>,
    ) -> Posted<Self>
    where
        Self: Sized,
    {
        loop {
            match post(self, buf) {
                Err(refused) if refused.error.is_transient() && self.progress().is_ok() && !until.passed() => {
                    buf = refused.buf;
                }
                posted => return posted,
            }
        }
    }
}

/// A protocol whose operations go to a peer.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::protocol::{MsgSend, Posted, Transmitter};
/// use loom_core::{Av, Cq, Domain, Forever, Source};
///
/// /// The members of a group, of whatever protocol.
/// struct Members<P: Transmitter>(Vec<P::To>);
///
/// impl<P: MsgSend<Buf = Vec<u8>>> Members<P> {
///     /// Sends a copy of the message to each.
///     fn tell(&self, protocol: &mut P, message: &[u8]) -> Result<Vec<P::Key>, P::PostError> {
///         let send = |to: &P::To| protocol.post(message.to_vec(), Forever, |protocol, copy| protocol.send(*to, copy));
///         self.0.iter().map(send).map(|posted| posted.map_err(|refused| refused.error)).collect()
///     }
/// }
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// # let to_bob = av.insert(&bob.address()?)?;
/// let received = [bob.recv(Source::Any, vec![0; 5])?, bob.recv(Source::Any, vec![0; 5])?];
/// let members = Members(vec![to_bob, to_bob]);
/// members.tell(&mut alice.clone(), b"hello")?;
/// for key in received {
///     assert_eq!(cq.finish(key, Forever)?.into_buf(), b"hello");
/// }
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
pub trait Transmitter: Completes {
    /// Whom an operation goes to: a peer of an address vector, or, over a connection, [`ThePeer`](crate::ThePeer).
    type To: Copy;
}

/// A protocol that receives from peers.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::protocol::{MsgRecv, Receiver};
/// use loom_core::{Av, Cq, Domain, Forever, Source};
///
/// /// Keeps `count` receives posted. `P::ANY` is `Source::Any` of an endpoint, and `ThePeer` of a connection.
/// fn fill<P: MsgRecv<Buf = Vec<u8>>>(protocol: &mut P, count: usize) -> Result<Vec<P::Key>, P::PostError> {
///     let receive = |_| protocol.post(vec![0; 64], Forever, |protocol, room| protocol.recv(P::ANY, room));
///     (0..count).map(receive).map(|posted| posted.map_err(|refused| refused.error)).collect()
/// }
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// # let to_bob = av.insert(&bob.address()?)?;
/// let receives = fill(&mut bob.clone(), 4)?;
/// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// assert_eq!(cq.finish(receives[0], Forever)?.result()?.len(), 5);
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
pub trait Receiver: Completes {
    /// Whose messages a receive takes.
    type From: Copy;

    /// Any peer's messages.
    const ANY: Self::From;
}

/// Sends messages.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::protocol::{MsgSend, Posted};
/// use loom_core::{Av, Cq, Domain, Forever, ImmediateData, Source};
///
/// /// Sends a message with its number as immediate data.
/// fn send_numbered<P: MsgSend>(protocol: &mut P, to: P::To, number: u32, message: P::Buf) -> Posted<P> {
///     protocol.post(message, Forever, |protocol, message| {
///         protocol.send_data(to, ImmediateData(number.into()), message)
///     })
/// }
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// # let to_bob = av.insert(&bob.address()?)?;
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// send_numbered(&mut alice.clone(), to_bob, 7, b"hello".to_vec())?;
/// assert_eq!(cq.finish(received, Forever)?.result()?.data(), Some(ImmediateData(7)));
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[doc(alias = "FI_MSG")]
pub trait MsgSend: Transmitter {
    /// Sends a message.
    ///
    /// # Errors
    /// The buffer comes back.
    #[doc(alias = "fi_send")]
    fn send(&mut self, to: Self::To, buf: Self::Buf) -> Posted<Self>;

    /// Sends a message with immediate data, which the receiver finds in its [`Transfer`].
    ///
    /// # Errors
    /// The buffer comes back.
    #[doc(alias = "fi_senddata")]
    fn send_data(&mut self, to: Self::To, data: ImmediateData, buf: Self::Buf) -> Posted<Self>;
}

/// Receives messages.
///
/// ```
/// use loom_core::protocol::{MsgRecv, Posted};
///
/// /// Posts a receive for a message of any peer.
/// fn listen<P: MsgRecv>(protocol: &mut P, room: P::Buf) -> Posted<P> {
///     protocol.recv(P::ANY, room)
/// }
/// ```
#[doc(alias = "FI_MSG")]
pub trait MsgRecv: Receiver {
    /// Receives a message.
    ///
    /// # Errors
    /// The buffer comes back.
    #[doc(alias = "fi_recv")]
    fn recv(&mut self, from: Self::From, buf: Self::Buf) -> Posted<Self>;
}

/// Sends tagged messages.
///
/// ```
/// use loom_core::Tag;
/// use loom_core::protocol::{Posted, TaggedSend};
///
/// /// Sends part `number` of a file: over an endpoint, a connection, or tags over plain messages.
/// fn send_part<P: TaggedSend>(protocol: &mut P, to: P::To, number: u32, part: P::Buf) -> Posted<P> {
///     protocol.tagged_send(to, Tag(number.into()), part)
/// }
/// ```
#[doc(alias = "FI_TAGGED")]
pub trait TaggedSend: Transmitter {
    /// Sends a tagged message.
    ///
    /// # Errors
    /// The buffer comes back.
    #[doc(alias = "fi_tsend")]
    fn tagged_send(&mut self, to: Self::To, tag: Tag, buf: Self::Buf) -> Posted<Self>;

    /// Sends a tagged message with immediate data.
    ///
    /// # Errors
    /// The buffer comes back.
    #[doc(alias = "fi_tsenddata")]
    fn tagged_send_data(&mut self, to: Self::To, tag: Tag, data: ImmediateData, buf: Self::Buf) -> Posted<Self>;
}

/// Receives tagged messages.
///
/// ```
/// use loom_core::protocol::{Posted, TaggedRecv};
/// use loom_core::{Tag, TagMatch};
///
/// /// Posts a receive for any part of transfer `number`, whose parts are numbered by the lower 32 bits of the tag.
/// fn listen_for<P: TaggedRecv>(protocol: &mut P, number: u32, room: P::Buf) -> Posted<P> {
///     protocol.tagged_recv(P::ANY, TagMatch::masked(Tag(u64::from(number) << 32), 0xffff_ffff), room)
/// }
/// ```
#[doc(alias = "FI_TAGGED")]
pub trait TaggedRecv: Receiver {
    /// Receives a tagged message: the oldest one that `tag` accepts.
    ///
    /// # Errors
    /// The buffer comes back.
    #[doc(alias = "fi_trecv")]
    fn tagged_recv(&mut self, from: Self::From, tag: TagMatch, buf: Self::Buf) -> Posted<Self>;
}

/// Reads peers' memory.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::protocol::{Completes, RmaRead};
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::{Access, Av, Cq, Domain, Forever, Mr, RemoteRegion};
///
/// /// The first `len` bytes of a peer's region.
/// fn fetch<P: RmaRead<Buf = Vec<u8>>>(protocol: &mut P, peer: P::To, from: &RemoteRegion, len: usize) -> Option<Vec<u8>> {
///     let read = protocol.post(vec![0; len], Forever, |protocol, room| protocol.read(peer, from, 0, room)).ok()?;
///     let outcome = protocol.wait(read, Forever).ok()??;
///     outcome.result.ok().map(|_| outcome.buf)
/// }
///
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// # let [mut alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// # let to_bob = av.insert(&bob.address()?)?;
/// let region = Mr::open(&domain, vec![7; 64], Access::REMOTE_READ)?;
/// assert_eq!(fetch(&mut alice, to_bob, &region.remote(), 3), Some(vec![7; 3]));
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[doc(alias = "FI_RMA")]
pub trait RmaRead: Transmitter {
    /// Reads from a peer's region, from `offset` bytes into it, as many bytes as the buffer has.
    ///
    /// # Errors
    /// The buffer comes back. What the peer refuses is an [`Outcome`].
    #[doc(alias = "fi_read")]
    fn read(&mut self, peer: Self::To, region: &RemoteRegion, offset: u64, buf: Self::Buf) -> Posted<Self>;
}

/// Writes peers' memory.
///
/// ```
/// use loom_core::protocol::{Posted, RmaWrite};
/// use loom_core::{ImmediateData, RemoteRegion};
///
/// /// Writes a block into its place at a peer, whose queue reports the number.
/// fn put<P: RmaWrite>(protocol: &mut P, peer: P::To, region: &RemoteRegion, number: u32, block: P::Buf) -> Posted<P> {
///     protocol.write_data(peer, region, u64::from(number) * 4096, ImmediateData(number.into()), block)
/// }
/// ```
#[doc(alias = "FI_RMA")]
pub trait RmaWrite: Transmitter {
    /// Writes the buffer into a peer's region, from `offset` bytes into it.
    ///
    /// # Errors
    /// The buffer comes back. What the peer refuses is an [`Outcome`].
    #[doc(alias = "fi_write")]
    fn write(&mut self, peer: Self::To, region: &RemoteRegion, offset: u64, buf: Self::Buf) -> Posted<Self>;

    /// Writes the buffer, and tells the peer: its queue reports `data`.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    #[doc(alias = "fi_writedata")]
    fn write_data(
        &mut self,
        peer: Self::To,
        region: &RemoteRegion,
        offset: u64,
        data: ImmediateData,
        buf: Self::Buf,
    ) -> Posted<Self>;
}

/// Atomic operations on peers' memory. Buffers hold lists of elements, one behind the other, as [`Endpoint`](crate::Endpoint)'s do.
///
/// ```
/// use loom_core::atomic::FetchOp;
/// use loom_core::objects::atomic::Granted;
/// use loom_core::protocol::Atomics;
/// use loom_core::{Forever, RemoteRegion};
///
/// /// Takes the next ticket: fetch-and-add on the first element of a region.
/// fn ticket<P: Atomics>(
///     protocol: &mut P,
///     peer: P::To,
///     region: &RemoteRegion,
///     add: Granted<FetchOp<u64>>,
/// ) -> Option<u64> {
///     let key = protocol.fetch_value(peer, region, 0, add, 1).ok()?;
///     protocol.wait_value(key, Forever).ok()??.value().ok()?
/// }
/// ```
#[doc(alias = "FI_ATOMIC")]
pub trait Atomics: Transmitter {
    /// Changes elements of a peer's region, from `offset` bytes into it, as many as the buffer has operands.
    ///
    /// # Errors
    /// The buffer comes back. What the peer refuses is an [`Outcome`].
    #[doc(alias = "fi_atomic")]
    fn atomic<E: Element>(
        &mut self,
        peer: Self::To,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<BaseOp<E>>,
        buf: Self::Buf,
    ) -> Posted<Self>;

    /// The same, and brings back what was there before: the buffer holds the operands, and behind them room for as many results.
    ///
    /// # Errors
    /// As [`atomic`](Self::atomic).
    #[doc(alias = "fi_fetch_atomic")]
    fn fetch_atomic<E: Element>(
        &mut self,
        peer: Self::To,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<FetchOp<E>>,
        buf: Self::Buf,
    ) -> Posted<Self>;

    /// Reads elements of a peer's region, each in one step.
    ///
    /// # Errors
    /// As [`atomic`](Self::atomic).
    #[doc(alias = "FI_ATOMIC_READ")]
    fn atomic_read<E: Element>(
        &mut self,
        peer: Self::To,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<ReadOp<E>>,
        buf: Self::Buf,
    ) -> Posted<Self>;

    /// Changes elements that compare as the operation says: the buffer holds the operands, behind them what is compared, and behind that
    /// room for the results.
    ///
    /// # Errors
    /// As [`atomic`](Self::atomic).
    #[doc(alias = "fi_compare_atomic")]
    fn compare_atomic<E: Element>(
        &mut self,
        peer: Self::To,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<CompareOp<E>>,
        buf: Self::Buf,
    ) -> Posted<Self>;

    /// [`fetch_atomic`](Self::fetch_atomic) of one element, without a buffer. [`wait_value`](Self::wait_value) waits for it.
    ///
    /// # Errors
    /// Why it is not taken.
    #[doc(alias = "fi_fetch_atomic")]
    fn fetch_value<E: Element>(
        &mut self,
        peer: Self::To,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<FetchOp<E>>,
        operand: E,
    ) -> Result<Self::Key, Self::PostError>;

    /// [`compare_atomic`](Self::compare_atomic) of one element, without a buffer.
    ///
    /// # Errors
    /// Why it is not taken.
    #[doc(alias = "FI_CSWAP")]
    fn compare_value<E: Element>(
        &mut self,
        peer: Self::To,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<CompareOp<E>>,
        compare: E,
        operand: E,
    ) -> Result<Self::Key, Self::PostError>;

    /// Waits for one operation on one element.
    ///
    /// # Errors
    /// As [`wait`](Completes::wait).
    fn wait_value(&mut self, key: Self::Key, until: impl Deadline) -> Result<Option<Fetched>, CqError>;
}

/// Sends messages as copies, which report nothing if they succeed.
///
/// ```
/// use loom_core::protocol::Inject;
///
/// /// Sends a short message as a copy, and says whether it was short enough.
/// fn try_inject<P: Inject>(protocol: &mut P, to: P::To, message: &[u8]) -> Result<bool, P::PostError> {
///     if message.len() > protocol.inject_size(to) {
///         return Ok(false);
///     }
///     protocol.inject(to, message)?;
///     Ok(true)
/// }
/// ```
#[doc(alias = "fi_inject")]
pub trait Inject: MsgSend {
    /// The most bytes that an inject to this peer takes.
    fn inject_size(&self, to: Self::To) -> usize;

    /// Sends a copy of `bytes`, which can be reused at once.
    ///
    /// # Errors
    /// Why it is not taken: more bytes than [`inject_size`](Self::inject_size), for one.
    fn inject(&mut self, to: Self::To, bytes: &[u8]) -> Result<(), Self::PostError>;
}

/// Sends tagged messages as copies, which report nothing if they succeed.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::protocol::{Posted, TaggedInject};
/// use loom_core::{Av, Cq, Domain, Forever, Source, Tag};
///
/// /// Sends a tagged message as a copy if it is short, and else from a buffer, whose key it returns.
/// fn send<P>(protocol: &mut P, to: P::To, tag: Tag, message: &[u8]) -> Result<Option<P::Key>, P::PostError>
/// where
///     P: TaggedInject<Buf = Vec<u8>>,
/// {
///     if message.len() <= protocol.tagged_inject_size(to) {
///         return protocol.tagged_inject(to, tag, message).map(|()| None);
///     }
///     protocol.tagged_send(to, tag, message.to_vec()).map(Some).map_err(|refused| refused.error)
/// }
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// # let to_bob = av.insert(&bob.address()?)?;
/// # let cq: Cq<'_, _, Vec<u8>> = cq;
/// # // A strict network refuses the first message between two endpoints for the moment.
/// # cq.retry(Forever, || alice.tagged_inject(to_bob, Tag(1), b""))?;
/// assert!(send(&mut alice.clone(), to_bob, Tag(7), b"hello")?.is_none());
/// let long = vec![1; alice.inject_size() + 1];
/// assert!(send(&mut alice.clone(), to_bob, Tag(8), &long)?.is_some());
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[doc(alias = "fi_tinject")]
pub trait TaggedInject: TaggedSend {
    /// The most bytes that an inject to this peer takes.
    fn tagged_inject_size(&self, to: Self::To) -> usize;

    /// Sends a tagged copy of `bytes`, which can be reused at once.
    ///
    /// # Errors
    /// Why it is not taken: more bytes than [`tagged_inject_size`](Self::tagged_inject_size), for one.
    fn tagged_inject(&mut self, to: Self::To, tag: Tag, bytes: &[u8]) -> Result<(), Self::PostError>;
}

/// A protocol with one peer, to which it is connected.
///
/// ```
/// use loom_core::protocol::{Connection, MsgSend, Posted};
///
/// /// Sends to the peer of a connection.
/// fn say<P: Connection + MsgSend>(connection: &mut P, message: P::Buf) -> Posted<P> {
///     connection.send(P::PEER, message)
/// }
/// ```
#[doc(alias = "FI_EP_MSG")]
pub trait Connection: Transmitter {
    /// The one that operations go to.
    const PEER: Self::To;

    /// The peer's address.
    ///
    /// # Errors
    /// The provider's: `ENOTCONN`, for example, if the connection has ended.
    #[doc(alias = "fi_getpeer")]
    fn peer_address(&self) -> Result<EndpointAddr, Errno>;

    /// Ends the connection.
    ///
    /// # Errors
    /// The provider's; `EOPNOTSUPP` where only dropping it ends a connection.
    #[doc(alias = "fi_shutdown")]
    fn shutdown(&mut self) -> Result<(), Errno>;
}
