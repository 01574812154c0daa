//! [`EqEvent`]: what an event queue tells.

use core::fmt;

use super::{ConnectionRequest, EqEntry, Fid, Moment};
use crate::transport::Connected;
use crate::transport::connected::Fault;
use crate::vocabulary::{CmData, Errno, EventKind};

/// An event.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::endpoint::{Connecting, Established};
/// use loom_core::transport::Connected;
/// use loom_core::{Deadline, Eq, EqEvent, Errno, Error, MsgEndpoint};
///
/// /// Waits until an endpoint is connected. Events of other endpoints are dropped here.
/// fn established<'m, T: Connected>(
///     eq: &Eq<'m, T>,
///     mut endpoint: MsgEndpoint<'m, T, Vec<u8>, Connecting>,
///     mut until: impl Deadline,
/// ) -> Result<MsgEndpoint<'m, T, Vec<u8>, Established>, Error> {
///     while !until.passed() {
///         match eq.poll()? {
///             Some(EqEvent::Connected(event)) => match endpoint.established(&event) {
///                 Ok(established) => return Ok(established),
///                 Err(other) => endpoint = other,
///             },
///             Some(EqEvent::Failed(failure)) if failure.is_of(&endpoint) => return Err(failure.into()),
///             Some(EqEvent::Shutdown(event)) if event.is_of(&endpoint) => return Err(Errno::ENOTCONN.into()),
///             _ => {}
///         }
///     }
///     Err(Errno::ETIMEDOUT.into())
/// }
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "there is no allocator to box a request with")]
pub enum EqEvent<'m, T: Connected> {
    /// A peer wants to connect to a passive endpoint of this queue. Dropping the request rejects it.
    #[doc(alias = "FI_CONNREQ")]
    Request(ConnectionRequest<'m, T>),
    /// An endpoint is connected: see
    /// [`MsgEndpoint::established`](crate::endpoint::MsgEndpoint::established).
    #[doc(alias = "FI_CONNECTED")]
    Connected(ConnectedEvent),
    /// An endpoint is not connected any more, because the peer has shut the connection down, or closed its endpoint, or is
    /// gone. Some providers tell of one's own shutdown too. Of an endpoint that is still connecting it says that the attempt has failed: `tcp` says so
    /// of some attempts, and not [`Failed`](Self::Failed).
    #[doc(alias = "FI_SHUTDOWN")]
    Shutdown(ShutdownEvent),
    /// An endpoint is in a multicast group: see
    /// [`MulticastGroup::joined`](crate::endpoint::MulticastGroup::joined).
    #[doc(alias = "FI_JOIN_COMPLETE")]
    Joined(JoinedEvent),
    /// Something failed: an attempt to connect, for example, that the peer has rejected, or to join a group.
    #[doc(alias = "fi_eq_err_entry")]
    Failed(Failure),
    /// The end of an operation which reports through event queues, or something that the application wrote.
    #[doc(alias = "fi_eq_entry")]
    Entry(EqEntry),
    /// An event of a kind that loom does not know, or of a form that its kind does not have.
    Other {
        /// The kind.
        kind: EventKind,
        /// Its bytes, as far as they fit.
        data: CmData,
    },
}

/// Which endpoint an event is about: its [`Fid`], and when it was opened.
///
/// A [`Fid`] is an address, which comes again after an endpoint was closed. An event that the queue read before an endpoint was opened is not about
/// that endpoint, whatever its address. An event of an earlier endpoint that the provider delivers later cannot be told apart; the tested
/// providers remove an endpoint's events when it is closed.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::eq::{EndpointId, ShutdownEvent};
///
/// /// Removes the connection that has ended from a server's table, and returns its name.
/// fn ended(connections: &mut Vec<(EndpointId, String)>, event: &ShutdownEvent) -> Option<String> {
///     let place = connections.iter().position(|(id, _)| event.is_of(*id))?;
///     Some(connections.swap_remove(place).1)
/// }
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct EndpointId {
    pub(crate) fid: Fid,
    /// In the time of the endpoint's event queue.
    pub(crate) opened: Moment,
}

impl EndpointId {
    /// What events name the endpoint by, as long as it is open.
    #[must_use]
    pub const fn fid(&self) -> Fid {
        self.fid
    }

    /// Whether an event that names this object, and was read at this moment, is about the endpoint.
    fn has(self, object: Fid, seen: Moment) -> bool {
        self.fid == object && seen.is_since(self.opened)
    }
}

/// An endpoint is connected. What the peer gave to accept is
/// [`MsgEndpoint::answer`](crate::endpoint::MsgEndpoint::answer).
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::endpoint::{Connecting, Established};
/// use loom_core::eq::ConnectedEvent;
/// use loom_core::transport::Connected;
/// use loom_core::MsgEndpoint;
///
/// /// Takes the endpoint that is connected now out of those that a program connects at the same time.
/// fn connected<'m, T: Connected>(
///     connecting: &mut Vec<MsgEndpoint<'m, T, Vec<u8>, Connecting>>,
///     event: &ConnectedEvent,
/// ) -> Option<MsgEndpoint<'m, T, Vec<u8>, Established>> {
///     let place = connecting.iter().position(|endpoint| event.is_of(endpoint))?;
///     connecting.swap_remove(place).established(event).ok()
/// }
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct ConnectedEvent {
    pub(super) endpoint: Fid,
    pub(super) seen: Moment,
    pub(super) data: CmData,
}

