//! Remote updates: read-modify-write of a peer's memory where its provider has no atomic operations.
//!
//! This is **not** `fi_atomic`. An update travels as a message to the peer that has the memory, is done there when that peer's program calls
//! [`UpdateServer::progress`], and the answer travels back. A peer that does not call it does nothing. Over a provider with atomic
//! operations ([`Domain::query_atomic`](crate::domain::Domain::query_atomic)) those are what to take: no program of the peer has
//! a part in them.
//!
//! Updates that are under way at the same time are done in any order. An update is one step for all who change the element by updates, and
//! for the owner ([`Window::element`](crate::exposed::Window::element)). It is none for what the provider itself does there: RMA writes, or
//! its atomic operations.
//!
//! It runs over anything that has messages ([`protocol`](crate::protocol)): connectionless endpoints and connections, of every transport,
//! which deliver each message once. Client and server each have an endpoint of their own for it. A server knows its clients by
//! numbers, so that no provider need tell where messages come from. A stranger who can send to one of these endpoints can ask in a client's
//! name, or answer for a server. Bytes that are no request or answer are refused, and nothing beyond the memory is touched.
//! A server whose answers are not received holds them back, one in each of its buffers, and does nothing for others meanwhile: clients call
//! [`Updates::progress`] for as long as they have asked for something.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use allocator_api2::alloc::Global;
//! use loom_core::atomic::FetchOp;
//! use loom_core::{av::Av, cq::Cq, deadline::Spins, domain::Domain, mr::Mr};
//! use loom_core::soft::{Network, NetworkAttr};
//! use loom_core::updates::{MESSAGE_LEN, UpdateServer, Updates};
//! use loom_core::Access;
//!
//! let network = Network::new(NetworkAttr::default())?;
//! let domain = Domain::open(&network.info())?;
//! let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 32)?);
//! let (alice, bob) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
//! let (to_alice, to_bob) = (av.insert(&alice.address()?)?, av.insert(&bob.address()?)?);
//! // Bob has the memory, and one client: number 0.
//! let memory = Mr::open(&domain, vec![0; 64], Access::REMOTE_READ | Access::REMOTE_WRITE)?;
//! let offset = memory.window().as_ptr().align_offset(8) as u64;
//! let buffers = || std::iter::repeat_with(|| vec![0; MESSAGE_LEN]);
//! let mut server = UpdateServer::open_in(bob, [to_alice], buffers(), 4, Global)?;
//! let mut updates = Updates::open_in(alice, 0, buffers(), 4, Global)?;
//!
//! let first = updates.fetch(to_bob, offset, FetchOp::<u64>::SUM, 40)?;
//! let second = updates.fetch(to_bob, offset, FetchOp::<u64>::SUM, 2)?;
//! let mut before = Vec::new();
//! for key in [first, second] {
//!     before.push(loop {
//!         server.progress(memory.window())?;
//!         if let Some(before) = updates.wait(key, Spins(0))? {
//!             break before;
//!         }
//!     });
//! }
//! assert_eq!(before, [0, 40]);
//! # }
//! # Ok::<_, loom_core::Error>(())
//! ```

mod client;
mod server;
mod wire;

use core::fmt;

pub use self::client::{UpdateKey, Updates};
pub use self::server::UpdateServer;
pub use self::wire::MESSAGE_LEN;
use crate::buffer::{Buffer, bytes_mut};
use crate::cq::CqError;
use crate::vocabulary::Errno;

/// Why an update was not done or asked for; `E` is why the protocol below takes no operation.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_core::updates::{MESSAGE_LEN, UpdateError, UpdateServer, Updates};
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
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UpdateError<E> {
    /// As many requests are under way as there is room for.
    Full,
    /// A message was not posted.
    Post(E),
    /// The server has refused the update, and done nothing.
    Refused(Errno),
    /// The request was not delivered, as far as this side knows.
    Lost,
    /// The request's answer was taken, or given up.
    UnknownKey,
    /// The queue cannot go on.
    Queue(CqError),
}

impl<E: fmt::Display> fmt::Display for UpdateError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpdateError::Full => f.write_str("as many updates are under way as there is room for"),
            UpdateError::Post(error) => write!(f, "a message of an update was not posted: {error}"),
            UpdateError::Refused(errno) => write!(f, "the server has refused the update: {errno}"),
            UpdateError::Lost => f.write_str("the request was not delivered"),
            UpdateError::UnknownKey => f.write_str("no update has this key any more"),
            UpdateError::Queue(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> core::error::Error for UpdateError<E> {}

/// The message in a buffer that has room for just one.
fn message_of<B: Buffer>(buf: &mut B) -> Option<&mut [u8; MESSAGE_LEN]> {
    bytes_mut(buf)?.try_into().ok()
}
