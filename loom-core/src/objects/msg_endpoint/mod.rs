//! [`MsgEndpoint`]: an endpoint that is connected to one other.
//!
//! A client opens one ([`Cq::msg_endpoint`](super::cq::CqBody::msg_endpoint)) and connects it; a server opens one for a
//! peer's request ([`ConnectionRequest::endpoint`](super::eq::ConnectionRequest::endpoint)) and accepts. Both are connected
//! when the event queue says so. The state is a type: what an endpoint cannot do yet, it has no method for.
//!
//! | state | how it is left |
//! |---|---|
//! | [`Idle`] | [`connect`](MsgEndpoint::connect) |
//! | [`Requested`] | [`accept`](MsgEndpoint::accept) |
//! | [`Connecting`] | [`established`](MsgEndpoint::established), with the event that says so |
//! | [`Established`] | dropping it |
//!
//! Receives can be posted in every state, so that there is room for what the peer sends first.

#![allow(unsafe_code, reason = "opens and uses raw handles")]

mod binding;
mod error;
mod message;
mod msg;
mod peek;
mod rma;
mod shared_rx;
mod tagged;
mod unreported;

use core::fmt;
use core::marker::PhantomData;
use core::ptr;

pub use self::binding::Binding;
pub use self::error::{CmError, Refused};
pub use self::shared_rx::SharedRx;
use crate::buffer::Buffer;
use crate::engine::op_table::OpKey;
use crate::error::{OpenError, PostError};
use crate::objects::cq::Cq;
use crate::objects::domain::Domain;
use crate::objects::eq::{ConnectedEvent, Moment};
use crate::objects::info::Info;
use crate::objects::port::{Port, Receives};
use crate::transport::Connected;
use crate::transport::connected::{Fid, MsgBindings};
use crate::vocabulary::{EndpointAddr, EndpointOption, EndpointType, Errno, FabricAddr, OptionType};

/// Not connected yet.
#[derive(Debug)]
pub enum Idle {}

/// Opened for a peer's request, which it has not accepted yet.
#[derive(Debug)]
pub enum Requested {}

/// Between connecting or accepting and the event that says how it went.
#[derive(Debug)]
pub enum Connecting {}

/// Connected.
#[derive(Debug)]
pub enum Established {}

/// A connection-oriented endpoint (`FI_EP_MSG`), in one of four states.
///
/// Posts are those of a connectionless [`Endpoint`](super::endpoint::Endpoint), but without an address. When the connection
/// ends, by [`shutdown`](Self::shutdown), by the peer, or because the network fails, operations in flight complete with an
/// error, or come back when the endpoint is dropped; posts from then on are refused, or complete with an error (but
/// `sockets` reports what fits into its buffers as sent).
///
/// # References
/// - `man fi_endpoint`, `man fi_cm`
#[doc(alias = "FI_EP_MSG")]
#[doc(alias = "fid_ep")]
pub struct MsgEndpoint<'q, 'd, T: Connected, B: Buffer, S = Established> {
    port: Port<'q, 'd, T, B>,
    fid: Fid,
    /// When it was opened, in its event queue's time.
    opened: Moment,
    /// Whether it was opened for a request.
    accepts: bool,
    /// How many bytes connecting and accepting carry.
    cm_data_size: Result<usize, Errno>,
    state: PhantomData<S>,
}

/// A connected endpoint has one peer, and no address for it.
#[expect(clippy::unnecessary_wraps, reason = "what posts ask for the address")]
const fn the_peer() -> Result<FabricAddr, PostError> {
    Ok(FabricAddr::UNSPEC)
}

