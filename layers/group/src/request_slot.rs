use core::fmt;

use loom_core::buffer::Buffer;
use loom_core::completion::OpError;
use loom_core::endpoint::{Connectionless, Established, Msg, Receives, Transmits};
use loom_core::error::{PostError, Rejected};
use loom_core::{Done, Endpoint, OpKey, RemoteRegion, Transfer, Transport};

use crate::PeerIndex;
use crate::operation::{Verb, What};
use crate::routes::To;

type PostOver<'m, T, B, K> = fn(
    &Endpoint<'m, T, B, K>,
    <K as Transmits<T>>::To,
    <K as Receives<T>>::From,
    What<'_>,
    B,
) -> Result<OpKey, Rejected<B>>;

pub(crate) struct Post<'m, T: Transport, B: Buffer> {
    pub(crate) shared: PostOver<'m, T, B, Connectionless<'m, T>>,
    pub(crate) connected: PostOver<'m, T, B, Msg<Established>>,
}

impl<T: Transport, B: Buffer> Post<'_, T, B> {
    pub(crate) fn of<V: Verb<T, B>>() -> Self {
        Post { shared: V::post, connected: V::post }
    }
}

/// Storage for one request and its outcome. Operations on many peers fill a slice, in order.
///
/// ```
/// use loom_core::{Domain, Forever};
/// use loom_group::{PeerIndex, Place, Prepared};
///
/// # fixture::domain!(network, domain);
/// # let prepared = Prepared::open(&domain, 2, 16)?;
/// # let itself = prepared.address()?;
/// // Both members are this side.
/// let group = prepared.connect([&itself; 2])?;
/// # for _ in 0..2 {
/// #     group.recv_any(vec![0; 5])?;
/// # }
/// let mut places = [Place::EMPTY; 2];
/// group.scope(&mut places, |scope| {
///     scope.send(PeerIndex(0), b"hello".to_vec())?;
///     scope.send(PeerIndex(1), b"again".to_vec())?;
///     Ok::<_, loom_core::Error>(scope.finish(Forever)?)
/// })?;
/// let bufs = places.each_mut().map(|place| place.take_buf());
/// assert_eq!(bufs, [Some(b"hello".to_vec()), Some(b"again".to_vec())]);
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct Place<'m, T: Transport, B: Buffer> {
    pub(crate) peer: PeerIndex,
    pub(crate) outcome: Outcome<B>,
    pub(crate) waiting: Option<Waiting<'m, T, B>>,
}

pub(crate) struct Waiting<'m, T: Transport, B: Buffer> {
    pub(crate) post: Post<'m, T, B>,
    /// Original peer of the number. A successor does not get the request.
    pub(crate) to: To,
    pub(crate) region: RemoteRegion,
    pub(crate) receives: bool,
    /// Tag, or immediate data.
    pub(crate) word: u64,
}

/// Outcome of a request.
///
/// ```
/// use loom_group::Outcome;
/// # use loom_core::{Domain, Forever};
/// # use loom_group::{PeerIndex, Place, Prepared};
///
/// /// Describes the outcome of a send.
/// fn describe(outcome: &Outcome<Vec<u8>>) -> String {
///     match outcome {
///         Outcome::Done { transfer, .. } => format!("{} bytes sent", transfer.len),
///         Outcome::Failed { error, .. } => format!("failed: {error}"),
///         Outcome::NotPosted { error, .. } => format!("not posted: {error}"),
///         Outcome::InFlight(key) => format!("in flight: {key:?}"),
///         Outcome::Empty => "no request".into(),
///     }
/// }
/// # fixture::domain!(network, domain);
/// # let prepared = Prepared::open(&domain, 2, 16)?;
/// # let itself = prepared.address()?;
/// # let group = prepared.connect([&itself; 2])?;
/// # group.recv_any(vec![0; 5])?;
/// # group.scope(&mut [Place::EMPTY], |scope| {
/// #     let sent = scope.send(PeerIndex(1), b"hello".to_vec())?;
/// #     scope.finish(Forever)?;
/// assert_eq!(scope.outcome(sent).map(describe).as_deref(), Some("5 bytes sent"));
/// #     Ok::<_, loom_core::Error>(())
/// # })?;
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Debug)]
pub enum Outcome<B> {
    /// No request.
    Empty,
    /// Completed successfully.
    Done {
        /// Buffer.
        buf: B,
        /// Result of the transfer.
        transfer: Transfer,
    },
    /// Posted, but failed. [`OpError::len`] is the number of bytes transferred.
    Failed {
        /// Buffer.
        buf: B,
        /// Cause.
        error: OpError,
    },
    /// Refused, or without room until the deadline. No data was sent.
    NotPosted {
        /// Buffer.
        buf: B,
        /// Last refusal.
        error: PostError,
    },
    /// Still in flight on the group's queue. The program polls for the key.
    InFlight(OpKey),
}

impl<B> Outcome<B> {
    /// Returns `true` if the outcome is [`Done`](Self::Done).
    #[must_use]
    pub const fn is_done(&self) -> bool {
        matches!(self, Outcome::Done { .. })
    }

    /// Buffer, if it has returned.
    #[must_use]
    pub const fn buf(&self) -> Option<&B> {
        match self {
            Outcome::Done { buf, .. } | Outcome::Failed { buf, .. } | Outcome::NotPosted { buf, .. } => Some(buf),
            Outcome::Empty | Outcome::InFlight(_) => None,
        }
    }

    /// Buffer, if it has returned.
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
    /// Place without a request.
    pub const EMPTY: Self = Place { peer: PeerIndex(0), outcome: Outcome::Empty, waiting: None };

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.peer = PeerIndex(0);
        self.outcome = Outcome::Empty;
        self.waiting = None;
    }

    #[inline]
    pub(crate) fn set(&mut self, outcome: Outcome<B>) {
        let before = core::mem::replace(&mut self.outcome, outcome);
        debug_assert!(before.buf().is_none(), "no buffer is lost");
        // Without this, the compiler emits a check.
        core::mem::forget(before);
    }

    /// Peer of the request.
    #[must_use]
    pub const fn peer(&self) -> PeerIndex {
        self.peer
    }

    /// Outcome of the request: [`NotPosted`](Outcome::NotPosted) while it waits in a
    /// [`Scope`](crate::Scope).
    #[must_use]
    pub const fn outcome(&self) -> &Outcome<B> {
        &self.outcome
    }

    /// Takes the buffer, if it has returned, and empties the place unless
    /// [`InFlight`](Outcome::InFlight).
    #[must_use]
    #[inline]
    pub fn take_buf(&mut self) -> Option<B> {
        if matches!(self.outcome, Outcome::InFlight(_)) {
            return None;
        }
        self.take().into_buf()
    }

    /// Takes the outcome, and empties the place.
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
