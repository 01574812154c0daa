//! [`Place`]: a request to one peer, and what became of it.

use core::fmt;

use loom_core::buffer::Buffer;
use loom_core::completion::OpError;
use loom_core::endpoint::{Connectionless, Established, Msg, Receives, Transmits};
use loom_core::error::{PostError, Rejected};
use loom_core::{Done, Endpoint, OpKey, RemoteRegion, Transfer, Transport};

use crate::PeerIndex;
use crate::links::To;
use crate::verb::{Verb, What};

/// Posts over an endpoint of a kind.
type PostOver<'m, T, B, K> = fn(
    &Endpoint<'m, T, B, K>,
    <K as Transmits<T>>::To,
    <K as Receives<T>>::From,
    What<'_>,
    B,
) -> Result<OpKey, Rejected<B>>;

/// Posts a request that has waited for room: over the endpoint of all, or over a connection.
pub(crate) struct Post<'m, T: Transport, B: Buffer> {
    pub(crate) shared: PostOver<'m, T, B, Connectionless<'m, T>>,
    pub(crate) connected: PostOver<'m, T, B, Msg<Established>>,
}

impl<T: Transport, B: Buffer> Post<'_, T, B> {
    pub(crate) fn of<V: Verb<T, B>>() -> Self {
        Post { shared: V::post, connected: V::post }
    }
}

/// The room for one request, in a slice of the caller's, and what became of it.
///
/// An operation on many peers fills one place for each request, in their order.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::{Domain, Forever};
/// use loom_group::{PeerIndex, Place, Prepared};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let prepared = Prepared::open(&domain, 2, 16)?;
/// # let itself = prepared.address()?;
/// // Both members are this side.
/// let group = prepared.connect([&itself; 2])?;
/// for _ in 0..2 {
///     group.recv_any(vec![0; 5])?;
/// }
/// // Room for both requests. The places can be used again by the next scope.
/// let mut places = [Place::EMPTY; 2];
/// group.scope(&mut places, |scope| {
///     scope.send(PeerIndex(0), b"hello".to_vec())?;
///     scope.send(PeerIndex(1), b"again".to_vec())?;
///     Ok::<_, loom_core::Error>(scope.finish(Forever)?)
/// })?;
/// let bufs = places.each_mut().map(|place| place.take_buf());
/// assert_eq!(bufs, [Some(b"hello".to_vec()), Some(b"again".to_vec())]);
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct Place<'m, T: Transport, B: Buffer> {
    pub(crate) peer: PeerIndex,
    pub(crate) outcome: Outcome<B>,
    pub(crate) waiting: Option<Waiting<'m, T, B>>,
}

/// What a request needs to be posted later: with the buffer, which is in its outcome.
pub(crate) struct Waiting<'m, T: Transport, B: Buffer> {
    pub(crate) post: Post<'m, T, B>,
    /// The peer that had the number: one that takes its place later does not get the request.
    pub(crate) to: To,
    pub(crate) region: RemoteRegion,
    pub(crate) receives: bool,
    /// A tag, or immediate data.
    pub(crate) word: u64,
}

/// What became of a request.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::{Domain, Forever};
/// use loom_group::{Outcome, PeerIndex, Place, Prepared};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let prepared = Prepared::open(&domain, 2, 16)?;
/// # let itself = prepared.address()?;
/// // Both members are this side.
/// let group = prepared.connect([&itself; 2])?;
/// group.recv_any(vec![0; 5])?;
/// let mut places = [Place::EMPTY];
/// let text = group.scope(&mut places, |scope| {
///     let sent = scope.send(PeerIndex(1), b"hello".to_vec())?;
///     scope.finish(Forever)?;
///     Ok::<_, loom_core::Error>(match scope.outcome(sent) {
///         Some(Outcome::Done { transfer, .. }) => format!("{} bytes sent", transfer.len()),
///         Some(Outcome::Failed { error, .. }) => format!("failed: {error}"),
///         Some(Outcome::NotPosted { error, .. }) => format!("not sent: {error}"),
///         Some(Outcome::InFlight(key)) => format!("still under way: {key:?}"),
///         Some(Outcome::Empty) | None => "no request".into(),
///     })
/// })?;
/// assert_eq!(text, "5 bytes sent");
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Debug)]
pub enum Outcome<B> {
    /// Nothing was asked for.
    Empty,
    /// It was posted, and is over.
    Done {
        /// The buffer.
        buf: B,
        /// What was transferred.
        transfer: Transfer,
    },
    /// It was posted, and has failed: `error` says how, and how many bytes were transferred ([`OpError::len`]).
    Failed {
        /// The buffer.
        buf: B,
        /// How it failed.
        error: OpError,
    },
    /// It was not posted: it was refused, or has found no room until the deadline. Nothing of it has gone out.
    NotPosted {
        /// The buffer.
        buf: B,
        /// The last refusal.
        error: PostError,
    },
    /// It is in flight on the group's queue, because it could not be ended in time: the key is for who polls the queue.
    InFlight(OpKey),
}

