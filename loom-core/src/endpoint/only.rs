//! [`Only`]: kind of endpoint with the operations of a query alone.

use core::fmt;
use core::marker::PhantomData;

use allocator_api2::alloc::Allocator;

use super::Endpoint;
use super::binding::Binding;
use super::collective::CollectiveGroup;
use super::connectionless::Connectionless;
use super::kind::{Has, HasAddress, HasOptions, Peeks, Receives, Sealed, Transmits};
use super::msg_endpoint::{Established, Msg, MsgEndpoint};
use super::post::Limits;
use super::scalable::{RxCtx, TxCtx};
use crate::av::Av;
use crate::buffer::Buffer;
use crate::cq::Cq;
use crate::engine::address_table::AddressSet;
use crate::error::{OpenError, PostError};
use crate::query::{self, AnyType, Asked, CollectiveOps, Dgram, EndpointKind, Group, Query, Rdm, granted};
use crate::transport::{Collectives, Connected, Scalable, Transport};
use crate::vocabulary::{Caps, EndpointAddr, Errno, FabricAddr};

/// Kind `K` of endpoint with the operations of the [query](crate::query) `Q`, at compile time only:
/// size and behaviour are those of kind `K`.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::endpoint::{Connectionless, Endpoint, Only};
/// use loom_core::query::Messages;
/// use loom_core::soft::Soft;
/// use loom_core::{Av, Cq, Domain, Forever, Source};
///
/// /// An endpoint that sends and receives messages without tags, and does nothing else.
/// type Messenger<'m, T> = Endpoint<'m, T, Vec<u8>, Only<Connectionless<'m, T>, Messages>>;
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// # let to_bob = av.insert(&bob.address()?)?;
/// let messenger: Messenger<'_, Soft<'_>> = alice.only()?;
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// cq.post(b"hello".to_vec(), Forever, |message| messenger.send(to_bob, message))?;
/// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct Only<K, Q> {
    kind: K,
    query: PhantomData<fn() -> Q>,
}

/// Connectionless endpoint with the operations of a query ([`Cq::endpoint_for`]).
pub type OnlyEndpoint<'m, T, B, Q> = Endpoint<'m, T, B, Only<Connectionless<'m, T>, Q>>;

impl<K: Clone, Q> Clone for Only<K, Q> {
    fn clone(&self) -> Self {
        Only { kind: self.kind.clone(), query: PhantomData }
    }
}

impl<K: fmt::Debug, Q> fmt::Debug for Only<K, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Only").field(&self.kind).finish()
    }
}

impl<K: Sealed, Q> Sealed for Only<K, Q> {}
impl<K: HasOptions, Q> HasOptions for Only<K, Q> {}
impl<K: HasAddress, Q> HasAddress for Only<K, Q> {}
impl<T: Transport, K: Peeks<T>, Q> Peeks<T> for Only<K, Q> {}

impl<K: Sealed, Q: Query, G: Group<In<Q>: Asked<G>>> Has<G> for Only<K, Q> {}

impl<T: Transport, K: Transmits<T>, Q> Transmits<T> for Only<K, Q> {
    type To = K::To;

    #[inline]
    fn destination(&self, limits: &Limits, to: K::To) -> Result<FabricAddr, PostError> {
        self.kind.destination(limits, to)
    }

    #[inline]
    fn injects_writes(&self) -> bool {
        self.kind.injects_writes()
    }
}

impl<T: Transport, K: Receives<T>, Q> Receives<T> for Only<K, Q> {
    type From = K::From;

    const ANY: K::From = K::ANY;

    #[inline]
    fn source(&self, limits: &Limits, from: K::From) -> Result<FabricAddr, PostError> {
        self.kind.source(limits, from)
    }
}

/// A connectionless endpoint type, or any type.
#[diagnostic::on_unimplemented(
    message = "an endpoint of type `{Self}` is connected, and this one is not",
    label = "the query asks for `{Self}`",
    note = "open it by `Cq::msg_endpoint`, and narrow it by `Endpoint::only` when it is connected"
)]
pub trait WithoutConnections: EndpointKind {}

impl WithoutConnections for AnyType {}
impl WithoutConnections for Rdm {}
impl WithoutConnections for Dgram {}

/// A kind of endpoint that a query for this type can narrow.
#[diagnostic::on_unimplemented(
    message = "an endpoint of kind `{Self}` cannot be narrowed to a query for one of type `{E}`",
    label = "the query asks for `{E}`",
    note = "one that is narrowed already is narrowed anew after `Endpoint::whole`"
)]
pub trait Narrows<E: EndpointKind>: Sealed {
    /// Queried capabilities that another part of the endpoint may provide.
    #[doc(hidden)]
    const ELSEWHERE: Caps;
}

impl<T: Transport, E: WithoutConnections> Narrows<E> for Connectionless<'_, T> {
    const ELSEWHERE: Caps = Caps::empty();
}

impl<T: Scalable, E: WithoutConnections> Narrows<E> for TxCtx<'_, T> {
    const ELSEWHERE: Caps = Caps::RECV.union(Caps::MULTI_RECV).union(Caps::TAGGED_MULTI_RECV);
}

impl<T: Scalable, E: WithoutConnections> Narrows<E> for RxCtx<'_, T> {
    const ELSEWHERE: Caps = Caps::SEND;
}

/// Receives may be those of a [`SharedRx`](super::SharedRx).
impl Narrows<AnyType> for Msg<Established> {
    const ELSEWHERE: Caps = Caps::RECV;
}

/// Receives may be those of a [`SharedRx`](super::SharedRx).
impl Narrows<query::Msg> for Msg<Established> {
    const ELSEWHERE: Caps = Caps::RECV;
}

