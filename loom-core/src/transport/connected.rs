//! [`Connected`]: transports with connection-oriented endpoints and event queues.

use core::ffi::c_int;

use super::{EndpointError, Transport};
use crate::vocabulary::{CmData, Counted, EndpointAddr, Errno, EventKind, OptionValue, WaitObj};

/// Identity of an open object in events: the address of its `struct fid`.
///
/// ```
/// use std::collections::HashMap;
/// use loom_core::{EqEvent, transport::{Connected, connected::Fid}};
///
/// /// Removes the connection that an event says is over. Connections are found by their endpoint's `fid`.
/// fn ended<T: Connected, C>(connections: &mut HashMap<Fid, C>, event: &EqEvent<'_, T>) -> Option<C> {
///     match event {
///         EqEvent::Shutdown(event) => connections.remove(&event.endpoint),
///         _ => None,
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "fid_t")]
pub struct Fid(pub u64);

/// Attributes of an event queue.
///
/// ```
/// use loom_core::{Domain, EventQueue, EqAttr, Error, WaitObj, transport::Connected};
///
/// /// Opens a queue with a descriptor to sleep on, which takes events of the program, too.
/// fn open<'m, T: Connected>(domain: &Domain<'m, T>) -> Result<EventQueue<'m, T>, Error> {
///     Ok(EventQueue::open(domain, EqAttr { wait: WaitObj::FD, write: true, ..EqAttr::default() })?)
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
#[doc(alias = "fi_eq_attr")]
pub struct EqAttr {
    /// Minimum number of events. Zero leaves it to the provider.
    pub size: usize,
    /// Object to sleep on until an event arrives.
    pub wait: WaitObj,
    /// `true` if the application writes its own events.
    #[doc(alias = "FI_WRITE")]
    pub write: bool,
}

/// Event as a transport reports it.
#[derive(Debug)]
pub enum Notice<T: Connected> {
    /// [`EventKind::CONNREQ`]: to be accepted with an endpoint, or rejected.
    Request {
        /// The passive endpoint.
        listener: Fid,
        /// Info to open the endpoint from.
        info: T::Info,
        /// Handle of the request.
        request: T::Request,
    },
    /// [`EventKind::CONNECTED`]
    Connected(Fid),
    /// [`EventKind::SHUTDOWN`]
    Shutdown(Fid),
    /// [`EventKind::JOIN_COMPLETE`]: the endpoint is in the group.
    Joined {
        /// The group.
        group: Fid,
        /// Context given to the join.
        context: u64,
    },
    /// An operation on an object completed, or the application wrote an event.
    Entry(EqEntry),
    /// An operation on an object failed, and the provider reports it like a success.
    Failed(Fault),
    /// Event of another kind, or with a form unlike its kind.
    Other(EventKind),
}

/// `fi_eq_entry`
///
/// ```
/// use loom_core::{transport::connected::{EqEntry, Fid}, vocabulary::EventKind};
///
/// /// The number that the program gave to `EventQueue::notify`, if the entry is its own.
/// fn notified(entry: &EqEntry) -> Option<u64> {
///     (entry.kind == EventKind::NOTIFY).then_some(entry.context)
/// }
///
/// let entry = EqEntry { kind: EventKind::NOTIFY, object: Fid(0), context: 7, data: 0 };
/// assert_eq!(notified(&entry), Some(7));
/// assert_eq!(notified(&EqEntry { kind: EventKind::AV_COMPLETE, ..entry }), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "fi_eq_entry")]
pub struct EqEntry {
    /// Kind of event.
    pub kind: EventKind,
    /// Object of the event.
    pub object: Fid,
    /// Context given to the operation.
    pub context: u64,
    /// Value that depends on the kind, for example the number of inserted addresses.
    pub data: u64,
}

