//! Kinds of endpoints, which declare their operations ([`Transmits`], [`Receives`]) and the type of
//! peers in arguments. [`Endpoint`](super::Endpoint) implements the operations once for all kinds.

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
/// use loom_core::endpoint::{Endpoint, HasAddress};
/// use loom_core::{Av, Cq, Domain, Errno, Transport};
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
/// use loom_core::endpoint::{Endpoint, Transmits};
/// use loom_core::{Av, Cq, Domain, Error, Forever, Source, Transport};
///
/// /// Sends a message and waits until it is sent: over an endpoint without connections, a connection, a transmit context.
/// fn send<T, K>(endpoint: &Endpoint<'_, T, Vec<u8>, K>, to: K::To, message: Vec<u8>) -> Result<(), Error>
/// where
///     T: Transport,
///     K: Transmits<T>,
/// {
///     let sent = endpoint.cq().post(message, Forever, |message| endpoint.send(to, message))?;
///     endpoint.cq().finish(sent, Forever)?.result()?;
///     Ok(())
/// }
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// send(&alice, to_bob, b"hello".to_vec())?;
/// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
pub trait Transmits<T: Transport>: Sealed {
    /// Destination of an operation.
    type To: Copy;

    /// Address that the endpoint may transmit to.
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
/// use loom_core::endpoint::{Endpoint, Receives};
/// use loom_core::{Av, Cq, Domain, Error, Forever, OpKey, Transport};
///
/// /// Posts receives, on an endpoint, a connection, a receive context, or what connections share.
/// fn fill<T, K>(endpoint: &Endpoint<'_, T, Vec<u8>, K>, count: usize) -> Result<Vec<OpKey>, Error>
/// where
///     T: Transport,
///     K: Receives<T>,
/// {
///     (0..count).map(|_| Ok(endpoint.recv(K::ANY, vec![0; 64])?)).collect()
/// }
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let receives = fill(&bob, 4)?;
/// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// assert_eq!(cq.finish(receives[0], Forever)?.result()?.len(), 5);
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
/// use loom_core::endpoint::{Endpoint, Peeks};
/// use loom_core::{Av, Cq, Domain, Error, Forever, Tag, TagMatch, Transport};
///
/// /// The length of the oldest message with a tag that matches, if one has come.
/// fn waiting<T, K>(endpoint: &Endpoint<'_, T, Vec<u8>, K>, tag: TagMatch) -> Result<Option<usize>, Error>
/// where
///     T: Transport,
///     K: Peeks<T>,
/// {
///     let peek = endpoint.cq().finish_peek(endpoint.tagged_peek(K::ANY, tag)?, Forever)?;
///     Ok(peek.message()?.map(|found| found.len))
/// }
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// cq.retry(Forever, || alice.tagged_inject(to_bob, Tag(7), b"hello"))?;
/// assert_eq!(waiting(&bob, TagMatch::any())?, Some(5));
/// # Ok::<_, loom_core::Error>(())
/// ```
pub trait Peeks<T: Transport>: Receives<T> {}

/// Source of a receive's messages.
///
/// ```
/// use loom_core::error::PostError;
/// use loom_core::{Av, Caps, Cq, Domain, Forever, Source};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let from_any_peer = bob.recv(Source::Any, vec![0; 5])?;
/// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// assert_eq!(cq.finish(from_any_peer, Forever)?.into_buf(), b"hello");
/// // A directed receive takes the messages of one peer, where the provider grants it.
/// let to_alice = av.insert(&alice.address()?)?;
/// match bob.recv(Source::Peer(to_alice), vec![0; 5]) {
///     Ok(from_alice) => {
///         cq.retry(Forever, || alice.inject(to_bob, b"again"))?;
///         assert_eq!(cq.finish(from_alice, Forever)?.into_buf(), b"again");
///     }
///     Err(refused) => assert_eq!(refused.error, PostError::NotGranted(Caps::DIRECTED_RECV)),
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
                limits.granted(Caps::DIRECTED_RECV)?;
                av.fabric_addr(peer).ok_or_else(|| PostError::UnknownPeer.cold())
            }
        }
    }
}

/// The peer of a connection, in arguments.
///
/// ```
/// use loom_core::transport::Connected;
/// use loom_core::{Cq, Error, Forever, MsgEndpoint, ThePeer};
///
/// /// A question and its answer: a connection has one peer, which needs no address.
/// fn ask<T: Connected>(
///     cq: &Cq<'_, T, Vec<u8>>,
///     connection: &MsgEndpoint<'_, T, Vec<u8>>,
///     question: Vec<u8>,
/// ) -> Result<Vec<u8>, Error> {
///     let answer = connection.recv(ThePeer, vec![0; 64])?;
///     cq.post(question, Forever, |question| connection.send(ThePeer, question))?;
///     let (mut answer, transfer) = cq.finish(answer, Forever)?.into_result()?;
///     answer.truncate(transfer.len());
///     Ok(answer)
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThePeer;
