#![allow(unsafe_code, reason = "opens and uses raw handles")]

use core::marker::PhantomData;

use super::Endpoint;
use super::binding::Binding;
use super::kind::{HasAddress, HasOptions, Peeks, Receives, Sealed, ThePeer, Transmits};
use super::limits::Limits;
use super::opened::Opened;
use crate::buffer::Buffer;
use crate::cq::{Cq, ReceiveMode};
use crate::eq::{ConnectedEvent, ConnectionRequest, EndpointId, EventQueue, check_data};
use crate::error::{OpenError, PostError, Rejected};
use crate::info::Info;
use crate::transport::connected::MsgBindings;
use crate::transport::{Connected, Transport};
use crate::vocabulary::{EndpointAddr, EndpointOption, EndpointType, Errno, FabricAddr};

/// State before connecting.
///
/// ```
/// use loom_core::{Cq, EndpointAddr, EventQueue, Error, Info, MsgEndpoint, ThePeer};
/// use loom_core::{endpoint::{Connecting, Idle}, transport::Connected};
///
/// /// Posts a receive for the server's first message, and connects. An idle endpoint has no `send`.
/// fn connect<'m, T: Connected>(
///     (cq, eq, info): (&Cq<'m, T, Vec<u8>>, &EventQueue<'m, T>, &Info<T>), server: &EndpointAddr,
/// ) -> Result<MsgEndpoint<'m, T, Vec<u8>, Connecting>, Error> {
///     let endpoint: MsgEndpoint<'_, _, _, Idle> = cq.msg_endpoint(eq, info)?;
///     endpoint.recv(ThePeer, vec![0; 4096])?;
///     Ok(endpoint.connect(server, b"version 1")?)
/// }
/// ```
#[derive(Debug)]
pub enum Idle {}

/// State of an endpoint for a peer's request, before it accepts.
///
/// ```
/// use loom_core::{Cq, EventQueue, Error, MsgEndpoint, ThePeer};
/// use loom_core::{endpoint::{Connecting, Requested}, eq::ConnectionRequest, transport::Connected};
///
/// /// Accepts a request: the receive is posted first, so that the peer's first message finds it.
/// fn accept<'m, T: Connected>(
///     (cq, eq): (&Cq<'m, T, Vec<u8>>, &EventQueue<'m, T>),
///     request: ConnectionRequest<'m, T>,
/// ) -> Result<MsgEndpoint<'m, T, Vec<u8>, Connecting>, Error> {
///     let endpoint: MsgEndpoint<'_, _, _, Requested> = request.endpoint(cq, eq)?;
///     endpoint.recv(ThePeer, vec![0; 4096])?;
///     Ok(endpoint.accept(b"version 1")?)
/// }
/// ```
#[derive(Debug)]
pub enum Requested {}

/// State between connecting or accepting and the event with the outcome.
///
/// ```
/// use loom_core::{MsgEndpoint, endpoint::Connecting, eq::ConnectedEvent, transport::Connected};
///
/// /// Returns the connected endpoint, or the unchanged endpoint if the event is about another one.
/// fn established<'m, T: Connected>(
///     endpoint: MsgEndpoint<'m, T, Vec<u8>, Connecting>, event: &ConnectedEvent,
/// ) -> Result<MsgEndpoint<'m, T, Vec<u8>>, MsgEndpoint<'m, T, Vec<u8>, Connecting>> {
///     endpoint.established(event)
/// }
/// ```
#[derive(Debug)]
pub enum Connecting {}

/// Connected state.
///
/// ```
/// use loom_core::{Error, Forever, MsgEndpoint, ThePeer, endpoint::Established, transport::Connected};
///
/// /// Sends a farewell and ends the connection.
/// fn close<T: Connected>(connection: MsgEndpoint<'_, T, Vec<u8>, Established>) -> Result<(), Error> {
///     let sent = connection.cq().post(b"goodbye".to_vec(), Forever, |message| connection.send(ThePeer, message))?;
///     connection.cq().finish(sent, Forever)?.result()?;
///     Ok(connection.shutdown()?)
/// }
/// ```
#[derive(Debug)]
pub enum Established {}

