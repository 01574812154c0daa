use core::error::Error;
use core::fmt;

use crate::vocabulary::{Errno, OTHER_PROCESS, with_cause};

/// Error of polling or waiting: of a completion queue, event queue, counter or [table of
/// arrivals](crate::engine::arrivals).
///
/// ```
/// use loom_core::{Forever, Source, Spins, cq::CqError};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// assert_eq!(cq.finish(received, Spins(10)).unwrap_err(), CqError::TimedOut);
/// // The receive is still in flight: wait again, or cancel it.
/// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
/// assert_eq!(cq.finish(received, Forever).unwrap_err(), CqError::UnknownKey);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CqError {
    /// The provider's completion queue failed ([`EOVERRUN`](Errno::EOVERRUN): an event did not
    /// fit). Operations in flight keep their buffers until the queue is closed.
    #[doc(alias = "FI_EOVERRUN")]
    Queue(Errno),
    /// The provider's event queue failed.
    EventQueue(Errno),
    /// The provider's counter failed.
    Counter(Errno),
    /// The completion was already taken by [`poll`](crate::Cq::poll) or a wait, or the key belongs
    /// to another queue or table.
    UnknownKey,
    /// The maximum number of peer events arrived during a wait.
    PeerEvents,
    /// The [driver](crate::driver::EqDriver) of the event queue stores its maximum of events
    /// ([`next_event`](crate::driver::EqDriver::next_event)).
    Unread,
    /// The operation is a completed multi-receive with pieces out.
    PiecesOut,
    /// The deadline passed with the operation in flight. Returned only by
    /// [`Cq::finish`](crate::Cq::finish) and its variants.
    TimedOut,
    /// The queue or counter has no wait object or descriptor
    /// ([`CqAttr::wait`](crate::CqAttr::wait)), has two provider queues, or was not opened for
    /// writing ([`EqAttr::write`](crate::EqAttr::write)).
    NotOpenedFor,
    /// A [driver](crate::driver) polls the queue for its futures.
    Driven,
    /// Another future waits for the operation.
    Awaited,
    /// This process is a forked child of the process that opened the queue.
    OtherProcess,
    /// An operation that the awaited counter counts failed: its completion has the reason.
    CountedFailure,
    /// The table of arrivals does not count this value.
    NoSuchValue {
        /// Number of values in the table, from zero on.
        values: u64,
    },
    /// The table of arrivals has no slot for a wait.
    TooManyWaits,
    /// The queue has too few free slots for several operations.
    Full,
}

impl CqError {
    pub(crate) fn event_queue(errno: Errno) -> Self {
        if errno == Errno::OTHER_PROCESS { CqError::OtherProcess } else { CqError::EventQueue(errno) }
    }

    pub(crate) fn counter(errno: Errno) -> Self {
        if errno == Errno::OTHER_PROCESS { CqError::OtherProcess } else { CqError::Counter(errno) }
    }
}

impl fmt::Display for CqError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CqError::Queue(_) => "the completion queue failed",
            CqError::EventQueue(_) => "the event queue failed",
            CqError::Counter(_) => "the counter failed",
            CqError::UnknownKey => {
                "the key is not awaited: its completion was taken by `poll` or an earlier wait, or it is of another queue or table"
            }
            CqError::PeerEvents => "peers' events have to be taken with poll before waiting on",
            CqError::Unread => "the driver of the event queue keeps as many events as it can: take them",
            CqError::PiecesOut => "the operation's pieces have to be taken and dropped before waiting on",
            CqError::TimedOut => "the deadline has passed, and the operation is still in flight",
            CqError::NotOpenedFor => {
                "the queue or counter was not opened for this: set `wait` of its attributes, or `EqAttr::write`"
            }
            CqError::Driven => "the queue is polled by its driver alone: use the futures of the driver",
            CqError::Awaited => "another future waits for the operation",
            CqError::OtherProcess => OTHER_PROCESS,
            CqError::CountedFailure => "an operation that the counter counts has failed",
            CqError::NoSuchValue { values } => return write!(f, "the table counts values below {values}"),
            CqError::TooManyWaits => "as many wait for arrivals as there is room for: raise `waiters` of `Arrivals::open`",
            CqError::Full => "too few slots of the queue are free: take completions, or wait for operations in flight",
        })?;
        with_cause(f, self)
    }
}

impl Error for CqError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            CqError::Queue(errno) | CqError::EventQueue(errno) | CqError::Counter(errno) => Some(errno),
            _ => None,
        }
    }
}

impl From<Errno> for CqError {
    fn from(errno: Errno) -> Self {
        if errno == Errno::OTHER_PROCESS { CqError::OtherProcess } else { CqError::Queue(errno) }
    }
}
