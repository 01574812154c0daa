//! Errors of posting: one small `Copy` enum, and [`Rejected`], which brings the buffer back.

use core::fmt;

use crate::transport::{Refusal, Transport};
use crate::vocabulary::{Access, Caps, EndpointType, Errno};

/// Why an operation was not posted.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::error::PostError;
/// use loom_core::{Av, Cq, Domain, Source};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let av = Av::open(&domain, 2)?;
/// // The queue has room for one operation.
/// let cq = Cq::open(&domain, 1)?;
/// let bob = cq.endpoint(&av)?;
/// bob.recv(Source::Any, vec![0; 5])?;
/// let refused = bob.recv(Source::Any, vec![0; 5]).unwrap_err();
/// assert_eq!(refused.error, PostError::Full);
/// // `Cq::post` polls, and posts again.
/// assert!(refused.error.is_transient());
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PostError {
    /// As many operations are in flight as the queue was opened for: poll it and post again.
    Full,
    /// Slots of the queue that have no operation in flight are held by completions that the queue keeps for
    /// [`poll`](crate::cq::Cq::poll) and [`wait`](crate::cq::Cq::wait), by claimed messages, or by ended multi-receives with
    /// pieces out. Progress alone does not free them: take completions, and post again. [`Cq::post`](crate::cq::Cq::post) returns
    /// this at once.
    Kept,
    /// The transport is full for the moment: poll the queue and post again.
    #[doc(alias = "FI_EAGAIN")]
    Again,
    /// The peer is not in the endpoint's address vector, or not any more. (A peer of another vector may by chance name one
    /// of this.)
    UnknownPeer,
    /// The address vector has no bits for receive contexts of so high a number.
    #[doc(alias = "rx_ctx_bits")]
    BeyondContexts {
        /// How many receive contexts of a peer it can tell apart.
        limit: u32,
    },
    /// Longer than the transport takes.
    TooLong {
        /// The most bytes that this kind of operation moves.
        limit: usize,
    },
    /// The range does not lie within the remote region, or the parts of it are not as long together as the buffer.
    OutOfBounds,
    /// The remote region does not grant this access: its owner must register it with the access, and send the
    /// [`RemoteRegion`](crate::RemoteRegion) again.
    RemoteAccess(Access),
    /// More ranges, in this side's or the peer's memory, than one operation takes; or none of the peer's.
    TooManyPieces {
        /// The most that it takes.
        limit: usize,
    },
    /// The buffer may not be read (a send or RMA write) or not be written (a receive or RMA read).
    Access,
    /// The buffer's descriptor belongs to a region of another domain.
    ForeignDescriptor,
    /// The provider asks for local registration (`FI_MR_LOCAL`), or the buffer is in the memory of a device, and it is not
    /// [`Registered`](crate::registered::Registered).
    NotRegistered,
    /// The provider asks for room in front of messages (`FI_MSG_PREFIX`), and the buffer, or the first of several, has too little:
    /// it is to be [`Prefixed`](crate::buffer::Prefixed).
    NoPrefix {
        /// The bytes that are asked for (`msg_prefix_size`).
        needed: usize,
    },
    /// The buffer is in the memory of a device, and the info does not grant [`HMEM`](Caps::HMEM), or its bytes are to be looked
    /// at (a multi-receive).
    DeviceMemory,
    /// The immediate data needs more bytes than the provider carries.
    DataWidth {
        /// Bytes of immediate data that the provider carries (`cq_data_size`).
        limit: usize,
    },
    /// The provider does not grant this capability.
    NotGranted(Caps),
    /// The provider grants it, and is known not to keep to memory that it is lent for it: there is an `unsafe` form.
    NotSafe,
    /// Tagged receive with ignored bits over a provider that would miss messages that have arrived: receive exact tags, or use
    /// [`tagged`](crate::tagged).
    MaskedTag,
    /// The endpoint was not opened for operations that do not report their success
    /// ([`selective`](crate::endpoint::Binding::selective)).
    NotSelective,
    /// Of an atomic operation: the length is not a number of elements for operands, results and what is compared; or is nothing.
    NotElements {
        /// Bytes of an element.
        size: usize,
    },
    /// Of an atomic operation: the peer's memory is not aligned to the size of the elements.
    Misaligned {
        /// Bytes of an element.
        size: usize,
    },
    /// Of an atomic operation: more elements than the provider takes at once
    /// ([`Granted::max_count`](crate::granted::Granted::max_count)).
    TooManyElements {
        /// The most that it takes.
        limit: usize,
    },
    /// The atomic operation was granted by another domain.
    ForeignOperation,
    /// The message was fetched or discarded already, or was claimed through another endpoint.
    UnknownClaim,
    /// Of a collective operation: no member of the group has the root's rank.
    NotMember,
    /// Of deferred work: the endpoint is of another queue, or a counter of another domain.
    ForeignObject,
    /// This process is a forked child, and its parent opened the endpoint. The child opens objects of its own.
    OtherProcess,
    /// The transport refused.
    Errno(Errno),
}