/// A connection-oriented endpoint (`FI_EP_MSG`), in one of four states.
///
/// A client opens ([`Cq::msg_endpoint`](crate::cq::Cq::msg_endpoint)) and connects. A server opens
/// for a request ([`ConnectionRequest::endpoint`](crate::eq::ConnectionRequest::endpoint)) and
/// accepts. The event queue reports the connection. The state determines the methods:
///
/// | state | left by |
/// |---|---|
/// | [`Idle`] | [`connect`](MsgEndpoint::connect) |
/// | [`Requested`] | [`accept`](MsgEndpoint::accept) |
/// | [`Connecting`] | [`established`](MsgEndpoint::established), with the event |
/// | [`Established`] | dropping it |
///
/// Receives can be posted in every state. When a connection ends, by [`shutdown`](Self::shutdown),
/// the peer or the network, operations in flight complete with an error, or when the endpoint is
/// dropped. Later posts are refused or complete with an error, but `sockets` reports sends that fit
/// into its buffers as sent.
///
/// Examples: [`Idle`], [`Connecting`] and [`Established`].
///
/// # References
/// - `man fi_endpoint`, `man fi_cm`
#[doc(alias = "FI_EP_MSG")]
#[doc(alias = "fid_ep")]
pub type MsgEndpoint<'m, T, B, S = Established> = Endpoint<'m, T, B, Msg<S>>;

/// Endpoint kind of [`MsgEndpoint`].
#[derive(Debug)]
pub struct Msg<S> {
    id: EndpointId,
    accepts: bool,
    cm_data_size: Result<usize, Errno>,
    state: PhantomData<S>,
}

impl Clone for Msg<Established> {
    fn clone(&self) -> Self {
        Msg { ..*self }
    }
}

impl<S> Sealed for Msg<S> {}
impl<S> HasOptions for Msg<S> {}
impl<S> HasAddress for Msg<S> {}
impl<T: Transport> Peeks<T> for Msg<Established> {}

impl<T: Transport> Transmits<T> for Msg<Established> {
    type To = ThePeer;

    #[inline]
    fn destination(&self, _: &Limits, ThePeer: ThePeer) -> Result<FabricAddr, PostError> {
        Ok(FabricAddr::UNSPEC)
    }
}

/// Every state, so that receives are ready for the peer's first messages.
impl<T: Transport, S> Receives<T> for Msg<S> {
    type From = ThePeer;

    const ANY: ThePeer = ThePeer;

    #[inline]
    fn source(&self, _: &Limits, ThePeer: ThePeer) -> Result<FabricAddr, PostError> {
        Ok(FabricAddr::UNSPEC)
    }
}

impl<'m, T: Connected, B: Buffer> Cq<'m, T, B> {
    /// Opens an endpoint to connect, with completions in this queue and an event queue: `&eq`, or a
    /// [`Binding`] with counters.
    ///
    /// # Errors
    /// - [`OpenError::OtherDomain`], [`OpenError::EndpointType`], [`OpenError::Counters`],
    ///   [`OpenError::TooManyEndpoints`], [`OpenError::NotGranted`]
    /// - [`OpenError::Errno`] of the provider
    #[doc(alias = "fi_endpoint")]
    pub fn msg_endpoint(
        &self,
        bind: impl Into<Binding<'m, T, EventQueue<'m, T>>>,
        info: &Info<T>,
    ) -> Result<MsgEndpoint<'m, T, B, Idle>, OpenError> {
        MsgEndpoint::to_connect(self, None, bind.into(), info)
    }
}

impl<'m, T: Connected, B: Buffer, S> MsgEndpoint<'m, T, B, S> {
    /// Opens an endpoint from an info of the queue's domain, optionally for a request. `through`
    /// belongs to the same queue.
    fn open(
        cq: &Cq<'m, T, B>,
        through: Option<&Opened<'m, T, B>>,
        bind: Binding<'m, T, EventQueue<'m, T>>,
        info: &Info<T>,
        request: &mut Option<T::Request>,
    ) -> Result<Self, OpenError> {
        let (domain, eq, selective) = (cq.domain(), &bind.to, bind.selective);
        if !eq.domain().is(domain) {
            return Err(OpenError::OtherDomain);
        }
        domain.serves(info, &[EndpointType::MSG])?;
        bind.counters.check(domain, info.caps())?;
        let options = bind.options()?;
        let accepts = request.is_some();
        let receives = match through {
            None => bind.receives,
            Some(_) if bind.receives != ReceiveMode::Itself => return Err(Errno::EINVAL.into()),
            Some(shared) => ReceiveMode::Through(shared.index),
        };
        let bonds = bind.bonds(Some(eq.bond()));
        let held = Opened::open(cq, info, receives, bonds, |tx, rx| {
            let shared_rx = through.map(Opened::raw);
            let counters = &bind.counters.raw();
            let bind = MsgBindings { tx, rx, eq: eq.raw(), shared_rx, counters, selective, options };
            // SAFETY: queues and counters are open (H1), of this domain (H4), and outlive the
            // endpoint: the queue closes it before itself (H2) and before the shared receive
            // context (E1), the others stay open while bound (N1). The `ConnectionRequest` keeps
            // its event queue open, and the request is used up once (E2).
            unsafe { T::msg_endpoint_open(domain.raw(), info.raw(), request, bind) }
        })?;
        let held = held.with_selective(selective);
        let cm_data_size = held.option(EndpointOption::CM_DATA_SIZE);
        let id = EndpointId { fid: T::endpoint_fid(held.raw()), opened: eq.moment() };
        let kind = Msg { id, accepts, cm_data_size, state: PhantomData };
        Ok(Endpoint { opened: held, kind })
    }

