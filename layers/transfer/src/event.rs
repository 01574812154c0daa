use loom_core::engine::arrivals::{ArrivalKey, Arrived};
use loom_core::{CqError, Errno, Error};

use crate::control::NotificationKey;
use crate::peers::PeerKey;
use crate::request::Request;

/// Name of a transfer. It is not used again for 2<sup>32</sup> transfers of its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransferKey {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// Reason for which a transfer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All operations have completed successfully.
    Done,
    /// An operation failed or was refused, a queue failed, or the peer was removed. The error is
    /// the first one.
    Failed(Error),
    /// [`Engine::cancel`](crate::Engine::cancel).
    Cancelled,
    /// [`Request::deadline`](crate::Request::deadline) passed.
    Deadline,
}

/// Outcome of a transfer.
#[derive(Clone, Copy, Debug)]
#[must_use = "it reports whether the transfer succeeded"]
pub struct Outcome<P> {
    /// Name of the transfer.
    pub key: TransferKey,
    /// Request, with its plan, [prepared](crate::Engine::prepare) to be submitted again. After an
    /// end other than [`Ending::Done`], the peer may have counted some writes: use another value of
    /// [data](crate::Request::data).
    pub request: Request<P>,
    /// Reason of the end.
    pub ending: Ending,
    /// Number of operations that succeeded.
    pub operations: u64,
    /// Bytes of these operations.
    pub bytes: u64,
    /// Number of operations in flight, above 0 only after the deadline, or if a queue or the peer
    /// failed, or the peer was removed. The provider may use the memory of the blocks until
    /// [`Engine::operations_in_flight`](crate::Engine::operations_in_flight) is `None`.
    pub in_flight: u32,
}

impl<P> Outcome<P> {
    /// Number of bytes of a transfer that is done.
    ///
    /// # Errors
    /// The first error. `ECANCELED` for a cancelled transfer, [`CqError::TimedOut`] after the
    /// deadline.
    pub const fn result(&self) -> Result<u64, Error> {
        match self.ending {
            Ending::Done => Ok(self.bytes),
            Ending::Failed(error) => Err(error),
            Ending::Cancelled => Err(Error::Provider(Errno::ECANCELED)),
            Ending::Deadline => Err(Error::Queue(CqError::TimedOut)),
        }
    }
}

/// Event of an engine.
#[expect(clippy::large_enum_variant, reason = "a request cannot be boxed without an allocator")]
#[derive(Clone, Copy, Debug)]
#[must_use = "each event is reported once"]
pub enum Event<P> {
    /// A transfer has ended.
    Ended(Outcome<P>),
    /// A value has arrived as often as awaited ([`Engine::wait`](crate::Engine::wait)).
    Arrived(Arrived),
    /// A wait has ended without that.
    WaitFailed {
        /// Key of the wait.
        wait: ArrivalKey,
        /// [`CqError::TimedOut`] at the deadline, or the reason for which the writes of the peer have
        /// failed, or the peer.
        error: Error,
        /// Number of the failed transfer's writes that have arrived or may still arrive, by the
        /// peer's report. Use their memory for other data when
        /// [`arrived`](crate::Engine::arrived) has grown by so many since the transfer began, or after
        /// closing the region. `None` without a report, and before a
        /// [signal](crate::Request::signal).
        late_writes: Option<u64>,
    },
    /// Notification of a peer, after the writes of its transfer
    /// ([`Engine::notification`](crate::Engine::notification)).
    Notified(NotificationKey),
    /// A peer with control messages is ready for transfers, or has failed. Also reports peers that
    /// have inserted this engine.
    Peer {
        /// The peer.
        peer: PeerKey,
        /// Reason for which the peer has refused this engine or cannot be reached. Its transfers
        /// fail. [`CqError::TimedOut`] after [`EngineAttr::silence`](crate::EngineAttr::silence),
        /// until it sends again.
        result: Result<(), Error>,
    },
}
