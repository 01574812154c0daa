//! [`Error`]: any of loom's errors, for programs that pass them on.

use core::fmt;

use crate::av::InsertError;
use crate::buffer::Buffer;
use crate::counter::CounterError;
use crate::cq::CqError;
use crate::driver::{ConnectError, RunError, SleepError};
use crate::endpoint::{CmError, ParkError, Refused};
use crate::engine::arrivals::ArrivalsError;
use crate::engine::op_table::OpError;
use crate::engine::peer_table::Beyond;
use crate::engine::{address_table, tag_matcher};
use crate::eq::{EqError, Failure};
use crate::error::{OpenError, PostError, Rejected};
use crate::exposed::{ElementError, OutOfWindow};
use crate::mr::CloseError;
use crate::soft::NotOffered;
use crate::transport::{EndpointError, Transport};
use crate::vocabulary::immediate::LayoutError;
use crate::vocabulary::{AddressError, Errno, Excerpt};

/// Any error of loom. Every other error converts into it with `?`.
///
/// The errors of the calls are small and `Copy`. The conversion drops values that some errors
/// return, such as buffers.
///
/// ```
/// use loom_core::error::PostError;
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::{Av, Cq, Domain, Error, Forever, Source};
///
/// fn greet(network: &Network<'static>) -> Result<Vec<u8>, Error> {
///     let domain = Domain::open(&network.info())?; // `OpenError`
///     let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
///     let bob = cq.endpoint(&av)?;
///     let to_bob = av.insert(&bob.address()?)?; // `Errno` and `InsertError`
///     let received = bob.recv(Source::Any, vec![0; 5])?; // `Rejected`: the buffer is dropped
///     cq.retry(Forever, || bob.inject(to_bob, b"hello"))?; // `PostError`
///     let done = cq.finish(received, Forever)?; // `CqError`
///     done.result()?; // `OpError`
///     Ok(done.into_buf())
/// }
///
/// assert_eq!(greet(&Network::new(NetworkAttr::default())?)?, b"hello");
/// let text = Error::from(PostError::UnknownPeer).to_string();
/// assert!(text.starts_with("not posted: the peer is not in the endpoint's address vector"));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// An object was not opened, or a buffer not registered.
    Open(OpenError),
    /// An operation was not posted.
    Post(PostError),
    /// An operation failed.
    Operation(OpError),
    /// A completion queue failed, or a call on it.
    Queue(CqError),
    /// Bytes or text are not an address.
    Address(AddressError),
    /// An address was not inserted.
    Insert(InsertError),
    /// This side refused to connect, accept or reject.
    Connection(CmError),
    /// An event queue failed, or a call on it.
    Events(EqError),
    /// A wait for a counter ended early.
    Counter(CounterError),
    /// A range is not within exposed memory.
    Window(OutOfWindow),
    /// Exposed memory has no element at an offset.
    Element(ElementError),
    /// A region was not closed, because peers may still reach its memory.
    StillReached,
    /// Arrivals of immediate data were not counted or waited for.
    Arrivals(ArrivalsError),
    /// Values do not fit a layout of immediate data, or immediate data does not match its layout.
    Layout(LayoutError),
    /// A network of the software transport does not offer the hints' requirements.
    Offer(NotOffered),
    /// The transport refused another request.
    Provider(Errno),
    /// A capacity named by the text is exhausted.
    Full(&'static str),
    /// A request is invalid for the reason in the text.
    Invalid(&'static str),
    /// A name in the hints is unknown.
    Unknown {
        /// Kind of the name: provider, host.
        what: &'static str,
        /// The name.
        name: Excerpt,
    },
    /// A call of the operating system failed.
    System {
        /// Name of the call.
        call: &'static str,
        /// Error number.
        errno: Errno,
    },
}

impl Error {
    const fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Error::Post(PostError::Again) => "the deadline of `Cq::post` has passed, or it was not posted by that",
            Error::Post(PostError::Full) => "poll the queue, or open it for more operations",
            Error::Post(PostError::Kept) => "take completions with `Cq::poll`, fetch claimed messages, and drop pieces",
            Error::Post(PostError::UnknownPeer) => {
                "insert its address into the vector that the endpoint was opened with"
            }
            Error::Post(PostError::NotGranted(_)) | Error::Open(OpenError::NotGranted(_)) => {
                "ask for it in the hints, or use another provider"
            }
            Error::Post(PostError::NotRegistered) => "wrap the buffer in `Registered`",
            Error::Open(OpenError::OutOfMemory) => "`layout` says how much each object takes",
            Error::Queue(CqError::UnknownKey) => "take a completion from `Cq::poll` or by `Cq::finish`, not by both",
            Error::Queue(CqError::PeerEvents | CqError::PiecesOut) => "call `Cq::poll`",
            Error::Layout(LayoutError::TooWide { .. }) => "`Info::carries` says so before anything is opened",
            Error::Arrivals(ArrivalsError::Full) => "`Arrivals::open` says how many can wait",
            Error::Unknown { .. } => "`loom info` lists the providers and the addresses of this host",
            Error::StillReached => "close the domain's endpoints first, or use `close_finished`",
            _ => return None,
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Open(error) => write!(f, "not opened: {error}"),
            Error::Post(error) => write!(f, "not posted: {error}"),
            Error::Operation(error) => write!(f, "an operation failed: {error}"),
            Error::Queue(error) => error.fmt(f),
            Error::Address(error) => write!(f, "not an address: {error}"),
            Error::Insert(error) => write!(f, "not inserted: {error}"),
            Error::Connection(error) => write!(f, "not connected: {error}"),
            Error::Events(error) => error.fmt(f),
            Error::Counter(error) => error.fmt(f),
            Error::Window(error) => error.fmt(f),
            Error::Element(error) => error.fmt(f),
            Error::StillReached => f.write_str("peers may reach the memory while endpoints of the domain are open"),
            Error::Arrivals(error) => error.fmt(f),
            Error::Layout(error) => error.fmt(f),
            Error::Offer(error) => error.fmt(f),
            Error::Provider(errno) => write!(f, "the transport refused: {errno}"),
            Error::Full(what) => write!(f, "full: {what}"),
            Error::Invalid(why) => f.write_str(why),
            Error::Unknown { what, name } => write!(f, "the {what} `{name}` is unknown here"),
            Error::System { call, errno } => write!(f, "{call} failed: {errno}"),
        }?;
        self.advice().map_or(Ok(()), |advice| write!(f, " ({advice})"))
    }
}