impl<'m, T: Transport, B: Buffer, K: Clone> Endpoint<'m, T, B, K> {
    /// Another handle of the endpoint, with the operations of a query. Other calls do not compile.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::error::OpenError;
    /// use loom_core::query::{AtomicOps, Messages};
    /// use loom_core::soft::{Network, NetworkAttr, Plan};
    /// use loom_core::{Av, Caps, Cq, Domain};
    ///
    /// # let network = Network::new(NetworkAttr::default())?;
    /// // As over a provider that has no atomic operations.
    /// let domain = Domain::open(&network.info_with_faults(Plan::new(0).without(Caps::ATOMIC)))?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
    /// let endpoint = cq.endpoint(&av)?;
    /// let messages = endpoint.only::<Messages>()?;
    /// assert!(matches!(endpoint.only::<AtomicOps>(), Err(OpenError::NotGranted(_))));
    /// // `whole` gives a handle with every operation.
    /// assert_eq!(messages.whole().address()?, endpoint.address()?);
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`OpenError::EndpointType`], [`OpenError::NotGranted`] or [`OpenError::InjectSize`] if the
    /// endpoint does not meet the query.
    pub fn only<Q: Query>(&self) -> Result<Endpoint<'m, T, B, Only<K, Q>>, OpenError>
    where
        K: Narrows<Q::Kind>,
    {
        let (limits, offered) = (self.limits(), self.opened.endpoint_slot().offered().get());
        granted::<Q>(offered.kind, limits.caps().union(K::ELSEWHERE), limits.inject_size)?;
        Ok(Endpoint { opened: self.opened.clone(), kind: Only { kind: self.kind.clone(), query: PhantomData } })
    }
}

impl<'m, T: Transport, B: Buffer, K: Clone, Q> Endpoint<'m, T, B, Only<K, Q>> {
    /// Another handle of the endpoint, with every operation of its kind. Posts that the provider
    /// does not grant are refused ([`PostError::NotGranted`]).
    #[must_use]
    pub fn whole(&self) -> Endpoint<'m, T, B, K> {
        Endpoint { opened: self.opened.clone(), kind: self.kind.kind.clone() }
    }
}

impl<'m, T: Transport, B: Buffer> Cq<'m, T, B> {
    /// [`endpoint`](Self::endpoint) with the operations of a [query] alone.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::query::{Messages, Query, Tagged};
    /// use loom_core::soft::{Network, NetworkAttr};
    /// use loom_core::{Av, Cq, Domain, Forever, Source, Tag};
    ///
    /// type Wanted = (Messages, Tagged);
    /// # let network = Network::new(NetworkAttr::default())?;
    /// let domain = Domain::open(&network.query(&Wanted::HINTS)?)?;
    /// let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// let [alice, bob] = [cq.endpoint_for::<Wanted>(&av)?, cq.endpoint_for::<Wanted>(&av)?];
    /// let to_bob = av.insert(&bob.address()?)?;
    /// let received = bob.tagged_recv(Source::Any, Tag(7), vec![0; 5])?;
    /// // `alice.write` does not compile: the query does not ask for it.
    /// cq.post(b"hello".to_vec(), Forever, |message| alice.tagged_send(to_bob, Tag(7), message))?;
    /// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`endpoint`](Self::endpoint), and, with the endpoint closed,
    /// [`OpenError::EndpointType`], [`OpenError::NotGranted`] or [`OpenError::InjectSize`] if the
    /// info does not meet the query.
    #[doc(alias = "fi_endpoint")]
    pub fn endpoint_for<'b, Q: Query<Kind: WithoutConnections>>(
        &self,
        bind: impl Into<Binding<'b, 'm, T, Av<'m, T>>>,
    ) -> Result<OnlyEndpoint<'m, T, B, Q>, OpenError>
    where
        'm: 'b,
        T: 'b,
    {
        let bind = bind.into();
        Q::check(bind.info.unwrap_or_else(|| self.domain().info()))?;
        self.endpoint(bind)?.only()
    }
}

impl<'m, T: Transport, B: Buffer, Q> OnlyEndpoint<'m, T, B, Q> {
    /// Address vector with the endpoint's peers.
    #[must_use]
    pub const fn av(&self) -> &Av<'m, T> {
        &self.kind.kind.av
    }
}

impl<'m, T: Collectives, B: Buffer, Q> OnlyEndpoint<'m, T, B, Q> {
    /// [`Endpoint::join_collective`](Endpoint::join_collective) for this kind.
    ///
    /// # Errors
    /// Those of [`Endpoint::join_collective`](Endpoint::join_collective).
    #[doc(alias = "fi_join_collective")]
    pub fn join_collective<A: Allocator>(&self, set: &AddressSet<A>) -> Result<CollectiveGroup<'m, T, B>, OpenError>
    where
        Only<Connectionless<'m, T>, Q>: Has<CollectiveOps>,
    {
        self.whole().join_collective(set)
    }
}

impl<T: Connected, B: Buffer, Q> Endpoint<'_, T, B, Only<Msg<Established>, Q>> {
    /// [`MsgEndpoint::shutdown`](MsgEndpoint::shutdown) for this kind.
    ///
    /// # Errors
    /// Those of [`MsgEndpoint::shutdown`](MsgEndpoint::shutdown).
    #[doc(alias = "fi_shutdown")]
    pub fn shutdown(&self) -> Result<(), Errno> {
        self.whole().shutdown()
    }

    /// [`MsgEndpoint::peer_address`](MsgEndpoint::peer_address) for this kind.
    ///
    /// # Errors
    /// Those of [`MsgEndpoint::peer_address`](MsgEndpoint::peer_address).
    #[doc(alias = "fi_getpeer")]
    pub fn peer_address(&self) -> Result<EndpointAddr, Errno> {
        MsgEndpoint::peer_address(&self.whole())
    }
}
