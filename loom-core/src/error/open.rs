use core::error::Error;
use core::fmt;

use super::CqError;
use crate::transport::Transport;
use crate::vocabulary::{Caps, EndpointType, Errno, Mode, MrMode, OTHER_PROCESS, OpFlags, with_cause};

/// Reason for which an object was not opened or connected, or an info not offered.
///
/// ```
/// use loom_core::{Av, Cq, CqAttr, OpenError};
///
/// # fixture::domain!(network, domain);
/// # let av = Av::open(&domain, 2)?;
/// let cq = Cq::<_, Vec<u8>>::open(&domain, CqAttr { endpoints: 1, ..CqAttr::new(16) })?;
/// let _alice = cq.endpoint(&av)?;
/// match cq.endpoint(&av) {
///     Err(OpenError::TooManyEndpoints) => {} // The program opens another queue.
///     other => panic!("the queue has one place: {other:?}"),
/// }
/// assert_eq!(Cq::<_, Vec<u8>>::open(&domain, 0).unwrap_err(), OpenError::OutOfRange("CqAttr::depth"));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// The allocator has no room for the object.
    OutOfMemory,
    /// A size or count is zero, or too large.
    Size,
    /// This attribute of a [`Cq`](crate::CqAttr) or of a [`Network`](crate::soft::NetworkAttr) is
    /// zero or too large.
    OutOfRange(&'static str),
    /// The provider does not serialise access as the transport type promises.
    #[doc(alias = "FI_THREAD_SAFE")]
    Threading,
    /// The info requires a mode that loom does not support.
    Mode(Mode),
    /// The info requires a memory registration mode that loom does not support.
    MrMode(MrMode),
    /// The info, address vector, event queue or counter belongs to another provider, fabric or
    /// domain.
    OtherDomain,
    /// The info has endpoints of this kind instead of the requested one.
    EndpointType(EndpointType),
    /// Two counters of an endpoint count the same events, or a counter has an empty or unknown set
    /// of events.
    Counters,
    /// The info sets default operation flags that loom does not support.
    OpFlags(OpFlags),
    /// The info, or that of the domain, does not grant this capability.
    NotGranted(Caps),
    /// The network does not offer the value of this field of [`Hints`](crate::Hints).
    NotOffered(&'static str),
    /// The interface in [`Hints::domain`](crate::Hints::domain) lacks an address that fits.
    NoAddress,
    /// A member of the set is not, or no longer, in the endpoint's address vector.
    UnknownPeer,
    /// The joining endpoint is not a member of the set.
    NotMember,
    /// A larger inject size is required.
    InjectSize {
        /// Maximum number of bytes that can be injected.
        limit: usize,
    },
    /// The queue has as many endpoints as it was opened for.
    TooManyEndpoints,
    /// This limit is reached: of the software network, for example
    /// [`NetworkAttr::endpoints`](crate::soft::NetworkAttr::endpoints), of a cache of registrations,
    /// or the table of `sm2`.
    Limit(&'static str),
    /// The provider's endpoints have fewer transmit or receive contexts.
    #[doc(alias = "max_ep_tx_ctx")]
    #[doc(alias = "max_ep_rx_ctx")]
    TooManyContexts {
        /// Maximum number of the exceeded kind.
        limit: usize,
    },
    /// The provider's address vectors take fewer addresses than the capacity
    /// ([`AvAttr::capacity`](crate::AvAttr::capacity)).
    TooManyPeers {
        /// Maximum number of addresses in the lifetime of a vector.
        limit: usize,
    },
    /// The memory does not allow the access that the region requests.
    Access,
    /// The scope's end would not end remote access: the provider is untested
    /// ([`ProviderQuirks::ends_with_queue`](crate::transport::ProviderQuirks::ends_with_queue)), or
    /// the domain was opened outside of the scope.
    NoFence,
    /// The region is for peers, and the domain binds regions to endpoints (`FI_MR_ENDPOINT`): use
    /// [`Mr::open_for_in`](crate::mr::Mr::open_for_in).
    NeedsEndpoint,
    /// The memory belongs to a device, and the info does not grant [`HMEM`](Caps::HMEM), or the
    /// object is for host memory.
    DeviceMemory,
    /// The pages of a buffer exceed the bytes of a cache of registrations (`MrCacheAttr::bytes`).
    TooLong {
        /// Maximum bytes.
        limit: usize,
    },
    /// Another region of the domain has the key.
    #[doc(alias = "FI_ENOKEY")]
    KeyTaken,
    /// The provider chooses keys itself (`FI_MR_PROV_KEY`), or does not support a key of this
    /// length.
    #[doc(alias = "FI_EKEYREJECTED")]
    KeyNotAvailable,
    /// The data of a connection exceeds the provider's maximum.
    DataTooLong {
        /// Maximum bytes of data.
        limit: usize,
    },
    /// The provider refused to connect, the peer rejected or cannot be reached, or joining a
    /// multicast group failed. The event ([`Failure`](crate::eq::Failure)) has the details.
    Unconnected(Errno),
    /// The provider shut the endpoint down before it was connected.
    #[doc(alias = "FI_SHUTDOWN")]
    Shutdown,
    /// The event queue of a connection failed.
    Events(CqError),
    /// This process is a forked child of the process that opened the parent object.
    OtherProcess,
    /// The transport refused.
    Errno(Errno),
}

impl OpenError {
    pub(crate) const fn is_of_connection(&self) -> bool {
        matches!(
            self,
            OpenError::DataTooLong { .. } | OpenError::Unconnected(_) | OpenError::Shutdown | OpenError::Events(_)
        )
    }

    pub(crate) const fn of_connection(self) -> Self {
        match self {
            OpenError::Errno(errno) => OpenError::Unconnected(errno),
            other => other,
        }
    }

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
            OpenError::Mode(mode) => write!(f, "the info requires a mode that is not served: {mode}"),
            OpenError::MrMode(mode) => write!(f, "the info requires a registration mode that is not served: {mode}"),
            OpenError::UnknownPeer => f.write_str("a member of the set is not in the endpoint's address vector"),
            OpenError::NotMember => f.write_str("the endpoint is not in the set of the members of its group"),
            OpenError::OtherDomain => {
                f.write_str("the info, or what the endpoint is bound to, belongs to another domain")
            }
            OpenError::Counters => f.write_str("two counters count the same, or a counter has nothing to count"),
            OpenError::OpFlags(flags) => write!(f, "the info requires default flags that are not served: {flags}"),
            OpenError::NotGranted(caps) => write!(f, "the info, or its domain's, does not grant {caps}"),
            OpenError::NotOffered(field) => write!(f, "the network does not offer the value of the hint `{field}`"),
            OpenError::NoAddress => f.write_str("the interface in `Hints::domain` lacks an address that fits the other hints: assign one, or name another interface"),
            OpenError::InjectSize { limit } => write!(f, "more than {limit} bytes are required to be injected"),
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
            OpenError::Access => f.write_str("the memory may not be accessed as the region requires"),
            OpenError::NeedsEndpoint => f.write_str("the domain binds regions that peers reach to an endpoint"),
            OpenError::DeviceMemory => {
                f.write_str("memory of devices is not granted by the info, or the object is for host memory")
            }
            OpenError::TooLong { limit } => {
                write!(f, "the buffer has pages of more than {limit} bytes: raise `MrCacheAttr::bytes`")
            }
            OpenError::KeyTaken => f.write_str("another region of the domain has the key"),
            OpenError::KeyNotAvailable => f.write_str("the key is not one that the application can choose"),
            OpenError::DataTooLong { limit } => write!(f, "connections carry no more than {limit} bytes of data"),
            OpenError::Unconnected(_) => f.write_str("the connection, or joining the group, failed"),
            OpenError::Shutdown => f.write_str("the provider has shut the endpoint down before it was connected"),
            OpenError::Events(_) => f.write_str("the events of the connection cannot be read"),
            OpenError::OtherProcess => f.write_str(OTHER_PROCESS),
            OpenError::NoFence => f.write_str(
                "the end of the scope would not end what peers do with the memory, through endpoints that stay open",
            ),
            OpenError::Errno(_) => f.write_str("the transport refused"),
        }?;
        with_cause(f, self)
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            OpenError::Errno(errno) | OpenError::Unconnected(errno) => Some(errno),
            OpenError::Events(error) => Some(error),
            _ => None,
        }
    }
}