impl PostError {
    /// Returns `true` if the same post may succeed after the queue was polled and its completions were taken.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        matches!(self, PostError::Full | PostError::Kept | PostError::Again)
    }

    /// The error itself, out of line: a post that is taken puts no error together before a check that may fail.
    #[cold]
    #[inline(never)]
    pub(crate) const fn cold(self) -> Self {
        self
    }
}

/// Text of the errors of objects in a forked child.
pub(crate) const OTHER_PROCESS: &str = "another process opened the object: open objects of its own in a forked child";

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
    /// The error of a transport that refused an operation with this number.
    #[cold]
    #[inline(never)]
    const fn of(errno: Errno) -> Self {
        if errno.as_raw() == Errno::OTHER_PROCESS.as_raw() { PostError::OtherProcess } else { PostError::Errno(errno) }
    }
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PostError::UnknownClaim => f.write_str("no message is claimed by that"),
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
            PostError::NotRegistered => f.write_str("only a registered buffer can be posted here"),
            PostError::NotSelective => f.write_str("the endpoint was not opened for operations that report nothing"),
            PostError::NoPrefix { needed } => write!(f, "the provider asks for {needed} bytes in front of the message"),
            PostError::NotSafe => {
                f.write_str("the provider may touch more memory than it is lent: there is an unsafe form")
            }
            PostError::MaskedTag => f.write_str(
                "the provider does not match ignored bits of tags with messages that have arrived: receive exact tags, or use `loom_core::tagged`",
            ),
            PostError::Full => f.write_str("as many operations are in flight as the queue was opened for"),
            PostError::Kept => f.write_str(
                "completions that the queue keeps, claims or pieces hold its slots: take them with poll, and post again",
            ),
            PostError::Again => f.write_str("the transport is full for the moment, poll and post again"),
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
            PostError::Errno(errno) => write!(f, "the transport refused: {errno}"),
        }
    }
}

impl core::error::Error for PostError {}

/// A post that was not taken: the reason, and the buffer back.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::error::Rejected;
/// use loom_core::{Av, Cq, Domain, Source};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let av = Av::open(&domain, 2)?;
/// # let cq = Cq::open(&domain, 1)?;
/// # let bob = cq.endpoint(&av)?;
/// let first = bob.recv(Source::Any, vec![0; 5])?;
/// let mut room = vec![0; 64];
/// // As `Cq::post` does: while the queue is full, make room and post the same buffer again.
/// loop {
///     match bob.recv(Source::Any, room) {
///         Ok(_) => break,
///         Err(Rejected { buf, error }) if error.is_transient() => room = buf,
///         Err(Rejected { error, .. }) => return Err(error.into()),
///     }
///     bob.cancel(first)?;
///     cq.poll()?;
/// }
/// assert_eq!(cq.in_flight(), 1);
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct Rejected<B, E = PostError> {
    /// The buffer, as it was given.
    pub buf: B,
    /// The reason.
    pub error: E,
}

impl<B, E: fmt::Debug> fmt::Debug for Rejected<B, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<B, E: fmt::Display> fmt::Display for Rejected<B, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<B, E: fmt::Debug + fmt::Display> core::error::Error for Rejected<B, E> {}

