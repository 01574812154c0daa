//! [`ConnectionRequest`]: a peer that wants to connect.

#![allow(unsafe_code, reason = "rejects through a raw handle")]

use core::fmt;

use super::{Eq, Fid};
use crate::buffer::Buffer;
use crate::error::OpenError;
use crate::objects::cq::Cq;
use crate::objects::endpoint::{Binding, CmError, MsgEndpoint, Refused, Requested, SharedRx};
use crate::objects::info::Info;
use crate::transport::Connected;
use crate::vocabulary::{CmData, EndpointAddr, Errno};

/// A peer's request for a connection, to be accepted with an endpoint or rejected. Dropping it rejects it.
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

    /// Opens an endpoint for the connection, which completes into `cq` and is bound to an event queue: this one, or another of
    /// the same domain (`&eq`, or a [`Binding`] with counters). Receives can be posted on it before it accepts.
    ///
    /// # Errors
    /// Those of [`Cq::msg_endpoint`](crate::objects::cq::Cq::msg_endpoint); the request is rejected then.
    #[doc(alias = "fi_endpoint")]
    pub fn endpoint<'b, 'c, B: Buffer>(
        self,
        cq: &Cq<'c, T, B>,
        bind: impl Into<Binding<'b, 'c, T>>,
    ) -> Result<MsgEndpoint<'c, T, B, Requested>, OpenError>
    where
        'c: 'b,
        T: 'b,
    {
        self.open(cq, None, bind.into())
    }

    /// [`endpoint`](Self::endpoint) for a connection that receives through a shared receive context, and completes into its
    /// queue.
    ///
    /// # Errors
    /// As [`endpoint`](Self::endpoint).
    #[doc(alias = "fi_ep_bind")]
    pub fn endpoint_through<'b, 'c, B: Buffer>(
        self,
        shared_rx: &SharedRx<'c, T, B>,
        bind: impl Into<Binding<'b, 'c, T>>,
    ) -> Result<MsgEndpoint<'c, T, B, Requested>, OpenError>
    where
        'c: 'b,
        T: 'b,
    {
        self.open(shared_rx.cq(), Some(shared_rx), bind.into())
    }

    fn open<'c, B: Buffer>(
        mut self,
        cq: &Cq<'c, T, B>,
        through: Option<&SharedRx<'c, T, B>>,
        bind: Binding<'_, 'c, T>,
    ) -> Result<MsgEndpoint<'c, T, B, Requested>, OpenError> {
        if !self.eq.domain().is(cq.domain()) {
            return Err(OpenError::OtherDomain);
        }
        if self.request.is_none() {
            return Err(OpenError::Errno(Errno::ENOENT));
        }
        let endpoint = MsgEndpoint::for_request(cq, through, bind, &self.info, &mut self.request)?;
        self.request = None;
        Ok(endpoint)
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
                // SAFETY: the passive endpoint is open as long as the queue.
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
