//! [`PassiveEndpoint`], where peers connect to, and [`ConnectionRequest`], what they ask for.

#![allow(unsafe_code, reason = "opens and uses a raw handle")]

use core::fmt;

use super::{CmError, Eq, Fid, Refused};
use crate::error::OpenError;
use crate::info::Info;
use crate::transport::Connected;
use crate::vocabulary::{CmData, EndpointAddr, EndpointType, Errno};

/// A passive endpoint, which listens until its event queue is closed, of which it is a handle.
///
/// To stop listening earlier, give it an event queue of its own: endpoints of the requests may be bound to another.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::endpoint::Connecting;
/// use loom_core::transport::Connected;
/// use loom_core::{Cq, EndpointAddr, Eq, EqEvent, Error, Info, MsgEndpoint, ThePeer};
///
/// /// Listens, tells the address, and accepts the first peer.
/// fn accept_one<'m, T: Connected>(
///     (cq, eq): (&Cq<'m, T, Vec<u8>>, &Eq<'m, T>),
///     info: &Info<T>,
///     tell: impl FnOnce(EndpointAddr),
/// ) -> Result<MsgEndpoint<'m, T, Vec<u8>, Connecting>, Error> {
///     let passive = eq.listen(info)?;
///     tell(passive.address()?);
///     loop {
///         if let Some(EqEvent::Request(request)) = eq.poll()?
///             && request.listener() == passive.fid()
///         {
///             let endpoint = request.endpoint(cq, eq)?;
///             endpoint.recv(ThePeer, vec![0; 64])?;
///             // The queue says when the endpoint is connected: `MsgEndpoint::established`.
///             return Ok(endpoint.accept(b"welcome")?);
///         }
///     }
/// }
/// # }
/// ```
///
/// # References
/// - `man fi_endpoint`, `man fi_cm`
#[doc(alias = "fid_pep")]
pub struct PassiveEndpoint<'m, T: Connected> {
    eq: Eq<'m, T>,
    index: usize,
    fid: Fid,
}

impl<'m, T: Connected> Eq<'m, T> {
    /// Opens a passive endpoint at the info's source address, and listens. Peers' requests are events of this queue.
    ///
    /// # Errors
    /// - [`OpenError::OtherDomain`] if the info belongs to another domain
    /// - [`OpenError::EndpointType`] if the info, or that of the domain, describes an endpoint without connections
    /// - [`OpenError::NotGranted`] if it grants collectives or memory of devices, and the domain's info does not
    /// - [`OpenError::TooManyEndpoints`] if the queue has [`LISTENERS`](super::LISTENERS) of them
    /// - [`OpenError::Errno`] if the provider refuses: `EADDRINUSE`, for example
    #[doc(alias = "fi_passive_ep")]
    #[doc(alias = "fi_listen")]
    pub fn listen(&self, info: &Info<T>) -> Result<PassiveEndpoint<'m, T>, OpenError> {
        self.body.domain.admits(info, &[EndpointType::MSG])?;
        let mut listeners = self.body.listeners.borrow_mut();
        if listeners.is_full() {
            return Err(OpenError::TooManyEndpoints);
        }
        // SAFETY: queue and domain are open (C1), of one another (C4), and the queue closes the endpoint before itself (C19).
        let passive =
            unsafe { T::passive_open(self.body.domain.raw(), info.raw(), &self.body.raw) }.map_err(|error| {
                if error.left_open {
                    // It is bound to the queue, which then stays open too.
                    self.body.leave();
                }
                OpenError::Errno(error.errno)
            })?;
        let (index, fid) = (listeners.len(), T::passive_fid(&passive));
        if let Err(passive) = listeners.push(passive) {
            // Not reached: there is room, and only this call has used it. Nothing knows the endpoint, so it can be closed.
            // SAFETY: just opened (C1), and not used again (C3).
            let _ = unsafe { T::passive_close(&passive) };
            return Err(OpenError::TooManyEndpoints);
        }
        Ok(PassiveEndpoint { eq: self.clone(), index, fid })
    }
}

impl<T: Connected> PassiveEndpoint<'_, T> {
    /// The address that peers connect to.
    ///
    /// # Errors
    /// The provider's.
    #[doc(alias = "fi_getname")]
    pub fn address(&self) -> Result<EndpointAddr, Errno> {
        self.eq.body.with_listener(self.index, |passive| {
            // SAFETY: the endpoint is open as long as the queue (C1).
            unsafe { T::passive_address(passive) }
        })
    }

    /// What its requests name as their [`listener`](super::ConnectionRequest::listener).
    #[must_use]
    pub const fn fid(&self) -> Fid {
        self.fid
    }
}