impl core::error::Error for Error {}

macro_rules! from {
    ($($error:ty => $variant:ident),*) => { $(
        impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Error::$variant(error)
            }
        }
    )* };
}

from! {
    OpenError => Open, PostError => Post, OpError => Operation, CqError => Queue, InsertError => Insert, AddressError => Address, CmError => Connection,
    EqError => Events, CounterError => Counter, OutOfWindow => Window, ElementError => Element,
    Errno => Provider, ArrivalsError => Arrivals, LayoutError => Layout,
    NotOffered => Offer
}

/// Drops the buffer.
impl<B, E: Into<Error>> From<Rejected<B, E>> for Error {
    fn from(rejected: Rejected<B, E>) -> Self {
        rejected.error.into()
    }
}

/// Drops the buffer, if the error contains it.
impl<B> From<RunError<B>> for Error {
    fn from(error: RunError<B>) -> Self {
        match error {
            RunError::Rejected(rejected) => rejected.into(),
            RunError::Queue { error, .. } => error.into(),
        }
    }
}

impl From<EndpointError> for Error {
    fn from(error: EndpointError) -> Self {
        Error::Open(error.errno.into())
    }
}

impl From<SleepError> for Error {
    fn from(error: SleepError) -> Self {
        match error {
            SleepError::NotOpenedFor => Error::Queue(CqError::NotOpenedFor),
            SleepError::Failed(errno) => Error::Queue(CqError::Queue(errno)),
        }
    }
}

impl From<ConnectError> for Error {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Refused(error) => Error::Connection(error),
            ConnectError::Failed(failure) => failure.into(),
            ConnectError::Shutdown => Error::Connection(Errno::ENOTCONN.into()),
            ConnectError::Queue(error) => Error::Events(error),
        }
    }
}

