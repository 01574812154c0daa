use super::limits::Limits;
use crate::av::Av;
use crate::engine::peer_table::Peer;
use crate::error::PostError;
use crate::transport::Transport;
use crate::vocabulary::{Caps, FabricAddr};

/// Restricts the kinds to those of loom.
#[expect(unnameable_types, reason = "only loom implements it")]
pub trait Sealed {}

/// A kind of endpoint with readable options.
pub trait HasOptions: Sealed {}

/// A kind of endpoint that has an address of its own.
///
/// ```
/// use loom_core::{Endpoint, Errno, Transport, endpoint::HasAddress};
///
/// /// What a program prints for its peers. Receive contexts, for example, have no address of their own.
/// fn told<T: Transport, K: HasAddress>(endpoint: &Endpoint<'_, T, Vec<u8>, K>) -> Result<String, Errno> {
///     Ok(format!("reach me at {}", endpoint.address()?))
/// }
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// assert!(told(&alice)? != told(&bob)?);
/// # Ok::<_, loom_core::Error>(())
/// ```
pub trait HasAddress: HasOptions {}

/// A kind of endpoint that sends, writes and reads.
///
/// ```
/// use loom_core::{Endpoint, Error, Forever, Source, Transport, endpoint::Transmits};
///
/// /// Sends over an endpoint without connections, a connection or a transmit context.
/// fn greet<T: Transport, K: Transmits<T>>(from: &Endpoint<'_, T, Vec<u8>, K>, to: K::To) -> Result<(), Error> {
///     let sent = from.cq().post(b"hello".to_vec(), Forever, |message| from.send(to, message))?;
///     from.cq().finish(sent, Forever)?.result()?;
///     Ok(())
/// }
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// greet(&alice, to_bob)?;
/// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
pub trait Transmits<T: Transport>: Sealed {
    /// Destination of an operation.
    type To: Copy;

    /// Looks the destination of a post up in the address vector.
    #[doc(hidden)]
    fn destination(&self, limits: &Limits, to: Self::To) -> Result<FabricAddr, PostError>;

    /// Returns `true` if writes can be injected.
    #[doc(hidden)]
    fn injects_writes(&self) -> bool {
        true
    }
}

/// A kind of endpoint that receives messages.
///
/// ```
/// use loom_core::{Endpoint, Error, Forever, OpKey, Transport, endpoint::Receives};
///
/// /// Posts a receive on an endpoint, a connection, a receive context or a shared receive context.
/// fn receive<T: Transport, K: Receives<T>>(endpoint: &Endpoint<'_, T, Vec<u8>, K>) -> Result<OpKey, Error> {
///     Ok(endpoint.recv(K::ANY, vec![0; 64])?)
/// }
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let received = receive(&bob)?;
/// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// assert_eq!(cq.finish(received, Forever)?.result()?.len, 5);
/// # Ok::<_, loom_core::Error>(())
/// ```
pub trait Receives<T: Transport>: Sealed {
    /// Source of a receive.
    type From: Copy;

    /// Messages of any peer.
    const ANY: Self::From;

    /// Source address of a receive: one of the endpoint's vector, or `UNSPEC`.
    #[doc(hidden)]
    fn source(&self, limits: &Limits, from: Self::From) -> Result<FabricAddr, PostError>;
}

/// A kind of endpoint that can peek at tagged messages.
///
/// ```
/// use loom_core::{Endpoint, Error, Forever, Tag, TagMatch, Transport, endpoint::Peeks};
///
/// /// Returns the length of the oldest tagged message.
/// fn oldest<T: Transport, K: Peeks<T>>(endpoint: &Endpoint<'_, T, Vec<u8>, K>) -> Result<Option<usize>, Error> {
///     let peek = endpoint.cq().finish_peek(endpoint.tagged_peek(K::ANY, TagMatch::ANY)?, Forever)?;
///     Ok(peek.message()?.map(|found| found.len))
/// }
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// cq.retry(Forever, || alice.tagged_inject(to_bob, Tag(7), b"hello"))?;
/// assert_eq!(oldest(&bob)?, Some(5));
/// # Ok::<_, loom_core::Error>(())
/// ```
pub trait Peeks<T: Transport>: Receives<T> {}

/// Source of a receive's messages.
///
/// ```
/// use loom_core::{Caps, Forever, PostError, Source};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let from_any_peer = bob.recv(Source::Any, vec![0; 5])?;
/// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// assert_eq!(cq.finish(from_any_peer, Forever)?.into_buf(), b"hello");
/// // A directed receive takes the messages of one peer, if the provider grants it.
/// let to_alice = av.insert(&alice.address()?)?;
/// if let Err(refused) = bob.recv(Source::Peer(to_alice), vec![0; 5]) {
///     assert_eq!(refused.error, PostError::NotGranted(Caps::DIRECTED_RECV));
/// }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Any peer.
    Any,
    /// One peer, where the provider grants `DIRECTED_RECV`.
    #[doc(alias = "FI_DIRECTED_RECV")]
    Peer(Peer),
}

impl From<Peer> for Source {
    fn from(peer: Peer) -> Self {
        Source::Peer(peer)
    }
}

impl Source {
    #[inline]
    pub(super) fn address<T: Transport>(self, limits: &Limits, av: &Av<'_, T>) -> Result<FabricAddr, PostError> {
        match self {
            Source::Any => Ok(FabricAddr::UNSPEC),
            Source::Peer(peer) => {
                limits.admit(Caps::DIRECTED_RECV, None)?;
                av.peer_table().addr(peer).ok_or_else(|| PostError::UnknownPeer.cold())
            }
        }
    }
}

/// The peer of a connection, in arguments.
///
/// ```
/// use loom_core::{Error, Forever, MsgEndpoint, ThePeer, transport::Connected};
///
/// /// Sends a question and returns the answer. A connection has one peer, which needs no address.
/// fn ask<T: Connected>(connection: &MsgEndpoint<'_, T, Vec<u8>>, question: Vec<u8>) -> Result<Vec<u8>, Error> {
///     let answer = connection.recv(ThePeer, vec![0; 64])?;
///     connection.cq().post(question, Forever, |question| connection.send(ThePeer, question))?;
///     Ok(connection.cq().finish(answer, Forever)?.into_result()?.0)
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThePeer;
