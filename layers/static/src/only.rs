use core::fmt;
use core::marker::PhantomData;

use loom_core::atomic::{CompareOp, Element, FetchOp, OperationIn};
use loom_core::completion::Fetched;
use loom_core::cq::CqError;
use loom_core::deadline::Deadline;
use loom_core::endpoint::Granted;
use loom_core::endpoint::{Connectionless, Endpoint, Established, Msg, RxCtx, TxCtx};
use loom_core::mr::RemoteRegion;
use loom_core::transport::{Scalable, Transport};
use loom_core::vocabulary::{Caps, EndpointAddr, Errno, ImmediateData, Tag, TagMatch};

use crate::protocol::{
    Atomics, Completes, Connection, Inject, MsgRecv, MsgSend, Posted, Receiver, RmaRead, RmaWrite, TaggedInject,
    TaggedRecv, TaggedSend, Transmitter, Waited,
};
use crate::query::{
    self, AnyType, Asked, AtomicOps, Dgram, EndpointKind, Group, Injects, Messages, Query, Rdm, Reads, Tagged, Writes,
};

/// Endpoint `E` with the [protocol traits](crate::protocol) of the [query](crate::query) `Q`.
///
/// [`Query::endpoint`] and [`Query::only`] return it. The [whole](Self::whole) endpoint has the
/// rest.
///
/// ```
/// use loom_core::soft::Soft;
/// use loom_core::{Av, Cq, Domain, Endpoint, Forever, Source};
/// use loom_static::Only;
/// use loom_static::protocol::MsgSend;
/// use loom_static::query::{Messages, Query};
///
/// /// An endpoint that sends and receives messages without tags, and does nothing else.
/// type Messenger<'m, T> = Only<Endpoint<'m, T, Vec<u8>>, Messages>;
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let mut messenger: Messenger<'_, Soft<'_>> = Messages::only(&alice)?;
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// cq.post(b"hello".to_vec(), Forever, |message| messenger.send(to_bob, message))?;
/// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct Only<E, Q> {
    endpoint: E,
    query: PhantomData<fn() -> Q>,
}

/// Connectionless endpoint of a query ([`Query::endpoint`]).
pub type OnlyEndpoint<'m, T, B, Q> = Only<Endpoint<'m, T, B>, Q>;

impl<E, Q> Only<E, Q> {
    /// The caller has checked the endpoint.
    pub(crate) const fn new(endpoint: E) -> Self {
        Only { endpoint, query: PhantomData }
    }

    /// The whole endpoint. Operations that the provider does not grant are refused
    /// ([`PostError::NotGranted`](loom_core::PostError::NotGranted)).
    #[must_use]
    #[inline]
    pub const fn whole(&self) -> &E {
        &self.endpoint
    }

    /// Returns the endpoint without the query.
    #[must_use]
    pub fn into_whole(self) -> E {
        self.endpoint
    }
}

impl<E: Clone, Q> Clone for Only<E, Q> {
    fn clone(&self) -> Self {
        Only::new(self.endpoint.clone())
    }
}

impl<E: fmt::Debug, Q> fmt::Debug for Only<E, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Only").field(&self.endpoint).finish()
    }
}

/// Connectionless endpoint type, or any.
#[diagnostic::on_unimplemented(
    message = "an endpoint of type `{Self}` is connected, and this one is not",
    label = "the query asks for `{Self}`",
    note = "open it by `Cq::msg_endpoint`, and narrow it by `Query::only` when it is connected"
)]
pub trait WithoutConnections: EndpointKind {}

impl WithoutConnections for AnyType {}
impl WithoutConnections for Rdm {}
impl WithoutConnections for Dgram {}

/// Endpoint kind that a query for this type can narrow.
#[diagnostic::on_unimplemented(
    message = "an endpoint of kind `{Self}` cannot be narrowed to a query for one of type `{E}`",
    label = "the query asks for `{E}`"
)]
pub trait Narrows<E: EndpointKind> {
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

/// Receives may be those of a [`SharedRx`](loom_core::endpoint::SharedRx).
impl Narrows<AnyType> for Msg<Established> {
    const ELSEWHERE: Caps = Caps::RECV;
}

impl Narrows<query::Msg> for Msg<Established> {
    const ELSEWHERE: Caps = Caps::RECV;
}

type In<Q, G> = <G as Group>::In<Q>;

impl<E: Completes, Q> Completes for Only<E, Q> {
    type Buf = E::Buf;
    type Key = E::Key;
    type PostError = E::PostError;
    type OpError = E::OpError;

    #[inline]
    fn wait(&mut self, key: E::Key, until: impl Deadline) -> Waited<Self> {
        self.endpoint.wait(key, until)
    }

    #[inline]
    fn progress(&mut self) -> Result<bool, CqError> {
        self.endpoint.progress()
    }
}

impl<E: Transmitter, Q> Transmitter for Only<E, Q> {
    type To = E::To;
}

impl<E: Receiver, Q> Receiver for Only<E, Q> {
    type From = E::From;

    const ANY: E::From = E::ANY;
}

impl<E: Connection, Q> Connection for Only<E, Q> {
    const PEER: E::To = E::PEER;

    fn peer_address(&self) -> Result<EndpointAddr, Errno> {
        self.endpoint.peer_address()
    }

