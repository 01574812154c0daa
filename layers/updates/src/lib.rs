//! Read-modify-write of a peer's memory where its provider has no atomic operations.
//!
//! This is **not** `fi_atomic`. A message carries the update to the peer with the memory, which
//! does it in a call of [`UpdateServer::progress`] and sends the answer. Prefer atomic operations
//! of the provider ([`Domain::query_atomic`](loom_core::domain::Domain::query_atomic)).
//!
//! Concurrent updates are done in any order. An update is atomic relative to other updates and to
//! the owner's accesses ([`Window::element`](loom_core::exposed::Window::element)), but not
//! relative to the provider's RMA writes and atomic operations.
//!
//! Updates run over any [`protocol`](loom_static::protocol) that delivers each message once. A
//! server identifies clients by numbers, so the provider need not report sources, but any peer that
//! can send to an endpoint can impersonate a client or the server. Malformed messages are refused,
//! and memory outside the window is never touched. Answers that are not received occupy the
//! server's buffers: a client must call [`Updates::progress`] while it has requests in flight.
//!
//! ```
//! use loom_core::allocator_api2::alloc::Global;
//! use loom_core::atomic::FetchOp;
//! use loom_core::{Access, Mr, Spins};
//! use loom_updates::{MESSAGE_LEN, UpdateServer, Updates};
//! # use loom_core::soft::{Network, NetworkAttr};
//! # use loom_core::{Av, Cq, Domain};
//! # let network = Network::new(NetworkAttr::default())?;
//! # let domain = Domain::open(&network.info())?;
//! # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 32)?);
//! # let (alice, bob) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
//! # let (to_alice, to_bob) = (av.insert(&alice.address()?)?, av.insert(&bob.address()?)?);
//!
//! let memory = Mr::open(&domain, vec![0; 64], Access::REMOTE_READ | Access::REMOTE_WRITE)?;
//! # let offset = memory.window().as_ptr().align_offset(8) as u64;
//! let buffers = || std::iter::repeat_with(|| vec![0; MESSAGE_LEN]);
//! let mut server = UpdateServer::open_in(bob, [to_alice], buffers(), 4, Global)?;
//! let mut updates = Updates::open_in(alice, 0, buffers(), 4, Global)?;
//! let key = updates.fetch(to_bob, offset, FetchOp::<u64>::SUM, 40)?;
//! let before = loop {
//!     server.progress(memory.window())?;
//!     if let Some(before) = updates.wait(key, Spins(0))? {
//!         break before;
//!     }
//! };
//! assert_eq!(before, 0);
//! # Ok::<_, loom_core::Error>(())
//! ```

#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]
#![warn(clippy::std_instead_of_core, clippy::alloc_instead_of_core, clippy::unwrap_used)]
#[cfg(any(test, feature = "std"))]
extern crate std;

mod client;
mod server;
mod wire;

use core::fmt;

use loom_core::Error;
use loom_core::buffer::{Buffer, bytes_mut};
use loom_core::cq::CqError;
use loom_core::vocabulary::Errno;

pub use self::client::{UpdateKey, Updates};
pub use self::server::UpdateServer;
pub use self::wire::MESSAGE_LEN;

/// Error of an update. `E` is the protocol's error of a post.
///
/// ```
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_updates::{MESSAGE_LEN, UpdateError, UpdateServer, Updates};
/// use loom_core::{Errno, Spins};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # use loom_core::{Access, Av, Cq, Domain, Mr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 32)?);
/// # let (alice, bob) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
/// # let (to_alice, to_bob) = (av.insert(&alice.address()?)?, av.insert(&bob.address()?)?);
/// # let memory = Mr::open(&domain, vec![0; 64], Access::REMOTE_READ | Access::REMOTE_WRITE)?;
/// # let offset = memory.window().as_ptr().align_offset(8) as u64;
/// # let buffers = || std::iter::repeat_with(|| vec![0; MESSAGE_LEN]);
/// # use loom_core::{Forever, Source};
/// # // A strict network refuses the first messages between two endpoints for the moment.
/// # for (from, to, peer) in [(&alice, &bob, to_bob), (&bob, &alice, to_alice)] {
/// #     let received = to.recv(Source::Any, Vec::new())?;
/// #     cq.retry(Forever, || from.inject(peer, &[]))?;
/// #     cq.finish(received, Forever)?.result()?;
/// # }
/// # let mut server = UpdateServer::open_in(bob, [to_alice], buffers(), 4, Global)?;
/// # let mut updates = Updates::open_in(alice, 0, buffers(), 4, Global)?;
/// // The offset is behind the end of the server's memory.
/// let key = updates.read::<u64>(to_bob, 4096)?;
/// let refused = loop {
///     server.progress(memory.window())?;
///     match updates.wait(key, Spins(0)) {
///         Ok(None) => {}
///         other => break other,
///     }
/// };
/// assert_eq!(refused, Err(UpdateError::Refused(Errno::EFAULT)));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UpdateError<E> {
    /// The maximum number of requests is in flight.
    Full,
    /// A message was not posted.
    Post(E),
    /// The server refused the update and left the element unchanged.
    Refused(Errno),
    /// The request was not delivered, as far as this side can detect.
    Lost,
    /// The answer was taken or given up.
    UnknownKey,
    /// The queue has failed.
    Queue(CqError),
}

impl<E: fmt::Display> fmt::Display for UpdateError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpdateError::Full => f.write_str("the client has room for no more updates in flight"),
            UpdateError::Post(error) => {
                f.write_str("a message of an update was not posted: ").and_then(|()| error.fmt(f))
            }
            UpdateError::Refused(errno) => write!(f, "the server has refused the update: {errno}"),
            UpdateError::Lost => f.write_str("the request was not delivered"),
            UpdateError::UnknownKey => f.write_str("no update has this key any more"),
            UpdateError::Queue(error) => error.fmt(f),
        }
    }
}

impl<E: core::error::Error + 'static> core::error::Error for UpdateError<E> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            UpdateError::Post(error) => error.source(),
            UpdateError::Queue(error) => error.source(),
            _ => None,
        }
    }
}

impl<E: Into<Error>> From<UpdateError<E>> for Error {
    fn from(error: UpdateError<E>) -> Self {
        match error {
            UpdateError::Full => Error::Full("the requests of a client of remote updates"),
            UpdateError::Post(error) => error.into(),
            UpdateError::Refused(errno) => Error::Provider(errno),
            UpdateError::Lost => Error::Provider(Errno::ECONNABORTED),
            UpdateError::UnknownKey => Error::Invalid("the answer to this update was taken, or given up"),
            UpdateError::Queue(error) => error.into(),
        }
    }
}

/// Message in a buffer of exactly `MESSAGE_LEN` bytes.
fn message_of<B: Buffer>(buf: &mut B) -> Option<&mut [u8; MESSAGE_LEN]> {
    bytes_mut(buf)?.try_into().ok()
}

#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