    pub(crate) const fn cm_data_size(&self) -> Result<usize, Errno> {
        self.kind.cm_data_size
    }

    #[expect(clippy::result_large_err, reason = "there is no allocator to box the endpoint with")]
    fn begin(
        self,
        data: &[u8],
        begin: impl FnOnce(&T::Endpoint) -> Result<(), Errno>,
    ) -> Result<MsgEndpoint<'m, T, B, Connecting>, Rejected<Self, OpenError>> {
        match check_data(data, self.kind.cm_data_size).and_then(|()| Ok(begin(self.raw())?)) {
            Ok(()) => Ok(self.into_state()),
            Err(error) => Err(Rejected { value: self, error: error.of_connection() }),
        }
    }

    fn into_state<N>(self) -> MsgEndpoint<'m, T, B, N> {
        let Endpoint { opened: held, kind: Msg { id, accepts, cm_data_size, state: _ } } = self;
        Endpoint { opened: held, kind: Msg { id, accepts, cm_data_size, state: PhantomData } }
    }

    /// Identifier to compare events with
    /// ([`ShutdownEvent::is_of`](crate::eq::ShutdownEvent::is_of)).
    #[must_use]
    pub fn id(&self) -> EndpointId {
        self.kind.id
    }
}

impl<T: Connected, B: Buffer, S> From<&MsgEndpoint<'_, T, B, S>> for EndpointId {
    fn from(endpoint: &MsgEndpoint<'_, T, B, S>) -> Self {
        endpoint.id()
    }
}

impl<'m, T: Connected, B: Buffer> MsgEndpoint<'m, T, B, Idle> {
    pub(super) fn to_connect(
        cq: &Cq<'m, T, B>,
        through: Option<&Opened<'m, T, B>>,
        bind: Binding<'m, T, EventQueue<'m, T>>,
        info: &Info<T>,
    ) -> Result<Self, OpenError> {
        if !info.same_domain(cq.domain().info()) {
            return Err(OpenError::OtherDomain);
        }
        MsgEndpoint::open(cq, through, bind, info, &mut None)
    }

    /// Requests a connection to a passive endpoint, which receives `data` as
    /// [`ConnectionRequest::data`](crate::eq::ConnectionRequest::data).
    ///
    /// # Errors
    /// [`OpenError::DataTooLong`] or [`OpenError::Unconnected`], with the endpoint, which not every
    /// provider can connect again. A rejection or an unreachable peer is reported as an event.
    #[doc(alias = "fi_connect")]
    #[expect(clippy::result_large_err, reason = "there is no allocator to box the endpoint with")]
    pub fn connect(
        self,
        to: &EndpointAddr,
        data: &[u8],
    ) -> Result<MsgEndpoint<'m, T, B, Connecting>, Rejected<Self, OpenError>> {
        self.begin(data, |raw| {
            // SAFETY: handles keep H1 and T3. The data's length is checked above.
            unsafe { T::connect(raw, to, data) }
        })
    }
}

impl<'m, T: Connected, B: Buffer> MsgEndpoint<'m, T, B, Requested> {
    /// Accepts the request. The peer receives `data` as its [`answer`](MsgEndpoint::answer).
    ///
    /// # Errors
    /// [`OpenError::DataTooLong`] or [`OpenError::Unconnected`], with the endpoint.
    #[doc(alias = "fi_accept")]
    #[expect(clippy::result_large_err, reason = "there is no allocator to box the endpoint with")]
    pub fn accept(self, data: &[u8]) -> Result<MsgEndpoint<'m, T, B, Connecting>, Rejected<Self, OpenError>> {
        self.begin(data, |raw| {
            // SAFETY: handles keep H1 and T3, and the endpoint was opened for a request. The data's
            // length is checked above.
            unsafe { T::accept(raw, data) }
        })
    }
}