impl<'d, T: Connected, B: Buffer> Cq<'d, T, B> {
    /// Opens an endpoint that is to be connected, completes into this queue, and is bound to an event queue (`&eq`, or a
    /// [`Binding`] with counters).
    ///
    /// # Errors
    /// - [`OpenError::OtherDomain`] if the info or the event queue belongs to another domain
    /// - [`OpenError::EndpointType`] if the info describes an endpoint without connections
    /// - [`OpenError::Counters`] if two counters count the same
    /// - [`OpenError::TooManyEndpoints`] if the queue has no place for another endpoint
    /// - [`OpenError::Errno`] if the provider refuses
    #[doc(alias = "fi_endpoint")]
    pub fn msg_endpoint<'q>(
        &'q self,
        bind: impl Into<Binding<'d, T>>,
        info: &Info<T>,
    ) -> Result<MsgEndpoint<'q, 'd, T, B, Idle>, OpenError> {
        MsgEndpoint::to_connect(self, None, bind.into(), info)
    }
}

impl<'q, 'd, T: Connected, B: Buffer, S> MsgEndpoint<'q, 'd, T, B, S> {
    /// Opens an endpoint from an info of the queue's domain, for a request if there is one. `through`, if it is given, is of
    /// the same queue.
    fn open(
        cq: &'q Cq<'d, T, B>,
        through: Option<&'q SharedRx<'_, 'd, T, B>>,
        Binding { eq, counters, options, receives, selective }: Binding<'d, T>,
        info: &Info<T>,
        request: &mut Option<T::Request>,
    ) -> Result<Self, OpenError> {
        let domain = cq.domain();
        if !ptr::eq(eq.domain(), domain) {
            return Err(OpenError::OtherDomain);
        }
        Domain::check(info)?;
        if info.attributes().endpoint.kind != EndpointType::MSG {
            return Err(OpenError::EndpointType(info.attributes().endpoint.kind));
        }
        counters.check(domain, info.caps())?;
        let options = options.raw()?;
        let accepts = request.is_some();
        let receives = match through {
            None => receives,
            Some(_) if receives != Receives::Itself => return Err(Errno::EINVAL.into()),
            Some(shared) => Receives::Through(shared.index()),
        };
        let port = Port::open(cq, info, receives, counters.bind(eq.bind()), |tx, rx| {
            let shared_rx = through.map(SharedRx::raw);
            let counters = &counters.raw();
            let bind = MsgBindings { tx, rx, eq: eq.raw(), shared_rx, counters, selective, options };
            // SAFETY: queues and counters are open and of this domain, and outlive the endpoint: the completion queue closes
            // it before itself, and what it receives through after it; the others live for 'd and stay open while they have
            // users. The request is one of an event queue that is open (`ConnectionRequest` borrows it).
            unsafe { T::msg_endpoint_open(domain.raw(), info.raw(), request, bind) }
        })?;
        let port = port.with_selective(selective);
        let cm_data_size = port.option(EndpointOption::CM_DATA_SIZE);
        let (fid, opened) = (T::endpoint_fid(port.raw()), eq.moment());
        Ok(MsgEndpoint { port, fid, opened, accepts, cm_data_size, state: PhantomData })
    }

    fn into_state<N>(self) -> MsgEndpoint<'q, 'd, T, B, N> {
        let MsgEndpoint { port, fid, opened, accepts, cm_data_size, state: _ } = self;
        MsgEndpoint { port, fid, opened, accepts, cm_data_size, state: PhantomData }
    }

    pub(crate) const fn port(&self) -> &Port<'q, 'd, T, B> {
        &self.port
    }

    /// What events name this endpoint by, as long as it is open.
    #[must_use]
    pub fn fid(&self) -> Fid {
        self.fid
    }

    /// Asks for an operation to end early. Its completion still comes: with `ECANCELED`, or as if nothing had
    /// happened if it was too late, or if the provider cannot cancel this kind of operation.
    ///
    /// # Errors
    /// `ENOENT` if the operation is not in flight on this endpoint, or what the provider says.
    #[doc(alias = "fi_cancel")]
    pub fn cancel(&self, key: OpKey) -> Result<(), Errno> {
        self.port.cancel(key)
    }