/// Loses the endpoint, which is closed, or the request, which is rejected.
impl<E> From<Refused<E>> for Error {
    fn from(refused: Refused<E>) -> Self {
        Error::Connection(refused.error)
    }
}

/// Drops the region.
impl<R> From<CloseError<R>> for Error {
    fn from(error: CloseError<R>) -> Self {
        match error {
            CloseError::EndpointsOpen(_) => Error::StillReached,
            CloseError::Errno(errno) => Error::Provider(errno),
        }
    }
}

/// Failure of a connection, or of joining a multicast group.
impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Error::Connection(failure.errno().into())
    }
}

/// Drops the queue and its endpoints.
impl<T: Transport, B: Buffer, const N: usize> From<ParkError<'_, T, B, N>> for Error {
    fn from(_: ParkError<'_, T, B, N>) -> Self {
        Error::Invalid("the queue has other handles, or endpoints that stay on this thread")
    }
}

impl From<tag_matcher::Full> for Error {
    fn from(_: tag_matcher::Full) -> Self {
        Error::Full("the places of the tag matcher")
    }
}

impl From<address_table::Full> for Error {
    fn from(full: address_table::Full) -> Self {
        Error::Full(match full {
            address_table::Full::Places => "the places of the address table",
            address_table::Full::Bytes => "the address table's room for bytes of addresses",
        })
    }
}

impl From<Beyond> for Error {
    fn from(_: Beyond) -> Self {
        Error::Full("the places of the peer table")
    }
}

impl From<address_table::SetFull> for Error {
    fn from(_: address_table::SetFull) -> Self {
        Error::Full("the members of the address set")
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;
    use crate::vocabulary::EndpointType;

    fn passes_on(result: Result<(), Rejected<[u8; 3]>>) -> Result<(), Error> {
        Ok(result?)
    }

    #[test]
    fn text_says_what_failed_why_and_what_to_do() {
        let refused = passes_on(Err(Rejected { buf: [0; 3], error: PostError::UnknownPeer }));
        assert_eq!(
            refused.expect_err("it is refused").to_string(),
            "not posted: the peer is not in the endpoint's address vector (insert its address into the vector that the \
             endpoint was opened with)"
        );
        assert_eq!(
            Error::from(OpenError::Errno(Errno::ENOSYS)).to_string(),
            "not opened: the transport refused: ".to_string() + &Errno::ENOSYS.to_string()
        );
    }

    #[test]
    fn text_names_what_opens_a_connected_endpoint() {
        let text = Error::from(OpenError::EndpointType(EndpointType::MSG)).to_string();
        assert!(["EP_MSG", "`MsgEndpoint`", "`tcp;ofi_rxm`", "`net`"].iter().all(|name| text.contains(name)), "{text}");
    }

    #[cfg(feature = "std")]
    #[test]
    fn the_limit_of_a_network_is_named() -> Result<(), Error> {
        use crate::soft::{Network, NetworkAttr};
        use crate::{Access, Av, Cq, Domain, Mr};

        let network = Network::new(NetworkAttr { regions: 1, ..NetworkAttr::DEFAULT })?;
        let domain = Domain::open(&network.info())?;
        let (av, cq) = (Av::open(&domain, 16)?, Cq::<_, std::vec::Vec<u8>>::open(&domain, 64)?);
        let open = || cq.endpoint(&av);
        let _open = [open()?, open()?, open()?, open()?, open()?, open()?, open()?, open()?];
        let region = || Mr::open(&domain, std::vec![0; 8], Access::REMOTE_WRITE);
        let _region = region()?;
        for (refused, limit) in [(open().err(), "endpoints"), (region().err(), "regions")] {
            let text = refused.map(Error::from).expect("as many are open").to_string();
            assert!(text.contains(limit) && text.contains("NetworkAttr::") && !text.contains("provider"), "{text}");
        }
        let empty = Network::new(NetworkAttr { rx_depth: 0, ..NetworkAttr::DEFAULT }).map(drop);
        assert_eq!(empty, Err(OpenError::OutOfRange("NetworkAttr::rx_depth")));
        Ok(())
    }
}
