use core::fmt;

use super::{ConnectionRequest, EqEntry, Fid, Moment};
use crate::any_error::Error;
use crate::error::{OpenError, Rejected};
use crate::transport::Connected;
use crate::transport::connected::Fault;
use crate::util::debug::debug_struct;
use crate::vocabulary::{CmData, EventKind};

/// Event of an event queue.
///
/// ```
/// use loom_core::{EventQueue, EqEvent, Error, MsgEndpoint, endpoint::Connecting, eq::ConnectedEvent, transport::Connected};
///
/// /// Waits until an endpoint is connected. Drops the events of other endpoints.
/// fn wait<T: Connected>(eq: &EventQueue<'_, T>, of: &MsgEndpoint<'_, T, Vec<u8>, Connecting>) -> Result<ConnectedEvent, Error> {
///     loop {
///         match eq.poll()? {
///             Some(EqEvent::Connected(event)) if event.is_of(of) => return Ok(event),
///             Some(EqEvent::Failed(failure)) if failure.is_of(of) => return Err(failure.into()),
///             _ => {}
///         }
///     }
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "there is no allocator to box a request with")]
pub enum EqEvent<'m, T: Connected> {
    /// A peer requests a connection. Dropping the request rejects it.
    #[doc(alias = "FI_CONNREQ")]
    Request(ConnectionRequest<'m, T>),
    /// An endpoint is connected. See
    /// [`MsgEndpoint::established`](crate::endpoint::MsgEndpoint::established).
    #[doc(alias = "FI_CONNECTED")]
    Connected(ConnectedEvent),
    /// An endpoint is disconnected by the peer. Some providers also report this side's shutdown.
    /// For a connecting endpoint, the attempt has failed: `tcp` reports some failures so, instead
    /// of [`Failed`](Self::Failed).
    #[doc(alias = "FI_SHUTDOWN")]
    Shutdown(ShutdownEvent),
    /// An endpoint has joined a multicast group. See
    /// [`MulticastGroup::joined`](crate::endpoint::MulticastGroup::joined).
    #[doc(alias = "FI_JOIN_COMPLETE")]
    Joined(JoinedEvent),
    /// A failure, for example a rejected connection or a failed join.
    #[doc(alias = "fi_eq_err_entry")]
    Failed(Failure),
    /// Completion of an operation that reports through event queues, or an entry written by the
    /// application.
    #[doc(alias = "fi_eq_entry")]
    Entry(EqEntry),
    /// An event of an unknown kind, or malformed.
    Other {
        /// Kind of the event.
        kind: EventKind,
        /// Bytes of the event, as far as they fit.
        data: CmData,
    },
}

/// Identifies the endpoint of an event by its [`Fid`] and the moment when it was opened.
///
/// A [`Fid`] may be reused after an endpoint closes. An event read before an endpoint was opened
/// never concerns it.
///
/// ```
/// use loom_core::eq::{EndpointId, ShutdownEvent};
///
/// /// Removes the connection that has ended from a server's table, and returns its name.
/// fn ended(connections: &mut Vec<(EndpointId, String)>, event: &ShutdownEvent) -> Option<String> {
///     let place = connections.iter().position(|(id, _)| event.is_of(*id))?;
///     Some(connections.swap_remove(place).1)
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct EndpointId {
    /// Identifier of the endpoint in events while it is open.
    pub fid: Fid,
    /// In the event queue's time.
    pub(crate) opened: Moment,
}

impl EndpointId {
    fn has(self, object: Fid, seen: Moment) -> bool {
        self.fid == object && seen.is_since(self.opened)
    }
}

/// Reports that an endpoint is connected.
/// [`MsgEndpoint::answer`](crate::endpoint::MsgEndpoint::answer) returns the peer's data.
///
/// ```
/// use loom_core::{MsgEndpoint, endpoint::{Connecting, Established}, eq::ConnectedEvent, transport::Connected};
///
/// /// Takes the endpoint that is connected now out of those that a program connects at the same time.
/// fn connected<'m, T: Connected>(
///     connecting: &mut Vec<MsgEndpoint<'m, T, Vec<u8>, Connecting>>,
///     event: &ConnectedEvent,
/// ) -> Option<MsgEndpoint<'m, T, Vec<u8>, Established>> {
///     let place = connecting.iter().position(|endpoint| event.is_of(endpoint))?;
///     connecting.swap_remove(place).established(event).ok()
/// }
/// ```
#[derive(Clone, Copy)]
pub struct ConnectedEvent {
    // Private: the event proves that the endpoint is connected.
    pub(super) endpoint: Fid,
    pub(super) seen: Moment,
    pub(super) data: CmData,
}