    /// The endpoint's own address.
    ///
    /// # Errors
    /// The provider's.
    #[doc(alias = "fi_getname")]
    pub fn address(&self) -> Result<EndpointAddr, Errno> {
        self.port.address()
    }

    /// The most bytes that the inject calls take. (Where the provider asks for room in front of messages, loom puts it there, and
    /// 1024 bytes are the most with that.)
    #[must_use]
    pub fn inject_size(&self) -> usize {
        self.port.limits.inject_size
    }

    /// The most bytes that [`connect`](MsgEndpoint::connect) and [`accept`](MsgEndpoint::accept) take along.
    ///
    /// # Errors
    /// The provider's, if it does not tell.
    #[doc(alias = "FI_OPT_CM_DATA_SIZE")]
    pub fn cm_data_size(&self) -> Result<usize, Errno> {
        self.cm_data_size
    }

    /// What an option of the endpoint is set to.
    ///
    /// # Errors
    /// The provider's: `ENOPROTOOPT` for an option that it does not have.
    #[doc(alias = "fi_getopt")]
    pub fn option<V: OptionType>(&self, option: EndpointOption<V>) -> Result<V, Errno> {
        self.port.option(option)
    }

    /// Sets an option of the endpoint. Most have to be set [before it is enabled](Binding::option).
    ///
    /// # Errors
    /// `EINVAL` for an option that can only be read or not be set to that, or what the provider says.
    #[doc(alias = "fi_setopt")]
    pub fn set_option<V: OptionType>(&self, option: EndpointOption<V>, value: V) -> Result<(), Errno> {
        self.port.set_option(option, value)
    }

    /// The queue that the endpoint completes into.
    #[must_use]
    pub fn cq(&self) -> &'q Cq<'d, T, B> {
        self.port.cq()
    }

    /// The raw handle, for posting what loom does not wrap.
    ///
    /// Events of contexts that the op table did not give out are counted as strays and otherwise ignored.
    #[inline]
    #[must_use]
    pub fn raw(&self) -> &T::Endpoint {
        self.port.raw()
    }
}

impl<'q, 'd, T: Connected, B: Buffer> MsgEndpoint<'q, 'd, T, B, Idle> {
    /// Opens an endpoint from an info of the queue's domain.
    fn to_connect(
        cq: &'q Cq<'d, T, B>,
        through: Option<&'q SharedRx<'_, 'd, T, B>>,
        bind: Binding<'d, T>,
        info: &Info<T>,
    ) -> Result<Self, OpenError> {
        if !info.same_domain(cq.domain().info()) {
            return Err(OpenError::OtherDomain);
        }
        MsgEndpoint::open(cq, through, bind, info, &mut None)
    }

    /// Asks for a connection to a passive endpoint. `data` goes along, for the peer's
    /// [`ConnectionRequest::data`](super::eq::ConnectionRequest::data).
    ///
    /// # Errors
    /// [`CmError`]; the endpoint comes back, but not every provider lets it try again. A peer that rejects, or cannot be
    /// reached, is an event.
    #[doc(alias = "fi_connect")]
    #[expect(clippy::result_large_err, reason = "there is no allocator to box the endpoint with")]
    pub fn connect(
        self,
        to: &EndpointAddr,
        data: &[u8],
    ) -> Result<MsgEndpoint<'q, 'd, T, B, Connecting>, Refused<Self>> {
        let connected = CmError::check(data, self.cm_data_size).and_then(|()| {
            // SAFETY: the endpoint is open, and the data is not too long.
            Ok(unsafe { T::connect(self.raw(), to, data) }?)
        });
        match connected {
            Ok(()) => Ok(self.into_state()),
            Err(error) => Err(Refused { what: self, error }),
        }
    }
}

