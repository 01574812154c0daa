//! [`Connected`]: transports with endpoints that have to be connected, and the event queues that tell of it.

use core::ffi::c_int;

use super::{EndpointError, Transport};
use crate::vocabulary::{CmData, Counted, EndpointAddr, Errno, EventKind, OptionValue, WaitObj};

/// Tells an open object from every other one that is open: what an event is about. The address of its `struct fid`.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use std::collections::HashMap;
///
/// use loom_core::EqEvent;
/// use loom_core::transport::Connected;
/// use loom_core::transport::connected::Fid;
///
/// /// Removes the connection that an event says is over. Connections are found by their endpoint's `fid`.
/// fn ended<T: Connected, C>(connections: &mut HashMap<Fid, C>, event: &EqEvent<'_, T>) -> Option<C> {
///     match event {
///         EqEvent::Shutdown(event) => connections.remove(&event.endpoint()),
///         _ => None,
///     }
/// }
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "fid_t")]
pub struct Fid(u64);

impl Fid {
    /// The object with this address; nothing is done with the number but comparing it.
    #[must_use]
    pub const fn from_addr(addr: u64) -> Self {
        Fid(addr)
    }

    /// The object's address.
    #[must_use]
    pub const fn addr(self) -> u64 {
        self.0
    }
}

/// How an event queue is opened.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::vocabulary::WaitObj;
/// use loom_core::{Domain, Eq, EqAttr, Error, transport::Connected};
///
/// /// Opens a queue with a descriptor to sleep on, which takes events of the program, too.
/// fn open<'m, T: Connected>(domain: &Domain<'m, T>) -> Result<Eq<'m, T>, Error> {
///     Ok(Eq::open(domain, EqAttr { wait: WaitObj::FD, write: true, ..EqAttr::default() })?)
/// }
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
#[doc(alias = "fi_eq_attr")]
pub struct EqAttr {
    /// For how many events there has to be room at least; zero leaves it to the provider.
    pub size: usize,
    /// What to sleep on until there is something.
    pub wait: WaitObj,
    /// Whether the application writes events of its own; not every provider lets it.
    #[doc(alias = "FI_WRITE")]
    pub write: bool,
}

/// One event, as a transport reports it. Data that came with it goes elsewhere.
#[derive(Debug)]
pub enum Notice<T: Connected> {
    /// [`EventKind::CONNREQ`]: accepted with an endpoint, or rejected.
    Request {
        /// The passive endpoint.
        listener: Fid,
        /// What the endpoint is to be opened from.
        info: T::Info,
        /// What names the request to the provider.
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
        /// What was given to join.
        context: u64,
    },
    /// The end of an operation on an object, or something that the application wrote.
    Entry(EqEntry),
    /// An operation on an object failed, where the provider reports that like a success.
    Failed(Fault),
    /// An event of another kind, or in another form than its kind has; its bytes are data.
    Other(EventKind),
}

/// `fi_eq_entry`
///
/// ```
/// use loom_core::transport::connected::{EqEntry, Fid};
/// use loom_core::vocabulary::EventKind;
///
/// /// The number that the program gave to `Eq::notify`, if the entry is its own.
/// fn notified(entry: &EqEntry) -> Option<u64> {
///     (entry.kind == EventKind::NOTIFY).then_some(entry.context)
/// }
///
/// let entry = EqEntry { kind: EventKind::NOTIFY, object: Fid::from_addr(0), context: 7, data: 0 };
/// assert_eq!(notified(&entry), Some(7));
/// assert_eq!(notified(&EqEntry { kind: EventKind::AV_COMPLETE, ..entry }), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "fi_eq_entry")]
pub struct EqEntry {
    /// What has ended.
    pub kind: EventKind,
    /// The object it was about.
    pub object: Fid,
    /// What was given to the operation.
    pub context: u64,
    /// What the kind says: how many addresses were inserted, for example.
    pub data: u64,
}

