use core::error::Error;
use core::fmt;

use crate::transport::Refusal;
use crate::vocabulary::{Access, Caps, Errno, OTHER_PROCESS, with_cause};

/// Reason for which an operation was not posted.
///
/// ```
/// use loom_core::{Av, Cq, PostError, Source};
///
/// # fixture::domain!(network, domain);
/// # let av = Av::open(&domain, 2)?;
/// // The queue has room for one operation.
/// let cq = Cq::open(&domain, 1)?;
/// let bob = cq.endpoint(&av)?;
/// bob.recv(Source::Any, vec![0; 5])?;
/// let refused = bob.recv(Source::Any, vec![0; 5]).unwrap_err();
/// assert_eq!(refused.error, PostError::Full);
/// // `Cq::post` polls, and posts again.
/// assert!(refused.error.is_transient());
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PostError {
    /// All slots of the queue have operations in flight: poll it and post again.
    Full,
    /// Kept completions, claimed messages, or completed multi-receives with pieces out hold the
    /// slots.
    Kept,
    /// The transport is full, or the peer is not reached.
    #[doc(alias = "FI_EAGAIN")]
    Again,
    /// The peer is not in the endpoint's address vector.
    UnknownPeer,
    /// The address vector has too few bits for this receive context.
    #[doc(alias = "rx_ctx_bits")]
    BeyondContexts {
        /// Number of receive contexts that it can distinguish.
        limit: u32,
    },
    /// The message is longer than the transport accepts.
    TooLong {
        /// Maximum number of bytes for this kind of operation.
        limit: usize,
    },
    /// The range is not within the remote region, or its parts together do not have the length of
    /// the buffer.
    OutOfBounds,
    /// The remote region does not grant this access.
    RemoteAccess(Access),
    /// Too many ranges for one operation, on this side or at the peer, or an empty list of the
    /// peer's.
    TooManyPieces {
        /// Maximum number of ranges.
        limit: usize,
    },
    /// The buffer may not be read (a send or RMA write) or not be written (a receive or RMA read).
    Access,
    /// The buffer is registered in another domain.
    ForeignDescriptor,
    /// The provider requires local registration (`FI_MR_LOCAL`), or the buffer is in device memory,
    /// and it is not [`Registered`](crate::registered::Registered).
    NotRegistered,
    /// The provider requires room in front of messages (`FI_MSG_PREFIX`), and the first buffer has
    /// too little: use [`Prefixed`](crate::buffer::Prefixed).
    NoPrefix {
        /// Required room in bytes (`msg_prefix_size`).
        needed: usize,
    },
    /// The buffer is in device memory, and the info does not grant [`HMEM`](Caps::HMEM), or loom
    /// would have to read it (a multi-receive).
    DeviceMemory,
    /// The immediate data is longer than the provider carries.
    DataWidth {
        /// Maximum length of immediate data in bytes (`cq_data_size`).
        limit: usize,
    },
    /// The provider does not grant this capability.
    NotGranted(Caps),
    /// The provider is known to access more than the lent memory.
    NotSafe,
    /// Tagged receive with ignored bits over a provider that would miss arrived messages.
    MaskedTag,
    /// The endpoint was not opened for operations without a success completion
    /// ([`selective`](crate::endpoint::Binding::selective)).
    NotSelective,
    /// Atomic operation: the length is zero, or not a number of elements for operands, results and
    /// comparands.
    NotElements {
        /// Bytes of an element.
        size: usize,
    },
    /// Atomic operation: the peer's memory is not aligned to the elements.
    Misaligned {
        /// Bytes of an element.
        size: usize,
    },
    /// Atomic operation: too many elements
    /// ([`Granted::max_count`](crate::endpoint::Granted::max_count)).
    TooManyElements {
        /// Maximum number of elements.
        limit: usize,
    },
    /// The atomic operation was granted by another domain.
    ForeignOperation,
    /// The message was already fetched or discarded, or was claimed through another endpoint.
    UnknownClaim,
    /// Collective operation: no member of the group has the root's rank.
    NotMember,
    /// Deferred work: the endpoint belongs to another queue, or a counter to another domain.
    ForeignObject,
    /// This process is a forked child of the process that opened the endpoint.
    OtherProcess,
    /// The transport refused.
    Errno(Errno),
}