/// Failed operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "fi_eq_err_entry")]
pub struct Fault {
    /// The object.
    pub object: Fid,
    /// Context given to the operation.
    pub context: u64,
    /// Value that depends on the operation, for example the index of an address.
    pub data: u64,
    /// Cause, never zero.
    pub errno: Errno,
    /// The provider's own error number.
    pub provider_errno: i32,
}

/// A transport with connection-oriented endpoints (`FI_EP_MSG`).
///
/// ```
/// use loom_core::{EndpointAddr, EventQueue, Error, Info, eq::PassiveEndpoint, transport::Connected};
///
/// /// Listens over any transport that has connections, and returns the address for the peers.
/// fn listen<'m, T: Connected>(
///     eq: &EventQueue<'m, T>,
///     info: &Info<T>,
/// ) -> Result<(PassiveEndpoint<'m, T>, EndpointAddr), Error> {
///     let passive = eq.listen(info)?;
///     let address = passive.address()?;
///     Ok((passive, address))
/// }
/// ```
///
/// # Contract of callers
///
/// [H1 to H4, T1 to T3, N1, N2, L1 to L4, O1 to O3, M1 to M3, E1, E2](super#contract-of-callers).
///
/// # Safety
///
/// The promises of [`Transport`], and [P10 and P11](super#promises-of-implementations).
pub unsafe trait Connected: Transport {
    /// `fid_eq`
    type Eq;
    /// `fid_pep`
    type PassiveEndpoint;
    /// Connection request of a peer (`fi_info.handle`), until accepted or rejected.
    type Request;

    /// `fi_eq_open` on the fabric of a domain.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn eq_open(domain: &Self::Domain, attr: EqAttr) -> Result<Self::Eq, Errno>;
    /// `fi_close` of an event queue.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn eq_close(eq: &Self::Eq) -> Result<(), Errno>;
    /// `fi_eq_read`, or `fi_eq_sread` with a maximum time to sleep in milliseconds. Writes the data
    /// of the event to `data`.
    ///
    /// # Errors
    /// `EAVAIL` if the next event is available from [`eq_read_error`](Self::eq_read_error). Other
    /// errors are of the queue.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn eq_read(eq: &Self::Eq, sleep: Option<i32>, data: &mut CmData) -> Result<Option<Notice<Self>>, Errno>;
    /// `fi_eq_readerr`. Writes the provider's own data to `data`.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn eq_read_error(eq: &Self::Eq, data: &mut CmData) -> Result<Option<Fault>, Errno>;
    /// `fi_eq_strerror`: writes the provider's error text and returns its length in bytes.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn eq_error_text(eq: &Self::Eq, provider_errno: i32, data: &CmData, out: &mut [u8]) -> usize;
    /// `fi_eq_write` of an [`EventKind::NOTIFY`].
    ///
    /// # Safety
    /// Contract of callers. The queue was opened for writing.
    unsafe fn eq_notify(eq: &Self::Eq, context: u64, data: u64) -> Result<(), Errno>;
    /// `fi_control` with `FI_GETWAIT`: file descriptor, readable when the queue may have an event.
    ///
    /// # Safety
    /// Contract of callers. The queue was opened with a file descriptor.
    unsafe fn eq_wait_fd(eq: &Self::Eq) -> Result<c_int, Errno>;
    /// `fi_trywait`: `true` if sleeping on the file descriptor now misses no event.
    ///
    /// # Safety
    /// Contract of callers. The queue was opened with a file descriptor, on `domain`.
    unsafe fn eq_may_sleep(domain: &Self::Domain, eq: &Self::Eq) -> Result<bool, Errno>;