/// An operation on an object that failed; the provider's own data goes elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "fi_eq_err_entry")]
pub struct Fault {
    /// The object.
    pub object: Fid,
    /// What was given to the operation.
    pub context: u64,
    /// What the operation says: the index of an address, for example.
    pub data: u64,
    /// The reason; never zero.
    pub errno: Errno,
    /// The provider's own number.
    pub provider_errno: i32,
}

/// A transport with connection-oriented endpoints (`FI_EP_MSG`).
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::eq::PassiveEndpoint;
/// use loom_core::transport::Connected;
/// use loom_core::{EndpointAddr, Eq, Error, Info};
///
/// /// Listens over any transport that has connections, and returns the address for the peers.
/// fn listen<'m, T: Connected>(
///     eq: &Eq<'m, T>,
///     info: &Info<T>,
/// ) -> Result<(PassiveEndpoint<'m, T>, EndpointAddr), Error> {
///     let passive = eq.listen(info)?;
///     let address = passive.address()?;
///     Ok((passive, address))
/// }
/// # }
/// ```
///
/// # Contract of callers
///
/// [C1 to C21](super#contract-of-callers).
///
/// # Safety
///
/// Implementations promise what [`Transport`] does, and [P9 and P10](super#promises-of-implementations).
pub unsafe trait Connected: Transport {
    /// `fid_eq`
    type Eq;
    /// `fid_pep`
    type PassiveEndpoint;
    /// A peer's wish to connect (`fi_info.handle`), until it was accepted or rejected.
    type Request;

    /// `fi_eq_open` on the fabric of a domain.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn eq_open(domain: &Self::Domain, attr: EqAttr) -> Result<Self::Eq, Errno>;
    /// `fi_close` of an event queue.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn eq_close(eq: &Self::Eq) -> Result<(), Errno>;
    /// `fi_eq_read`; with a number of milliseconds `fi_eq_sread`, which sleeps so long at most. What came with the event is
    /// written to `data`.
    ///
    /// # Errors
    /// `EAVAIL` if the next event is to be had from [`eq_read_error`](Self::eq_read_error); anything else is an error of the
    /// queue itself.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn eq_read(eq: &Self::Eq, sleep: Option<i32>, data: &mut CmData) -> Result<Option<Notice<Self>>, Errno>;
    /// `fi_eq_readerr`; the provider's own data is written to `data`.
    ///
    /// # Errors
    /// One of the queue itself.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn eq_read_error(eq: &Self::Eq, data: &mut CmData) -> Result<Option<Fault>, Errno>;
    /// `fi_eq_strerror`: writes the provider's text for its own error number, and returns how many bytes it wrote.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn eq_error_text(eq: &Self::Eq, provider_errno: i32, data: &CmData, out: &mut [u8]) -> usize;
    /// `fi_eq_write` of an [`EventKind::NOTIFY`].
    ///
    /// # Safety
    /// The contract of callers; the queue was opened for writing.
    unsafe fn eq_notify(eq: &Self::Eq, context: u64, data: u64) -> Result<(), Errno>;
    /// The file descriptor that is readable when the queue may have an event; `fi_control` with `FI_GETWAIT`.
    ///
    /// # Safety
    /// The contract of callers; the queue was opened with one.
    unsafe fn eq_wait_fd(eq: &Self::Eq) -> Result<c_int, Errno>;
    /// Whether nothing is lost by sleeping on the file descriptor now; `fi_trywait`.
    ///
    /// # Safety
    /// The contract of callers; the queue was opened with one, on `domain`.
    unsafe fn eq_may_sleep(domain: &Self::Domain, eq: &Self::Eq) -> Result<bool, Errno>;