    fn shutdown(&mut self) -> Result<(), Errno> {
        self.endpoint.shutdown()
    }
}

impl<E: MsgSend, Q: Query> MsgSend for Only<E, Q>
where
    In<Q, Messages>: Asked<Messages>,
{
    #[inline]
    fn send(&mut self, to: E::To, buf: E::Buf) -> Posted<Self> {
        self.endpoint.send(to, buf)
    }

    #[inline]
    fn send_data(&mut self, to: E::To, data: ImmediateData, buf: E::Buf) -> Posted<Self> {
        self.endpoint.send_data(to, data, buf)
    }
}

impl<E: MsgRecv, Q: Query> MsgRecv for Only<E, Q>
where
    In<Q, Messages>: Asked<Messages>,
{
    #[inline]
    fn recv(&mut self, from: E::From, buf: E::Buf) -> Posted<Self> {
        self.endpoint.recv(from, buf)
    }
}

impl<E: TaggedSend, Q: Query> TaggedSend for Only<E, Q>
where
    In<Q, Tagged>: Asked<Tagged>,
{
    #[inline]
    fn tagged_send(&mut self, to: E::To, tag: Tag, buf: E::Buf) -> Posted<Self> {
        self.endpoint.tagged_send(to, tag, buf)
    }

    #[inline]
    fn tagged_send_data(&mut self, to: E::To, tag: Tag, data: ImmediateData, buf: E::Buf) -> Posted<Self> {
        self.endpoint.tagged_send_data(to, tag, data, buf)
    }
}

impl<E: TaggedRecv, Q: Query> TaggedRecv for Only<E, Q>
where
    In<Q, Tagged>: Asked<Tagged>,
{
    #[inline]
    fn tagged_recv(&mut self, from: E::From, tag: TagMatch, buf: E::Buf) -> Posted<Self> {
        self.endpoint.tagged_recv(from, tag, buf)
    }
}

impl<E: Inject, Q: Query> Inject for Only<E, Q>
where
    In<Q, Messages>: Asked<Messages>,
    In<Q, Injects>: Asked<Injects>,
{
    #[inline]
    fn inject_size(&self, to: E::To) -> usize {
        self.endpoint.inject_size(to)
    }

    #[inline]
    fn inject(&mut self, to: E::To, bytes: &[u8]) -> Result<(), E::PostError> {
        self.endpoint.inject(to, bytes)
    }
}

impl<E: TaggedInject, Q: Query> TaggedInject for Only<E, Q>
where
    In<Q, Tagged>: Asked<Tagged>,
    In<Q, Injects>: Asked<Injects>,
{
    #[inline]
    fn tagged_inject_size(&self, to: E::To) -> usize {
        self.endpoint.tagged_inject_size(to)
    }

    #[inline]
    fn tagged_inject(&mut self, to: E::To, tag: Tag, bytes: &[u8]) -> Result<(), E::PostError> {
        self.endpoint.tagged_inject(to, tag, bytes)
    }
}

impl<E: RmaRead, Q: Query> RmaRead for Only<E, Q>
where
    In<Q, Reads>: Asked<Reads>,
{
    #[inline]
    fn read(&mut self, peer: E::To, region: &RemoteRegion, offset: u64, buf: E::Buf) -> Posted<Self> {
        self.endpoint.read(peer, region, offset, buf)
    }
}

impl<E: RmaWrite, Q: Query> RmaWrite for Only<E, Q>
where
    In<Q, Writes>: Asked<Writes>,
{
    #[inline]
    fn write(&mut self, peer: E::To, region: &RemoteRegion, offset: u64, buf: E::Buf) -> Posted<Self> {
        self.endpoint.write(peer, region, offset, buf)
    }

    #[inline]
    fn write_data(
        &mut self,
        peer: E::To,
        region: &RemoteRegion,
        offset: u64,
        data: ImmediateData,
        buf: E::Buf,
    ) -> Posted<Self> {
        self.endpoint.write_data(peer, region, offset, data, buf)
    }
}

impl<E: Atomics, Q: Query> Atomics for Only<E, Q>
where
    In<Q, AtomicOps>: Asked<AtomicOps>,
{
    #[inline]
    fn atomic<O: OperationIn<E::Buf>>(
        &mut self,
        peer: E::To,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<O>,
        buf: E::Buf,
    ) -> Posted<Self> {
        self.endpoint.atomic(peer, region, offset, op, buf)
    }

    #[inline]
    fn fetch_value<V: Element>(
        &mut self,
        peer: E::To,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<FetchOp<V>>,
        operand: V,
    ) -> Result<E::Key, E::PostError> {
        self.endpoint.fetch_value(peer, region, offset, op, operand)
    }

    #[inline]
    fn compare_value<V: Element>(
        &mut self,
        peer: E::To,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<CompareOp<V>>,
        compare: V,
        operand: V,
    ) -> Result<E::Key, E::PostError> {
        self.endpoint.compare_value(peer, region, offset, op, compare, operand)
    }

    #[inline]
    fn wait_value(&mut self, key: E::Key, until: impl Deadline) -> Result<Option<Fetched>, CqError> {
        self.endpoint.wait_value(key, until)
    }
}
