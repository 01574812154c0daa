//! Protocol traits: bounds for code that runs over every kind of endpoint.
//!
//! [`Completes`] is the base of all, [`Transmitter`] and [`Receiver`] of those with another side.
//! `TaggedEndpoint` of the package `loom-fabric-tagged` implements them, too.
//!
//! Posts that the provider does not grant are refused with [`PostError::NotGranted`].
//!
//! ```
//! use loom_core::Forever;
//! use loom_static::protocol::{MsgRecv, MsgSend};
//! # use loom_core::{Av, Cq, Domain};
//!
//! /// Sends a message over any protocol. Returns the received bytes.
//! fn echo<S, R>(from: &mut S, peer: S::To, to: &mut R, message: Vec<u8>) -> Option<Vec<u8>>
//! where
//!     S: MsgSend<Buf = Vec<u8>>,
//!     R: MsgRecv<Buf = Vec<u8>>,
//! {
//!     let received = to.post(vec![0; message.len()], Forever, |to, room| to.recv(R::ANY, room)).ok()?;
//!     let sent = from.post(message, Forever, |from, message| from.send(peer, message)).ok()?;
//!     let received = to.wait(received, Forever).ok()??;
//!     from.wait(sent, Forever).ok()??;
//!     received.result.ok().map(|_| received.buf)
//! }
//!
//! # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
//! # let (mut alice, mut bob) = (alice, bob);
//! assert_eq!(echo(&mut alice, to_bob, &mut bob, b"hello".to_vec()), Some(b"hello".to_vec()));
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! # Protocols of one's own
//!
//! A type implements [`Completes`] and the traits of its operations, with its own types of buffers,
//! keys and errors. A refused post returns the buffer in a [`Rejected`], an operation in an
//! [`Outcome`]. Example: `examples/framed`.

mod memory;
mod messages;
mod objects;

use core::error::Error;
use core::fmt;

pub use self::memory::{Atomics, RmaRead, RmaWrite};
pub use self::messages::{Inject, MsgRecv, MsgSend, TaggedInject, TaggedRecv, TaggedSend};
use loom_core::cq::CqError;
use loom_core::deadline::Deadline;
use loom_core::engine::op_table::Transfer;
use loom_core::error::{PostError, Rejected};
use loom_core::vocabulary::{EndpointAddr, Errno};

/// Result of a post.
pub type Posted<P> = Result<<P as Completes>::Key, Rejected<<P as Completes>::Buf, <P as Completes>::PostError>>;

/// Result of a wait: an outcome, or `Ok(None)` after the deadline.
pub type Waited<P> = Result<Option<Outcome<<P as Completes>::Buf, <P as Completes>::OpError>>, CqError>;

/// Outcome of an operation.
///
/// ```
/// use loom_core::cq::CqError;
/// use loom_static::protocol::{Completes, Outcome};
/// use loom_core::Forever;
///
/// /// Waits for a receive, and returns the bytes of its message.
/// fn message<P: Completes<Buf = Vec<u8>>>(protocol: &mut P, key: P::Key) -> Result<Option<Vec<u8>>, CqError> {
///     let Some(Outcome { mut buf, result }) = protocol.wait(key, Forever)? else { return Ok(None) };
///     Ok(result.ok().map(|transfer| {
///         buf.truncate(transfer.len);
///         buf
///     }))
/// }
/// ```
#[must_use = "it holds the buffer, and reports whether the operation succeeded"]
pub struct Outcome<B, E> {
    /// Buffer.
    pub buf: B,
    /// Transfer, or error of the operation.
    pub result: Result<Transfer, E>,
}

impl<B, E: fmt::Debug> fmt::Debug for Outcome<B, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome").field("result", &self.result).finish_non_exhaustive()
    }
}