    /// `fi_passive_ep`, `fi_pep_bind` and `fi_listen`.
    ///
    /// # Safety
    /// Contract of callers. The queue belongs to `domain`.
    unsafe fn passive_open(
        domain: &Self::Domain,
        info: &Self::Info,
        eq: &Self::Eq,
    ) -> Result<Self::PassiveEndpoint, EndpointError>;
    /// `fi_close` of a passive endpoint.
    ///
    /// # Safety
    /// Contract of callers. Requests to it are not used any more.
    unsafe fn passive_close(passive: &Self::PassiveEndpoint) -> Result<(), Errno>;
    /// Identity of a passive endpoint in events.
    fn passive_fid(passive: &Self::PassiveEndpoint) -> Fid;
    /// `fi_getname`
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn passive_address(passive: &Self::PassiveEndpoint) -> Result<EndpointAddr, Errno>;
    /// Maximum number of bytes in a rejection (`FI_OPT_CM_DATA_SIZE`).
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn passive_cm_data_size(passive: &Self::PassiveEndpoint) -> Result<usize, Errno>;
    /// `fi_reject`
    ///
    /// # Safety
    /// Contract of callers. The request was made to this endpoint, and `data` does not exceed the
    /// maximum of a rejection.
    unsafe fn reject(passive: &Self::PassiveEndpoint, request: Self::Request, data: &[u8]) -> Result<(), Errno>;

    /// `fi_srx_context`: opens a shared receive context. Its endpoints complete receives into `rx`.
    ///
    /// # Safety
    /// Contract of callers. It is closed after the endpoints that receive through it, which
    /// complete into this queue.
    unsafe fn shared_rx_open(
        domain: &Self::Domain,
        info: &Self::Info,
        rx: &Self::Cq,
    ) -> Result<Self::Endpoint, EndpointError>;
    /// `fi_endpoint`, `fi_ep_bind` and `fi_enable` of an endpoint to be connected, or that takes
    /// and accepts a request.
    ///
    /// # Safety
    /// Contract of callers. The queues belong to `domain`.
    unsafe fn msg_endpoint_open(
        domain: &Self::Domain,
        info: &Self::Info,
        request: &mut Option<Self::Request>,
        bind: MsgBindings<'_, Self>,
    ) -> Result<Self::Endpoint, EndpointError>;
    /// Identity of an endpoint in events.
    fn endpoint_fid(endpoint: &Self::Endpoint) -> Fid;
    /// `fi_connect`
    ///
    /// # Safety
    /// Contract of callers. `data` does not exceed the maximum of the provider.
    unsafe fn connect(endpoint: &Self::Endpoint, to: &EndpointAddr, data: &[u8]) -> Result<(), Errno>;
    /// `fi_accept`
    ///
    /// # Safety
    /// Contract of callers. The endpoint was opened for a request, and `data` does not exceed the
    /// maximum of the provider.
    unsafe fn accept(endpoint: &Self::Endpoint, data: &[u8]) -> Result<(), Errno>;
    /// `fi_shutdown`
    ///
    /// # Safety
    /// Contract of callers. The endpoint was connected.
    unsafe fn shutdown(endpoint: &Self::Endpoint) -> Result<(), Errno>;
    /// `fi_getpeer`
    ///
    /// # Safety
    /// Contract of callers. The endpoint was connected.
    unsafe fn peer_address(endpoint: &Self::Endpoint) -> Result<EndpointAddr, Errno>;
}

/// Objects and options of a connection-oriented endpoint, bound before it is enabled.
#[derive(Debug)]
pub struct MsgBindings<'a, T: Connected> {
    /// Queue of transmit completions.
    pub tx: &'a T::Cq,
    /// Queue of receive completions and peers' events, possibly `tx`.
    pub rx: &'a T::Cq,
    /// Queue of connection events.
    pub eq: &'a T::Eq,
    /// Shared receive context, if the endpoint does not receive by itself.
    pub shared_rx: Option<&'a T::Endpoint>,
    /// Counters, each kind once.
    pub counters: &'a [(Counted, &'a T::Counter)],
    /// Selective completion, see [`Bindings`](super::Bindings::selective).
    pub selective: bool,
    /// Options by number, set before the endpoint is enabled.
    pub options: &'a [(u32, OptionValue)],
}