    /// `fi_passive_ep`, `fi_pep_bind` and `fi_listen`. On error nothing is left open, or the error says so.
    ///
    /// # Safety
    /// The contract of callers; the queue is one of `domain`.
    unsafe fn passive_open(
        domain: &Self::Domain,
        info: &Self::Info,
        eq: &Self::Eq,
    ) -> Result<Self::PassiveEndpoint, EndpointError>;
    /// `fi_close` of a passive endpoint.
    ///
    /// # Safety
    /// The contract of callers; requests to it are not used any more.
    unsafe fn passive_close(passive: &Self::PassiveEndpoint) -> Result<(), Errno>;
    /// What its events name.
    fn passive_fid(passive: &Self::PassiveEndpoint) -> Fid;
    /// `fi_getname`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn passive_address(passive: &Self::PassiveEndpoint) -> Result<EndpointAddr, Errno>;
    /// How many bytes a rejection carries (`FI_OPT_CM_DATA_SIZE`).
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn passive_cm_data_size(passive: &Self::PassiveEndpoint) -> Result<usize, Errno>;
    /// `fi_reject`
    ///
    /// # Safety
    /// The contract of callers; the request was made to this endpoint, and `data` is not longer than what is carried.
    unsafe fn reject(passive: &Self::PassiveEndpoint, request: Self::Request, data: &[u8]) -> Result<(), Errno>;

    /// `fi_srx_context`: a shared receive context, on which receives are posted as on an endpoint, and whose endpoints
    /// complete receives into `rx`. On error nothing is left open, or the error says so.
    ///
    /// # Safety
    /// The contract of callers; it is closed after the endpoints that receive through it, which complete into this queue.
    unsafe fn shared_rx_open(
        domain: &Self::Domain,
        info: &Self::Info,
        rx: &Self::Cq,
    ) -> Result<Self::Endpoint, EndpointError>;
    /// `fi_endpoint`, `fi_ep_bind` and `fi_enable` of an endpoint that is to be connected, or that accepts a request, which it
    /// then takes. On error nothing is left open, or the error says so.
    ///
    /// # Safety
    /// The contract of callers; the queues belong to `domain`.
    unsafe fn msg_endpoint_open(
        domain: &Self::Domain,
        info: &Self::Info,
        request: &mut Option<Self::Request>,
        bind: MsgBindings<'_, Self>,
    ) -> Result<Self::Endpoint, EndpointError>;
    /// What its events name.
    fn endpoint_fid(endpoint: &Self::Endpoint) -> Fid;
    /// `fi_connect`
    ///
    /// # Safety
    /// The contract of callers; `data` is not longer than what is carried.
    unsafe fn connect(endpoint: &Self::Endpoint, to: &EndpointAddr, data: &[u8]) -> Result<(), Errno>;
    /// `fi_accept`
    ///
    /// # Safety
    /// The contract of callers; the endpoint was opened for a request, and `data` is not longer than what is carried.
    unsafe fn accept(endpoint: &Self::Endpoint, data: &[u8]) -> Result<(), Errno>;
    /// `fi_shutdown`
    ///
    /// # Safety
    /// The contract of callers; the endpoint was connected.
    unsafe fn shutdown(endpoint: &Self::Endpoint) -> Result<(), Errno>;
    /// `fi_getpeer`
    ///
    /// # Safety
    /// The contract of callers; the endpoint was connected.
    unsafe fn peer_address(endpoint: &Self::Endpoint) -> Result<EndpointAddr, Errno>;
}

/// What a connection-oriented endpoint is bound to before it is enabled.
#[derive(Debug)]
pub struct MsgBindings<'a, T: Connected> {
    /// Where transmit completions go.
    pub tx: &'a T::Cq,
    /// Where receive completions and peers' events go; the same queue as `tx`, or another.
    pub rx: &'a T::Cq,
    /// Where events of the connection go.
    pub eq: &'a T::Eq,
    /// The shared receive context that it receives through, if it does not receive by itself.
    pub shared_rx: Option<&'a T::Endpoint>,
    /// What counts its operations, each kind once.
    pub counters: &'a [(Counted, &'a T::Counter)],
    /// As in [`Bindings`](super::Bindings::selective).
    pub selective: bool,
    /// Options that are set before it is enabled, by number.
    pub options: &'a [(u32, OptionValue)],
}