/// Error of a refused post.
///
/// ```
/// use loom_static::protocol::{MsgSend, PostFailure};
///
/// /// Sends, or keeps the message for later.
/// fn send_or_keep<P: MsgSend>(protocol: &mut P, to: P::To, message: P::Buf) -> Result<Option<P::Buf>, P::PostError> {
///     match protocol.send(to, message) {
///         Ok(_) => Ok(None),
///         Err(refused) if refused.error.is_transient() => Ok(Some(refused.value)),
///         Err(refused) => Err(refused.error),
///     }
/// }
/// ```
pub trait PostFailure: Error {
    /// Returns `true` if the same post may succeed after [`Completes::progress`].
    fn is_transient(&self) -> bool;
}

impl PostFailure for PostError {
    #[inline]
    fn is_transient(&self) -> bool {
        // Progress frees no slot.
        PostError::is_transient(*self) && *self != PostError::Kept
    }
}

/// Base of all protocols: operations return their buffers on completion.
///
/// ```
/// use loom_core::cq::CqError;
/// use loom_core::{Forever, Source};
/// use loom_static::protocol::Completes;
/// # use loom_core::{Av, Cq, Domain};
///
/// /// Waits for all operations. Returns the buffers of those that succeeded.
/// fn finish_all<P: Completes>(protocol: &mut P, keys: &[P::Key]) -> Result<Vec<P::Buf>, CqError> {
///     let mut succeeded = Vec::new();
///     for key in keys {
///         let outcome = protocol.wait(*key, Forever)?;
///         succeeded.extend(outcome.filter(|outcome| outcome.result.is_ok()).map(|outcome| outcome.buf));
///     }
///     Ok(succeeded)
/// }
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let receives = [bob.recv(Source::Any, vec![0; 5])?, bob.recv(Source::Any, vec![0; 5])?];
/// bob.cancel(receives[1])?;
/// # cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// assert_eq!(finish_all(&mut bob.clone(), &receives)?, [b"hello"]);
/// # Ok::<_, loom_core::Error>(())
/// ```
pub trait Completes {
    /// Buffer type.
    type Buf;
    /// Identifies an operation until its completion.
    type Key: Copy + fmt::Debug;
    /// Error of a refused post.
    type PostError: PostFailure;
    /// Error of a failed operation.
    type OpError: Error;

    /// Waits for one operation and keeps other completions. At the deadline, returns `Ok(None)` and
    /// leaves the operation in flight.
    ///
    /// ```
    /// use loom_static::protocol::Completes;
    /// use loom_core::{Av, Cq, Domain, Forever, Source, Spins};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// # let mut bob = bob;
    /// let key = bob.recv(Source::Any, vec![0; 5])?;
    /// assert!(bob.wait(key, Spins(100))?.is_none(), "no message has come");
    /// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
    /// let outcome = bob.wait(key, Forever)?.expect("there is no deadline");
    /// assert_eq!((outcome.result?.len, outcome.buf), (5, b"hello".to_vec()));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`CqError::UnknownKey`] if the outcome was taken, or any other [`CqError`] of a failed queue.
    fn wait(&mut self, key: Self::Key, until: impl Deadline) -> Waited<Self>;

    /// Drives progress and keeps completions. Returns `true` if anything happened.
    ///
    /// # Errors
    /// [`CqError`] of a failed queue.
    fn progress(&mut self) -> Result<bool, CqError>;

    /// Posts a buffer as [`Cq::post`](loom_core::Cq::post) does: drives progress and posts again
    /// while the refusal is [transient](PostFailure::is_transient).
    ///
    /// ```
    /// use loom_static::protocol::{Completes, MsgSend};
    /// use loom_core::{Av, Cq, Domain, Source, Spins};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// # let mut alice = alice;
    /// let received = bob.recv(Source::Any, vec![0; 5])?;
    /// // Tries again until there is room, with a bound.
    /// let sent = alice.post(b"hello".to_vec(), Spins(1000), |alice, message| MsgSend::send(alice, to_bob, message))?;
    /// cq.finish(sent, loom_core::Forever)?.result()?;
    /// assert_eq!(cq.finish(received, loom_core::Forever)?.into_buf(), b"hello");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// The last refusal, with the buffer: it was permanent, the deadline has passed, or the queue
    /// has failed ([`progress`](Self::progress) returns its error).
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
                    buf = refused.value;
                }
                posted => return posted,
            }
        }
    }
}