impl ConnectedEvent {
    /// The endpoint.
    #[must_use]
    pub const fn endpoint(&self) -> Fid {
        self.endpoint
    }

    /// Returns `true` if the event concerns this endpoint (`&endpoint` or its
    /// [`id`](crate::endpoint::MsgEndpoint::id)).
    #[must_use]
    pub fn is_of(&self, endpoint: impl Into<EndpointId>) -> bool {
        endpoint.into().has(self.endpoint, self.seen)
    }

    pub(crate) fn data(&self) -> &[u8] {
        &self.data
    }
}

debug_struct!(ConnectedEvent, |it| endpoint: it.endpoint);

/// Reports that an endpoint is disconnected, or could not be connected.
///
/// ```
/// use loom_core::{MsgEndpoint, eq::ShutdownEvent, transport::Connected};
///
/// /// Drops the endpoints whose connection has ended.
/// fn keep_open<T: Connected>(endpoints: &mut Vec<MsgEndpoint<'_, T, Vec<u8>>>, event: &ShutdownEvent) {
///     endpoints.retain(|endpoint| !event.is_of(endpoint));
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ShutdownEvent {
    /// The endpoint, or an earlier one with the same address.
    pub endpoint: Fid,
    pub(super) seen: Moment,
}

impl ShutdownEvent {
    /// Returns `true` if the event concerns this endpoint, like [`ConnectedEvent::is_of`].
    #[must_use]
    pub fn is_of(&self, endpoint: impl Into<EndpointId>) -> bool {
        endpoint.into().has(self.endpoint, self.seen)
    }
}

/// Reports that an endpoint has joined a multicast group.
///
/// ```
/// use loom_core::{endpoint::{Joining, MulticastGroup}, eq::JoinedEvent, transport::Multicast};
///
/// /// Takes the joined group out of the groups that a program joins.
/// fn joined<'m, T: Multicast>(
///     joining: &mut Vec<MulticastGroup<'m, T, Vec<u8>, Joining>>, event: &JoinedEvent,
/// ) -> Option<MulticastGroup<'m, T, Vec<u8>>> {
///     let index = joining.iter().position(|group| group.fid() == event.group())?;
///     joining.swap_remove(index).joined(event).ok()
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct JoinedEvent {
    pub(super) group: Fid,
    pub(crate) context: u64,
}

impl JoinedEvent {
    /// The group.
    #[must_use]
    pub const fn group(&self) -> Fid {
        self.group
    }
}

/// A failed operation.
///
/// ```
/// use loom_core::{EventQueue, Errno, eq::Failure, transport::Connected};
///
/// /// What a client reports when it could not connect: a server that rejects may have given a reason as data.
/// fn report<T: Connected>(eq: &EventQueue<'_, T>, failure: &Failure) -> String {
///     match failure.fault.errno {
///         Errno::ECONNREFUSED if failure.data.is_empty() => "no server listens there".into(),
///         Errno::ECONNREFUSED => format!("rejected: {}", String::from_utf8_lossy(&failure.data)),
///         _ => format!("{failure} ({})", eq.error_text(failure)),
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// The provider's entry. The error is `ECONNREFUSED` if the peer has rejected, or does not
    /// listen.
    pub fault: Fault,
    pub(super) seen: Moment,
    /// Data of the peer's rejection, from the provider.
    pub data: CmData,
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Error::Open(failure.into())
    }
}

impl Failure {
    /// Returns `true` if the failure concerns this endpoint, like [`ConnectedEvent::is_of`].
    #[must_use]
    pub fn is_of(&self, endpoint: impl Into<EndpointId>) -> bool {
        endpoint.into().has(self.fault.object, self.seen)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an operation on an object failed: {}", self.fault.errno)
    }
}

impl From<Failure> for OpenError {
    fn from(failure: Failure) -> Self {
        OpenError::Unconnected(failure.fault.errno)
    }
}

impl From<OpenError> for Rejected<Option<Failure>, OpenError> {
    fn from(error: OpenError) -> Self {
        Rejected { value: None, error: error.of_connection() }
    }
}

impl From<Failure> for Rejected<Option<Failure>, OpenError> {
    fn from(failure: Failure) -> Self {
        Rejected { value: Some(failure), error: failure.into() }
    }
}
