//! Kinds of endpoints: whom each transmits to, and from whom it receives.
//!
//! Operations are written once, for every kind ([`Endpoint`](super::Endpoint)). A kind says which it has ([`Transmits`],
//! [`Receives`]), and what stands for the other side in their arguments.

use super::post::Limits;
use crate::engine::peer_table::Peer;
use crate::error::PostError;
use crate::objects::av::Av;
use crate::objects::query::{AtomicOps, Group, Messages, Reads, Tagged, Writes};
use crate::transport::Transport;
use crate::vocabulary::{Caps, FabricAddr};

/// Kinds are loom's own.
#[expect(unnameable_types, reason = "only loom implements it")]
pub trait Sealed {}

/// A kind of endpoint that has a group of operations: all groups, or, if it is an [`Only`](super::Only), those of its query.
pub trait Has<G: Group>: Sealed {}

/// A kind of endpoint that has the operations which can be [deferred](crate::objects::deferred).
pub trait Deferrable: Has<Messages> + Has<Tagged> + Has<Reads> + Has<Writes> + Has<AtomicOps> {}

impl<K> Deferrable for K where K: Has<Messages> + Has<Tagged> + Has<Reads> + Has<Writes> + Has<AtomicOps> {}

/// A kind of endpoint whose options can be read.
pub trait HasOptions: Sealed {}

/// A kind of endpoint that has an address of its own.
pub trait HasAddress: HasOptions {}

/// A kind of endpoint that sends, writes and reads.
pub trait Transmits<T: Transport>: Sealed {
    /// Whom an operation goes to.
    type To: Copy;

    /// The address that an operation goes to: one that the endpoint may transmit to.
    #[doc(hidden)]
    fn destination(&self, limits: &Limits, to: Self::To) -> Result<FabricAddr, PostError>;

    /// Whether writes can be injected.
    #[doc(hidden)]
    fn injects_writes(&self) -> bool {
        true
    }
}

/// A kind of endpoint that receives messages.
pub trait Receives<T: Transport>: Sealed {
    /// Whose messages a receive takes.
    type From: Copy;

    /// Any peer's messages.
    const ANY: Self::From;

    /// The address whose messages a receive takes: one of the endpoint's vector, or none in particular.
    #[doc(hidden)]
    fn source(&self, limits: &Limits, from: Self::From) -> Result<FabricAddr, PostError>;
}

/// A kind of endpoint that can look at tagged messages that were not received yet.
pub trait Peeks<T: Transport>: Receives<T> {}

/// Whose messages a receive takes.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::error::PostError;
/// use loom_core::{Av, Caps, Cq, Domain, Forever, Source};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// # let to_bob = av.insert(&bob.address()?)?;
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
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Anybody's.
    Any,
    /// One peer's; where the provider grants `DIRECTED_RECV`.
    #[doc(alias = "FI_DIRECTED_RECV")]
    Peer(Peer),
}

impl From<Peer> for Source {
    fn from(peer: Peer) -> Self {
        Source::Peer(peer)
    }
}

impl Source {
    /// The address of the one whose messages a receive takes.
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

/// The other side of a connection: what stands for a peer in operations of an endpoint that has one only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThePeer;