/// Protocol with operations to a peer.
///
/// ```
/// use loom_core::Forever;
/// use loom_static::protocol::{MsgSend, Posted};
/// # use loom_core::{Av, Cq, Domain, Source};
///
/// /// Sends a copy of a message to each peer. Returns the keys to wait for.
/// fn send_all<P>(protocol: &mut P, peers: &[P::To], message: &[u8]) -> Result<Vec<P::Key>, P::PostError>
/// where
///     P: MsgSend<Buf = Vec<u8>>,
/// {
///     let mut send = |peer: &P::To| protocol.post(message.to_vec(), Forever, |protocol, copy| protocol.send(*peer, copy));
///     peers.iter().map(|peer| send(peer).map_err(|refused| refused.error)).collect()
/// }
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// # let receives = [bob.recv(Source::Any, vec![0; 5])?, bob.recv(Source::Any, vec![0; 5])?];
/// for key in send_all(&mut alice.clone(), &[to_bob, to_bob], b"hello")? {
///     cq.finish(key, Forever)?.result()?;
/// }
/// # for key in receives {
/// #     assert_eq!(cq.finish(key, Forever)?.into_buf(), b"hello");
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
pub trait Transmitter: Completes {
    /// Destination of an operation: a peer of an address vector, or [`ThePeer`](loom_core::ThePeer)
    /// of a connection.
    type To: Copy;
}

/// Protocol that receives from peers.
///
/// ```
/// use loom_static::protocol::{MsgRecv, Receiver};
/// use loom_core::{Av, Cq, Domain, Forever, Source};
///
/// /// Keeps `count` receives posted. `P::ANY` is `Source::Any` of an endpoint, and `ThePeer` of a connection.
/// fn fill<P: MsgRecv<Buf = Vec<u8>>>(protocol: &mut P, count: usize) -> Result<Vec<P::Key>, P::PostError> {
///     let receive = |_| protocol.post(vec![0; 64], Forever, |protocol, room| protocol.recv(P::ANY, room));
///     (0..count).map(receive).map(|posted| posted.map_err(|refused| refused.error)).collect()
/// }
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let receives = fill(&mut bob.clone(), 4)?;
/// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// assert_eq!(cq.finish(receives[0], Forever)?.result()?.len, 5);
/// # Ok::<_, loom_core::Error>(())
/// ```
pub trait Receiver: Completes {
    /// Selects senders.
    type From: Copy;

    /// Every peer.
    const ANY: Self::From;
}

/// Protocol connected to one peer.
///
/// ```
/// use loom_static::protocol::{Connection, MsgSend, Posted};
///
/// /// Sends to the peer of a connection.
/// fn say<P: Connection + MsgSend>(connection: &mut P, message: P::Buf) -> Posted<P> {
///     connection.send(P::PEER, message)
/// }
/// ```
#[doc(alias = "FI_EP_MSG")]
pub trait Connection: Transmitter {
    /// Connected peer.
    const PEER: Self::To;

    /// Address of the peer.
    ///
    /// # Errors
    /// The provider's, for example `ENOTCONN` if the connection has ended.
    #[doc(alias = "fi_getpeer")]
    fn peer_address(&self) -> Result<EndpointAddr, Errno>;

    /// Ends the connection.
    ///
    /// # Errors
    /// The provider's, `EOPNOTSUPP` if only dropping the endpoint ends the connection.
    #[doc(alias = "fi_shutdown")]
    fn shutdown(&mut self) -> Result<(), Errno>;
}