impl<T: Connected> fmt::Debug for PassiveEndpoint<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PassiveEndpoint").field("fid", &self.fid).finish_non_exhaustive()
    }
}

/// A peer's request for a connection, to be accepted with an endpoint or rejected. Dropping it rejects it.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::endpoint::Requested;
/// use loom_core::eq::ConnectionRequest;
/// use loom_core::transport::Connected;
/// use loom_core::{Cq, Eq, Error, MsgEndpoint};
///
/// /// Opens an endpoint for a peer of the same version, and rejects every other peer.
/// fn admit<'m, T: Connected>(
///     cq: &Cq<'m, T, Vec<u8>>,
///     eq: &Eq<'m, T>,
///     request: ConnectionRequest<'m, T>,
/// ) -> Result<Option<MsgEndpoint<'m, T, Vec<u8>, Requested>>, Error> {
///     // The provider may have padded the data with zeros.
///     if request.data().starts_with(b"version 1") {
///         return Ok(Some(request.endpoint(cq, eq)?));
///     }
///     request.reject(b"version 1 alone")?;
///     Ok(None)
/// }
/// # }
/// ```
///
/// # References
/// - `man fi_cm`
#[doc(alias = "FI_CONNREQ")]
pub struct ConnectionRequest<'m, T: Connected> {
    eq: Eq<'m, T>,
    /// Which of the queue's passive endpoints it was made to.
    listener: (usize, Fid),
    info: Info<T>,
    /// Until an endpoint has taken it.
    request: Option<T::Request>,
    data: CmData,
}

impl<'m, T: Connected> ConnectionRequest<'m, T> {
    pub(super) fn new(eq: Eq<'m, T>, listener: (usize, Fid), info: T::Info, request: T::Request, data: CmData) -> Self {
        ConnectionRequest { eq, listener, info: Info::from_raw(info), request: Some(request), data }
    }

    /// What the peer gave to connect.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// What the endpoint is opened from.
    #[must_use]
    pub fn info(&self) -> &Info<T> {
        &self.info
    }

    /// The peer's address, where the provider tells.
    #[must_use]
    pub fn peer_address(&self) -> Option<EndpointAddr> {
        self.info.destination_address()
    }

    /// The passive endpoint that it was made to.
    #[must_use]
    pub const fn listener(&self) -> Fid {
        self.listener.1
    }

    /// What an endpoint is opened from, which takes the request.
    pub(crate) fn parts(&mut self) -> (&Eq<'m, T>, &Info<T>, &mut Option<T::Request>) {
        (&self.eq, &self.info, &mut self.request)
    }

    /// Rejects the request. The peer finds `data` in its [`Failure`](super::Failure), if its provider carries it there.
    ///
    /// # Errors
    /// [`CmError`]; the request comes back. If it was the provider that failed, the request has ended all the same, and can
    /// only be dropped (`ENOENT`).
    #[doc(alias = "fi_reject")]
    #[expect(clippy::result_large_err, reason = "there is no allocator to box the request with")]
    pub fn reject(mut self, data: &[u8]) -> Result<(), Refused<Self>> {
        match self.try_reject(data) {
            Ok(()) => Ok(()),
            Err(error) => Err(Refused { what: self, error }),
        }
    }

    fn try_reject(&mut self, data: &[u8]) -> Result<(), CmError> {
        if !data.is_empty() {
            let limit = self.eq.body.with_listener(self.listener.0, |passive| {
                // SAFETY: the passive endpoint is open as long as the queue (C1).
                unsafe { T::passive_cm_data_size(passive) }
            });
            CmError::check(data, limit)?;
        }
        let request = self.request.take().ok_or(Errno::ENOENT)?;
        Ok(self.eq.body.reject(self.listener.0, request, data)?)
    }
}

impl<T: Connected> Drop for ConnectionRequest<'_, T> {
    fn drop(&mut self) {
        // If that fails, nothing is left that could be done: the peer's attempt ends when it gives up.
        let _ = self.try_reject(&[]);
    }
}

impl<T: Connected> fmt::Debug for ConnectionRequest<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionRequest")
            .field("listener", &self.listener.1)
            .field("peer_address", &self.peer_address())
            .field("data", &self.data)
            .finish_non_exhaustive()
    }
}