impl<'m, T: Connected, B: Buffer> MsgEndpoint<'m, T, B, Connecting> {
    /// Data of the peer's `accept`, if the event concerns this endpoint. Empty on the accepting
    /// side.
    #[must_use]
    pub fn answer<'a>(&self, event: &'a ConnectedEvent) -> &'a [u8] {
        if event.is_of(self) && !self.kind.accepts { event.data() } else { &[] }
    }

    /// Returns the connected endpoint, if the event concerns it.
    ///
    /// # Errors
    /// The unchanged endpoint, for an event of another, for example an earlier one with the same
    /// [`id`](Self::id).
    #[expect(clippy::result_large_err, reason = "there is no allocator to box the endpoint with")]
    pub fn established(self, event: &ConnectedEvent) -> Result<MsgEndpoint<'m, T, B, Established>, Self> {
        if event.is_of(&self) { Ok(self.into_state()) } else { Err(self) }
    }
}

impl<T: Connected, B: Buffer> MsgEndpoint<'_, T, B, Established> {
    /// Ends the connection, as the peer's event queue reports. Operations in flight complete with
    /// an error, or when the endpoint is dropped. Earlier messages arrive if the provider
    /// guarantees it.
    ///
    /// ```
    /// use loom_core::{EventQueue, EqEvent, Error, MsgEndpoint, transport::Connected};
    ///
    /// /// Ends a connection, and waits until the peer has ended it, too.
    /// fn hang_up<T: Connected>(eq: &EventQueue<'_, T>, connection: MsgEndpoint<'_, T, Vec<u8>>) -> Result<(), Error> {
    ///     connection.shutdown()?;
    ///     while !matches!(eq.poll()?, Some(EqEvent::Shutdown(event)) if event.is_of(&connection)) {}
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// Those of the provider. `EOPNOTSUPP` over `sockets` (would later close a foreign file
    /// descriptor), libfabric 1's `net` and `tcp` (would free reads twice) and untested providers:
    /// drop the endpoint instead.
    #[doc(alias = "fi_shutdown")]
    pub fn shutdown(&self) -> Result<(), Errno> {
        // SAFETY: handles keep H1 and T3, and the endpoint was connected (P10).
        unsafe { T::shutdown(self.raw()) }
    }

    /// Address of the peer.
    ///
    /// # Errors
    /// Those of the provider, for example `ENOTCONN` after the connection has ended.
    #[doc(alias = "fi_getpeer")]
    pub fn peer_address(&self) -> Result<EndpointAddr, Errno> {
        // SAFETY: handles keep H1 and T3, and the endpoint was connected (P10).
        unsafe { T::peer_address(self.raw()) }
    }
}

impl<T: Connected> ConnectionRequest<'_, T> {
    /// Opens an endpoint for the connection, with completions in `cq` and this event queue or
    /// another of the same domain: `&eq`, or a [`Binding`] with counters. Receives can be posted
    /// before it accepts.
    ///
    /// # Errors
    /// Those of [`Cq::msg_endpoint`](crate::cq::Cq::msg_endpoint). The request is then rejected.
    #[doc(alias = "fi_endpoint")]
    pub fn endpoint<'c, B: Buffer>(
        self,
        cq: &Cq<'c, T, B>,
        bind: impl Into<Binding<'c, T, EventQueue<'c, T>>>,
    ) -> Result<MsgEndpoint<'c, T, B, Requested>, OpenError> {
        self.open_endpoint(cq, None, bind.into())
    }

    pub(super) fn open_endpoint<'c, B: Buffer>(
        mut self,
        cq: &Cq<'c, T, B>,
        through: Option<&Opened<'c, T, B>>,
        bind: Binding<'c, T, EventQueue<'c, T>>,
    ) -> Result<MsgEndpoint<'c, T, B, Requested>, OpenError> {
        let (eq, info, request) = self.parts();
        if !eq.domain().is(cq.domain()) {
            return Err(OpenError::OtherDomain);
        }
        if request.is_none() {
            return Err(OpenError::Errno(Errno::ENOENT));
        }
        if !info.requests(cq.domain().info()) {
            return Err(OpenError::OtherDomain);
        }
        let endpoint = MsgEndpoint::open(cq, through, bind, info, request)?;
        *request = None;
        Ok(endpoint)
    }
}