impl<B> Outcome<B> {
    /// Whether it is [`Done`](Self::Done).
    #[must_use]
    pub const fn is_done(&self) -> bool {
        matches!(self, Outcome::Done { .. })
    }

    /// The buffer, if it is back.
    #[must_use]
    pub const fn buf(&self) -> Option<&B> {
        match self {
            Outcome::Done { buf, .. } | Outcome::Failed { buf, .. } | Outcome::NotPosted { buf, .. } => Some(buf),
            Outcome::Empty | Outcome::InFlight(_) => None,
        }
    }

    /// The buffer, if it is back.
    #[must_use]
    #[inline]
    pub fn into_buf(self) -> Option<B> {
        match self {
            Outcome::Done { buf, .. } | Outcome::Failed { buf, .. } | Outcome::NotPosted { buf, .. } => Some(buf),
            Outcome::Empty | Outcome::InFlight(_) => None,
        }
    }

    pub(crate) fn of(done: Done<B>) -> Self {
        match done.into_parts() {
            (buf, Ok(transfer)) => Outcome::Done { buf, transfer },
            (buf, Err(error)) => Outcome::Failed { buf, error },
        }
    }
}

impl<T: Transport, B: Buffer> Place<'_, T, B> {
    /// A place without a request.
    pub const EMPTY: Self = Place { peer: PeerIndex(0), outcome: Outcome::Empty, waiting: None };

    /// Makes it [`EMPTY`](Self::EMPTY): cheaper than to assign that, as little is written.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.peer = PeerIndex(0);
        self.outcome = Outcome::Empty;
        self.waiting = None;
    }

    /// Puts an outcome in place of one that has no buffer.
    #[inline]
    pub(crate) fn set(&mut self, outcome: Outcome<B>) {
        let before = core::mem::replace(&mut self.outcome, outcome);
        debug_assert!(before.buf().is_none(), "no buffer is lost");
        // There is no buffer to drop. Without this the compiler looks for one.
        core::mem::forget(before);
    }

    /// The peer of the request.
    #[must_use]
    pub const fn peer(&self) -> PeerIndex {
        self.peer
    }

    /// What became of the request. Within a [`Scope`](crate::Scope), one that waits for room is [`NotPosted`](Outcome::NotPosted).
    #[must_use]
    pub const fn outcome(&self) -> &Outcome<B> {
        &self.outcome
    }

    /// Takes the buffer out, if it is back: the place is empty then. One that is [`InFlight`](Outcome::InFlight) stays so.
    #[must_use]
    #[inline]
    pub fn take_buf(&mut self) -> Option<B> {
        if matches!(self.outcome, Outcome::InFlight(_)) {
            return None;
        }
        self.take().into_buf()
    }

    /// Takes the outcome out: the place is empty.
    #[must_use]
    #[inline]
    pub fn take(&mut self) -> Outcome<B> {
        self.waiting = None;
        core::mem::replace(&mut self.outcome, Outcome::Empty)
    }
}

impl<T: Transport, B: Buffer + fmt::Debug> fmt::Debug for Place<'_, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("peer", &self.peer).field("outcome", &self.outcome).finish_non_exhaustive()
    }
}
