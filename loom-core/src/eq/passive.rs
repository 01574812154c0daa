#![allow(unsafe_code, reason = "opens and uses a raw handle")]

use super::{EventQueue, Fid};
use crate::error::{OpenError, Rejected};
use crate::info::Info;
use crate::transport::Connected;
use crate::util::debug::debug_struct;
use crate::vocabulary::{CmData, EndpointAddr, EndpointType, Errno};

/// Passive endpoint, which listens until its event queue closes, and keeps that open.
///
/// To stop listening earlier, use a separate event queue.
///
/// ```
/// use loom_core::{EqEvent, eq::PassiveEndpoint, transport::Connected};
///
/// /// Returns `true` if a peer requests a connection with this listener.
/// fn is_request<T: Connected>(event: &EqEvent<'_, T>, listener: &PassiveEndpoint<'_, T>) -> bool {
///     matches!(event, EqEvent::Request(request) if request.listener == listener.fid)
/// }
/// ```
///
/// # References
/// - `man fi_endpoint`, `man fi_cm`
#[doc(alias = "fid_pep")]
pub struct PassiveEndpoint<'m, T: Connected> {
    eq: EventQueue<'m, T>,
    index: usize,
    /// Identifier of the endpoint as [`listener`](super::ConnectionRequest::listener) of requests.
    pub fid: Fid,
}

impl<'m, T: Connected> EventQueue<'m, T> {
    /// Listens at the info's source address. This queue reports peers' requests.
    ///
    /// # Errors
    /// - [`OpenError::OtherDomain`], [`OpenError::EndpointType`], [`OpenError::NotGranted`]
    /// - [`OpenError::TooManyEndpoints`] beyond [`LISTENERS`](super::LISTENERS)
    /// - [`OpenError::Errno`] of the provider, for example `EADDRINUSE`
    #[doc(alias = "fi_passive_ep")]
    #[doc(alias = "fi_listen")]
    pub fn listen(&self, info: &Info<T>) -> Result<PassiveEndpoint<'m, T>, OpenError> {
        self.body.domain.admits(info, &[EndpointType::MSG])?;
        let mut listeners = self.body.listeners.borrow_mut();
        if listeners.is_full() {
            return Err(OpenError::TooManyEndpoints);
        }
        // SAFETY: queue and domain are open (H1) and belong together (H4). The queue closes the
        // endpoint before itself (E1).
        let passive =
            unsafe { T::passive_open(self.body.domain.raw(), info.raw(), &self.body.raw) }.map_err(|error| {
                if error.left_open {
                    self.body.leave();
                }
                OpenError::Errno(error.errno)
            })?;
        let (index, fid) = (listeners.len(), T::passive_fid(&passive));
        if let Err(passive) = listeners.push(passive) {
            // SAFETY: open (H1), known only here, and not used again (H3). Not reached: the space
            // was checked above.
            let _ = unsafe { T::passive_close(&passive) };
            return Err(OpenError::TooManyEndpoints);
        }
        Ok(PassiveEndpoint { eq: self.clone(), index, fid })
    }
}

impl<T: Connected> PassiveEndpoint<'_, T> {
    /// Address that peers connect to.
    ///
    /// # Errors
    /// Those of the provider.
    #[doc(alias = "fi_getname")]
    pub fn address(&self) -> Result<EndpointAddr, Errno> {
        self.eq.body.with_listener(self.index, |passive| {
            // SAFETY: the endpoint is open as long as the queue (H1).
            unsafe { T::passive_address(passive) }
        })
    }
}

debug_struct!([T: Connected] PassiveEndpoint['_, T], |it| fid: it.fid);

/// A peer's connection request. Dropping it rejects it.
///
/// ```
/// use loom_core::{Cq, EventQueue, Error, MsgEndpoint, endpoint::Requested, eq::ConnectionRequest, transport::Connected};
///
/// /// Opens an endpoint for a peer of the same version (the provider may add zeros), and rejects others.
/// fn admit<'m, T: Connected>(
///     (cq, eq, request): (&Cq<'m, T, Vec<u8>>, &EventQueue<'m, T>, ConnectionRequest<'m, T>),
/// ) -> Result<Option<MsgEndpoint<'m, T, Vec<u8>, Requested>>, Error> {
///     if request.data.starts_with(b"version 1") {
///         return Ok(Some(request.endpoint(cq, eq)?));
///     }
///     request.reject(b"version 1 only")?;
///     Ok(None)
/// }
/// ```
///
/// # References
/// - `man fi_cm`
#[doc(alias = "FI_CONNREQ")]
pub struct ConnectionRequest<'m, T: Connected> {
    pub(super) eq: EventQueue<'m, T>,
    /// Identifier of the passive endpoint.
    pub listener: Fid,
    pub(super) place: usize,
    pub(super) info: Info<T>,
    /// `None` once an endpoint has taken the request.
    pub(super) request: Option<T::Request>,
    /// Data of the peer's [`connect`](crate::endpoint::MsgEndpoint::connect).
    pub data: CmData,
}

impl<'m, T: Connected> ConnectionRequest<'m, T> {
    /// Info to open the endpoint from.
    #[must_use]
    pub fn info(&self) -> &Info<T> {
        &self.info
    }

    pub(crate) fn parts(&mut self) -> (&EventQueue<'m, T>, &Info<T>, &mut Option<T::Request>) {
        (&self.eq, &self.info, &mut self.request)
    }

    /// Rejects the request. The peer's [`Failure`](super::Failure) contains `data`, if its provider
    /// transfers it.
    ///
    /// # Errors
    /// [`OpenError::DataTooLong`] or [`OpenError::Unconnected`], with the request. After a
    /// provider's error, drop the request (`ENOENT`).
    #[doc(alias = "fi_reject")]
    #[expect(clippy::result_large_err, reason = "there is no allocator to box the request with")]
    pub fn reject(mut self, data: &[u8]) -> Result<(), Rejected<Self, OpenError>> {
        match self.try_reject(data) {
            Ok(()) => Ok(()),
            Err(error) => Err(Rejected { value: self, error: error.of_connection() }),
        }
    }

    fn try_reject(&mut self, data: &[u8]) -> Result<(), OpenError> {
        if !data.is_empty() {
            let limit = self.eq.body.with_listener(self.place, |passive| {
                // SAFETY: the passive endpoint is open as long as the queue (H1).
                unsafe { T::passive_cm_data_size(passive) }
            });
            check_data(data, limit)?;
        }
        let request = self.request.take().ok_or(Errno::ENOENT)?;
        Ok(self.eq.body.reject(self.place, request, data)?)
    }
}

impl<T: Connected> Drop for ConnectionRequest<'_, T> {
    fn drop(&mut self) {
        let _ = self.try_reject(&[]);
    }
}

debug_struct!(
    [T: Connected] ConnectionRequest['_, T],
    |it| listener: it.listener, peer_address: it.info.destination_address(), data: it.data
);

pub(crate) fn check_data(data: &[u8], limit: Result<usize, Errno>) -> Result<(), OpenError> {
    match limit {
        _ if data.is_empty() => Ok(()),
        Ok(limit) if data.len() > limit => Err(OpenError::DataTooLong { limit }),
        Ok(_) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