impl ConnectedEvent {
    /// Which endpoint.
    #[must_use]
    pub const fn endpoint(&self) -> Fid {
        self.endpoint
    }

    /// Whether it is about this endpoint (`&endpoint`, or its [`id`](crate::endpoint::MsgEndpoint::id)), and was not read before that was opened
    /// ([`EndpointId`]).
    #[must_use]
    pub fn is_of(&self, endpoint: impl Into<EndpointId>) -> bool {
        endpoint.into().has(self.endpoint, self.seen)
    }

    /// What came with it, which means something on the side that has connected only.
    pub(crate) fn data(&self) -> &[u8] {
        &self.data
    }
}

/// Without the data, which is anything at all on the side that has accepted.
impl fmt::Debug for ConnectedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectedEvent").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// An endpoint is not connected any more, or could not be connected.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::eq::ShutdownEvent;
/// use loom_core::transport::Connected;
/// use loom_core::MsgEndpoint;
///
/// /// Drops the endpoints whose connection has ended.
/// fn keep_open<T: Connected>(endpoints: &mut Vec<MsgEndpoint<'_, T, Vec<u8>>>, event: &ShutdownEvent) {
///     endpoints.retain(|endpoint| !event.is_of(endpoint));
/// }
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ShutdownEvent {
    pub(super) endpoint: Fid,
    pub(super) seen: Moment,
}

impl ShutdownEvent {
    /// Which endpoint. An earlier one may have had the same address: [`is_of`](Self::is_of) tells them apart.
    #[must_use]
    pub const fn endpoint(&self) -> Fid {
        self.endpoint
    }

    /// Whether it is about this endpoint, as [`ConnectedEvent::is_of`].
    #[must_use]
    pub fn is_of(&self, endpoint: impl Into<EndpointId>) -> bool {
        endpoint.into().has(self.endpoint, self.seen)
    }
}

/// An endpoint is in a multicast group.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::endpoint::{Joining, MulticastGroup};
/// use loom_core::eq::JoinedEvent;
/// use loom_core::transport::Multicast;
///
/// /// Moves the group that the event is about from the groups that a program joins to those that it is in.
/// fn sort<'m, T: Multicast>(
///     joining: &mut Vec<MulticastGroup<'m, T, Vec<u8>, Joining>>,
///     joined: &mut Vec<MulticastGroup<'m, T, Vec<u8>>>,
///     event: &JoinedEvent,
/// ) {
///     if let Some(place) = joining.iter().position(|group| group.fid() == event.group()) {
///         match joining.swap_remove(place).joined(event) {
///             Ok(group) => joined.push(group),
///             Err(group) => joining.push(group),
///         }
///     }
/// }
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct JoinedEvent {
    pub(super) group: Fid,
    pub(super) context: u64,
}

impl JoinedEvent {
    /// Which group.
    #[must_use]
    pub const fn group(&self) -> Fid {
        self.group
    }

    /// What was given to join.
    pub(crate) const fn context(&self) -> u64 {
        self.context
    }
}

/// What failed.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::eq::Failure;
/// use loom_core::transport::Connected;
/// use loom_core::{Eq, Errno};
///
/// /// What a client reports when it could not connect: a server that rejects may have given a reason as data.
/// fn report<T: Connected>(eq: &Eq<'_, T>, failure: &Failure) -> String {
///     match failure.errno() {
///         Errno::ECONNREFUSED if failure.data().is_empty() => "no server listens there".into(),
///         Errno::ECONNREFUSED => format!("rejected: {}", String::from_utf8_lossy(failure.data())),
///         _ => format!("{failure} ({})", eq.error_text(failure)),
///     }
/// }
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    pub(super) fault: Fault,
    pub(super) seen: Moment,
    pub(super) data: CmData,
}

impl Failure {
    /// The object that it was about: an endpoint, if a connection failed, or a multicast group. An earlier one may have had the same address.
    #[must_use]
    pub const fn object(&self) -> Fid {
        self.fault.object
    }

    /// Whether it is about this endpoint, as [`ConnectedEvent::is_of`].
    #[must_use]
    pub fn is_of(&self, endpoint: impl Into<EndpointId>) -> bool {
        endpoint.into().has(self.fault.object, self.seen)
    }

    /// The reason: `ECONNREFUSED` if the peer has rejected, or no endpoint listens there.
    #[must_use]
    pub const fn errno(&self) -> Errno {
        self.fault.errno
    }

    /// The provider's own data: what the peer gave to reject.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The provider's whole entry.
    #[must_use]
    pub const fn fault(&self) -> &Fault {
        &self.fault
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an operation on an object failed: {}", self.fault.errno)
    }
}

impl core::error::Error for Failure {}