impl PostError {
    /// Returns `true` for `Full`, `Kept` and `Again`: a retry may succeed after
    /// [`Cq::poll`](crate::Cq::poll), except for `Kept` also after
    /// [`Cq::progress`](crate::Cq::progress), which takes no completions.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        matches!(self, PostError::Full | PostError::Kept | PostError::Again)
    }

    /// Returns the error out of line, so that successful posts do not build it.
    #[cold]
    #[inline(never)]
    pub(crate) const fn cold(self) -> Self {
        self
    }
}

impl From<Refusal> for PostError {
    #[inline]
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Again => PostError::Again,
            Refusal::Errno(errno) => PostError::of(errno),
        }
    }
}

impl PostError {
    #[cold]
    #[inline(never)]
    const fn of(errno: Errno) -> Self {
        if errno.as_raw() == Errno::OTHER_PROCESS.as_raw() { PostError::OtherProcess } else { PostError::Errno(errno) }
    }
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PostError::UnknownClaim => f.write_str("the message was already fetched or discarded, or was claimed through another endpoint"),
            PostError::NotMember => f.write_str("no member of the group has the root's rank"),
            PostError::ForeignObject => {
                f.write_str("the endpoint is of another queue than the deferred work, or a counter of another domain")
            }
            PostError::OtherProcess => f.write_str(OTHER_PROCESS),
            PostError::NotElements { size } => {
                write!(f, "the buffer does not hold elements of {size} bytes for each part")
            }
            PostError::Misaligned { size } => write!(f, "the peer's memory is not aligned to elements of {size} bytes"),
            PostError::TooManyElements { limit } => write!(f, "an atomic operation takes at most {limit} elements"),
            PostError::ForeignOperation => f.write_str("the atomic operation was granted by another domain"),
            PostError::NotRegistered => f.write_str("the buffer is not registered: use a registered buffer"),
            PostError::NotSelective => f.write_str("the endpoint was not opened for operations that report nothing"),
            PostError::NoPrefix { needed } => write!(f, "the provider requires {needed} bytes in front of the message"),
            PostError::NotSafe => {
                f.write_str("the provider may touch more memory than it is lent: there is an unsafe form")
            }
            PostError::MaskedTag => f.write_str(
                "the provider does not match ignored bits of tags with messages that have arrived: receive exact tags, or use the package loom-fabric-tagged",
            ),
            PostError::Full => f.write_str("as many operations are in flight as the queue was opened for"),
            PostError::Kept => f.write_str(
                "completions that the queue keeps, claims or pieces hold its slots: take them with poll, and post again",
            ),
            PostError::Again => f.write_str("the transport is full, or the peer is not reached: poll, and post again"),
            PostError::UnknownPeer => f.write_str("the peer is not in the endpoint's address vector"),
            PostError::BeyondContexts { limit } => {
                write!(f, "the address vector can tell {limit} receive contexts of a peer apart")
            }
            PostError::TooLong { limit } => write!(f, "longer than the {limit} bytes of one such operation: divide it, or send instead of injecting"),
            PostError::TooManyPieces { limit } => write!(f, "an operation takes one to {limit} ranges of memory"),
            PostError::OutOfBounds => {
                f.write_str("the range is not within the remote region, or not as long as the buffer")
            }
            PostError::RemoteAccess(missing) => {
                write!(f, "the remote region does not grant {missing}: its owner must register it with this access")
            }
            PostError::Access => f.write_str("the buffer does not allow the access that the operation needs"),
            PostError::ForeignDescriptor => f.write_str("the buffer is registered in another domain"),
            PostError::DeviceMemory => f.write_str(
                "the buffer is in the memory of a device: the info does not grant that, or loom would have to read it",
            ),
            PostError::DataWidth { limit } => write!(f, "immediate data is limited to {limit} bytes"),
            PostError::NotGranted(caps) => write!(f, "the provider does not grant {caps}"),
            PostError::Errno(_) => f.write_str("the transport refused"),
        }?;
        with_cause(f, self)
    }
}

impl Error for PostError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            PostError::Errno(errno) => Some(errno),
            _ => None,
        }
    }
}