impl<'q, 'd, T: Connected, B: Buffer> MsgEndpoint<'q, 'd, T, B, Requested> {
    /// Opens an endpoint for a request to the fabric of the queue's domain.
    pub(crate) fn for_request(
        cq: &'q Cq<'d, T, B>,
        through: Option<&'q SharedRx<'_, 'd, T, B>>,
        bind: Binding<'d, T>,
        info: &Info<T>,
        request: &mut Option<T::Request>,
    ) -> Result<Self, OpenError> {
        if !info.requests(cq.domain().info()) {
            return Err(OpenError::OtherDomain);
        }
        MsgEndpoint::open(cq, through, bind, info, request)
    }

    /// Accepts the request. `data` goes along, for the peer's
    /// [`answer`](MsgEndpoint::answer).
    ///
    /// # Errors
    /// [`CmError`]; the endpoint comes back.
    #[doc(alias = "fi_accept")]
    #[expect(clippy::result_large_err, reason = "there is no allocator to box the endpoint with")]
    pub fn accept(self, data: &[u8]) -> Result<MsgEndpoint<'q, 'd, T, B, Connecting>, Refused<Self>> {
        let accepted = CmError::check(data, self.cm_data_size).and_then(|()| {
            // SAFETY: the endpoint is open, was opened for a request, and the data is not too long.
            Ok(unsafe { T::accept(self.raw(), data) }?)
        });
        match accepted {
            Ok(()) => Ok(self.into_state()),
            Err(error) => Err(Refused { what: self, error }),
        }
    }
}

impl<'q, 'd, T: Connected, B: Buffer> MsgEndpoint<'q, 'd, T, B, Connecting> {
    /// What the peer gave to accept, if the event is about this endpoint. On the accepting side nothing comes along.
    #[must_use]
    pub fn answer<'a>(&self, event: &'a ConnectedEvent) -> &'a [u8] {
        if self.is_meant(event) && !self.accepts { event.data() } else { &[] }
    }

    /// Whether an event is about this endpoint.
    fn is_meant(&self, event: &ConnectedEvent) -> bool {
        event.endpoint() == self.fid && event.seen().is_since(self.opened)
    }

    /// The connected endpoint, if the event is about this one.
    ///
    /// # Errors
    /// The endpoint as it was, if the event is about another: an earlier one with the same [`fid`](Self::fid), for example.
    #[expect(clippy::result_large_err, reason = "there is no allocator to box the endpoint with")]
    pub fn established(self, event: &ConnectedEvent) -> Result<MsgEndpoint<'q, 'd, T, B, Established>, Self> {
        if self.is_meant(event) { Ok(self.into_state()) } else { Err(self) }
    }
}

impl<T: Connected, B: Buffer> MsgEndpoint<'_, '_, T, B, Established> {
    /// Ends the connection: the peer's event queue reports it. Operations in flight complete with an error, or come back
    /// when the endpoint is dropped; what was sent before arrives, if the provider says so.
    ///
    /// # Errors
    /// The provider's; `EOPNOTSUPP` over `sockets`, which would close a foreign file descriptor afterwards, and libfabric 1's
    /// `net` and `tcp`, which would free reads twice, and over providers that are not tested: dropping the endpoint ends the connection
    /// there.
    #[doc(alias = "fi_shutdown")]
    pub fn shutdown(&self) -> Result<(), Errno> {
        // SAFETY: the endpoint is open and was connected.
        unsafe { T::shutdown(self.raw()) }
    }

    /// The peer's address.
    ///
    /// # Errors
    /// The provider's: `ENOTCONN`, for example, if the connection has ended.
    #[doc(alias = "fi_getpeer")]
    pub fn peer_address(&self) -> Result<EndpointAddr, Errno> {
        // SAFETY: the endpoint is open and was connected.
        unsafe { T::peer_address(self.raw()) }
    }
}

impl<T: Connected, B: Buffer, S> fmt::Debug for MsgEndpoint<'_, '_, T, B, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MsgEndpoint").field("fid", &self.fid).field("port", &self.port).finish_non_exhaustive()
    }
}
