use core::fmt;

use crate::engine::op_table::OpError;
use crate::error::{CqError, OpenError, PostError, Rejected};
use crate::vocabulary::{AddressError, Errno, Excerpt, RangeError, with_cause};

/// Any error of loom. Every other error converts into it with `?`.
///
/// The conversion drops values that some errors return, such as buffers.
///
/// The text is the wrapped error's, with a remedy. `{error:#}` adds the wrapped error's
/// [`source`](core::error::Error::source), often an [`Errno`]. [`Debug`](fmt::Debug) writes that
/// text, too, for programs that return the error from `main`.
///
/// ```
/// use loom_core::{Error, Forever, PostError, Source};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let greet = || -> Result<Vec<u8>, Error> {
///     let received = bob.recv(Source::Any, vec![0; 5])?; // `Rejected`: the buffer is dropped
///     cq.retry(Forever, || alice.inject(to_bob, b"hello"))?; // `PostError`
///     let done = cq.finish(received, Forever)?; // `CqError`
///     Ok(done.into_result()?.0) // `OpError`
/// };
/// assert_eq!(greet()?, b"hello");
/// let text = Error::from(PostError::UnknownPeer).to_string();
/// assert!(text.starts_with("not posted: the peer is not in the endpoint's address vector"));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Opening, connecting or registering failed, or an info is not offered.
    Open(OpenError),
    /// An operation was not posted.
    Post(PostError),
    /// An operation failed.
    Operation(OpError),
    /// A queue or counter failed, or a call on it.
    Queue(CqError),
    /// Bytes or text are no address, or an insertion failed.
    Address(AddressError),
    /// A range is not within exposed memory, or immediate data does not fit its layout.
    Range(RangeError),
    /// A region was not closed: peers may still reach it.
    StillReached,
    /// The transport refused another request.
    Provider(Errno),
    /// This capacity is exhausted.
    Full(&'static str),
    /// Reason for which a request is invalid.
    Invalid(&'static str),
    /// A name in the hints is unknown.
    Unknown {
        /// Kind of the name: provider, fabric, domain, host, service.
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
                "request it in the hints, or use another provider"
            }
            Error::Post(PostError::NotRegistered) => "wrap the buffer in `Registered`",
            Error::Open(OpenError::OutOfMemory) => "`layout` returns the size of each object",
            Error::Queue(CqError::UnknownKey) => "take a completion from `Cq::poll` or by `Cq::finish`, not by both",
            Error::Queue(CqError::PeerEvents | CqError::PiecesOut) => "call `Cq::poll`",
            Error::Range(RangeError::TooWide { .. }) => "`Info::carries` reports this before anything is opened",
            Error::Unknown { .. } => "`loom info` lists the providers and the addresses of this host",
            Error::StillReached => "close the domain's endpoints first, or use `close_finished`",
            _ => return None,
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut prefixed = |prefix, error: &dyn fmt::Display| {
            f.write_str(prefix)?;
            error.fmt(f)
        };
        match self {
            Error::Open(error) if error.is_of_connection() => prefixed("not connected: ", error),
            Error::Open(error) => prefixed("not opened: ", error),
            Error::Post(error) => prefixed("not posted: ", error),
            Error::Operation(error) => prefixed("an operation failed: ", error),
            Error::Queue(error) => error.fmt(f),
            Error::Address(error) => error.fmt(f),
            Error::Range(error) => error.fmt(f),
            Error::StillReached => f.write_str("peers may reach the memory while endpoints of the domain are open"),
            Error::Provider(_) => f.write_str("the transport refused").and_then(|()| with_cause(f, self)),
            Error::Full(what) => write!(f, "full: {what}"),
            Error::Invalid(why) => f.write_str(why),
            Error::Unknown { what, name } => write!(f, "the {what} `{name}` is unknown here"),
            Error::System { call, .. } => write!(f, "{call} failed").and_then(|()| with_cause(f, self)),
        }?;
        self.advice().map_or(Ok(()), |advice| write!(f, " ({advice})"))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Error::Open(error) => error.source(),
            Error::Post(error) => error.source(),
            Error::Operation(error) => error.source(),
            Error::Queue(error) => error.source(),
            Error::Address(error) => error.source(),
            Error::Range(error) => error.source(),
            Error::Provider(errno) | Error::System { errno, .. } => Some(errno),
            Error::StillReached | Error::Full(_) | Error::Invalid(_) | Error::Unknown { .. } => None,
        }
    }
}

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
    OpenError => Open, PostError => Post, OpError => Operation, CqError => Queue, AddressError => Address,
    RangeError => Range, Errno => Provider
}

/// Drops the value.
impl<V, E: Into<Error>> From<Rejected<V, E>> for Error {
    fn from(rejected: Rejected<V, E>) -> Self {
        rejected.error.into()
    }
}