/// The reason alone, for `?` in functions whose error cannot borrow; the buffer is dropped.
impl<B> From<Rejected<B>> for PostError {
    fn from(rejected: Rejected<B>) -> Self {
        rejected.error
    }
}

/// Why an object could not be opened.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::error::OpenError;
/// use loom_core::{Av, Cq, CqAttr, Domain};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let av = Av::open(&domain, 2)?;
/// let cq = Cq::<_, Vec<u8>>::open(&domain, CqAttr::new(16).endpoints(1))?;
/// let _alice = cq.endpoint(&av)?;
/// match cq.endpoint(&av) {
///     Err(OpenError::TooManyEndpoints) => {} // The program opens another queue.
///     other => panic!("the queue has one place: {other:?}"),
/// }
/// assert_eq!(Cq::<_, Vec<u8>>::open(&domain, 0).unwrap_err(), OpenError::OutOfRange("CqAttr::depth"));
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// The allocator has no room for the object.
    OutOfMemory,
    /// A size or count that cannot be: zero, or more than fits.
    Size,
    /// This attribute of a [`Cq`](crate::CqAttr) or of a [`Network`](crate::soft::NetworkAttr) is zero or too large.
    OutOfRange(&'static str),
    /// The provider serialises access in another way than the transport type promises.
    #[doc(alias = "FI_THREAD_SAFE")]
    Threading,
    /// The info asks for a mode that loom does not serve.
    Mode(crate::vocabulary::Mode),
    /// The info asks for a memory registration mode that loom does not serve.
    MrMode(crate::vocabulary::MrMode),
    /// The info, address vector, event queue or counter belongs to another provider, fabric or domain.
    OtherDomain,
    /// The info, or that of the domain, describes an endpoint of this kind, which is not the one that was to be opened.
    EndpointType(crate::vocabulary::EndpointType),
    /// Two counters of an endpoint count the same, or one counts nothing, or what is not known.
    Counters,
    /// The info asks for operations that do by default what loom does not serve: receives into one buffer of several messages,
    /// for example.
    OpFlags(crate::vocabulary::OpFlags),
    /// The info, or that of the domain, does not grant this capability.
    NotGranted(Caps),
    /// A member of the set is not in the endpoint's address vector, or not any more.
    UnknownPeer,
    /// The endpoint that is to join a group is not in the set of its members.
    NotMember,
    /// Less can be injected than the [query](crate::query) asks for.
    InjectSize {
        /// The most bytes that can be injected.
        limit: usize,
    },
    /// The queue has as many endpoints as it was opened for.
    TooManyEndpoints,
    /// As many endpoints, regions or groups of the software transport are open as this attribute of the network allows:
    /// [`NetworkAttr::endpoints`](crate::soft::NetworkAttr::endpoints), for example.
    Limit(&'static str),
    /// The provider's endpoints have not as many transmit or receive contexts; most have one of each.
    #[doc(alias = "max_ep_tx_ctx")]
    #[doc(alias = "max_ep_rx_ctx")]
    TooManyContexts {
        /// The most of the kind that was asked for in excess.
        limit: usize,
    },
    /// The provider's address vectors take fewer addresses than the capacity ([`AvAttr::capacity`](crate::AvAttr::capacity)).
    TooManyPeers {
        /// Maximum number of addresses in the lifetime of a vector.
        limit: usize,
    },
    /// The memory may not be accessed as the region asks for.
    Access,
    /// Memory is to be exposed in a scope whose end does not end what peers do with it: the provider is none that is known to close its
    /// endpoints with their queues ([`ProviderQuirks::ends_with_queue`](crate::transport::ProviderQuirks::ends_with_queue)), or the scope has not
    /// opened the domain, whose other endpoints stay open.
    NoFence,
    /// Peers are to reach the memory, and the domain binds regions to endpoints (`FI_MR_ENDPOINT`):
    /// [`Mr::open_for_in`](crate::mr::Mr::open_for_in).
    NeedsEndpoint,
    /// The memory is a device's, and the info does not grant [`HMEM`](Caps::HMEM).
    DeviceMemory,
    /// Another region of the domain has the key.
    #[doc(alias = "FI_ENOKEY")]
    KeyTaken,
    /// The provider chooses keys itself (`FI_MR_PROV_KEY`), or has none that long.
    #[doc(alias = "FI_EKEYREJECTED")]
    KeyNotAvailable,
    /// This process is a forked child, and its parent opened the domain, queue or vector. The child opens objects of its own.
    OtherProcess,
    /// The transport refused.
    Errno(Errno),
}

impl OpenError {
    /// The error of a transport that refused to open an object with this number.
    pub(crate) fn refused<T: Transport>(errno: Errno) -> Self {
        T::exhausted(errno).map_or_else(|| errno.into(), OpenError::Limit)
    }
}

impl From<Errno> for OpenError {
    fn from(errno: Errno) -> Self {
        if errno == Errno::OTHER_PROCESS { OpenError::OtherProcess } else { OpenError::Errno(errno) }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::OutOfMemory => f.write_str("the allocator has no room for the object"),
            OpenError::OutOfRange(attribute) => write!(f, "`{attribute}` is zero or too large"),
            OpenError::Size => f.write_str("a size is zero or out of range"),
            OpenError::Threading => f.write_str("the provider grants another threading level than the transport needs"),
            OpenError::Mode(mode) => write!(f, "the info asks for a mode that is not served: {mode}"),
            OpenError::MrMode(mode) => write!(f, "the info asks for a registration mode that is not served: {mode}"),
            OpenError::UnknownPeer => f.write_str("a member of the set is not in the endpoint's address vector"),
            OpenError::NotMember => f.write_str("the endpoint is not in the set of the members of its group"),
            OpenError::OtherDomain => {
                f.write_str("the info, or what the endpoint is bound to, belongs to another domain")
            }
            OpenError::Counters => f.write_str("two counters count the same, or a counter has nothing to count"),
            OpenError::OpFlags(flags) => write!(f, "the info asks for default flags that are not served: {flags}"),
            OpenError::NotGranted(caps) => write!(f, "the info, or its domain's, does not grant {caps}"),
            OpenError::InjectSize { limit } => write!(f, "the query asks to inject more than {limit} bytes"),
            OpenError::TooManyEndpoints => f.write_str("the queue has as many endpoints as it was opened for: raise `CqAttr::endpoints` (over `shm`, closed endpoints count)"),
            OpenError::Limit(attribute) => {
                write!(f, "as many are open as `{attribute}` allows: raise it, or close one")
            }
            OpenError::TooManyContexts { limit } => {
                write!(f, "the provider's endpoints have {limit} such contexts at most")
            }
            OpenError::TooManyPeers { limit } => write!(
                f,
                "the provider's address vectors take {limit} addresses at most: open the vector with a smaller AvAttr::capacity"
            ),
            OpenError::EndpointType(EndpointType::MSG) => f.write_str(
                "the info describes connected endpoints (EP_MSG): open a `MsgEndpoint`, or query for `EndpointType::RDM`, \
                 which `tcp;ofi_rxm` and `net` offer over TCP",
            ),
            OpenError::EndpointType(kind) => {
                write!(f, "the info describes endpoints of type {kind}: query for the type that is to be opened")
            }
            OpenError::Access => f.write_str("the memory may not be accessed as the region asks for"),
            OpenError::NeedsEndpoint => f.write_str("the domain binds regions that peers reach to an endpoint"),
            OpenError::DeviceMemory => f.write_str("the info does not grant memory of devices"),
            OpenError::KeyTaken => f.write_str("another region of the domain has the key"),
            OpenError::KeyNotAvailable => f.write_str("the key is not one that the application can choose"),
            OpenError::OtherProcess => f.write_str(OTHER_PROCESS),
            OpenError::NoFence => f.write_str(
                "the end of the scope would not end what peers do with the memory, through endpoints that stay open",
            ),
            OpenError::Errno(errno) => write!(f, "the transport refused: {errno}"),
        }
    }
}

impl core::error::Error for OpenError {}
