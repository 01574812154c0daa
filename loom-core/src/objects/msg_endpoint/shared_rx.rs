//! [`SharedRx`]: receives for many connections.

#![allow(unsafe_code, reason = "opens a raw shared receive context")]

use core::fmt;

use super::{Binding, Idle, MsgEndpoint, the_peer};
use crate::buffer::{Buffer, TargetBuffer};
use crate::engine::op_table::OpKey;
use crate::error::{OpenError, Rejected};
use crate::objects::cq::Cq;
use crate::objects::domain::Domain;
use crate::objects::info::Info;
use crate::objects::options::RecvOptions;
use crate::objects::port::{Bound, Port, Receives};
use crate::transport::Connected;
use crate::vocabulary::{EndpointType, Errno};

/// A shared receive context: receives that take the messages of many connections, whichever has one first, so that a server
/// needs buffers for the messages under way and not for its peers.
///
/// Endpoints receive through it that are opened by [`msg_endpoint`](Self::msg_endpoint) or, for a request, by
/// [`ConnectionRequest::endpoint_through`](crate::objects::eq::ConnectionRequest::endpoint_through); they have no receives of
/// their own ([`PostError::NotGranted`](crate::error::PostError::NotGranted)). All of them complete into its queue. A
/// completion does not tell which of them a message came from: where that matters, immediate data or the message has to.
///
/// A receive whose connection ends in the middle of its message may complete with an error, or come back when the context is
/// dropped; the others wait for the next message of any connection. A context that is dropped while a forgotten endpoint still
/// receives through it is closed with its queue; its receives are cancelled, where the provider can.
///
/// Messages have no tags here: the providers that have them with shared contexts crash when one arrives that nobody waits for.
///
/// # References
/// - `man fi_endpoint`, *shared contexts*
#[doc(alias = "fi_srx_context")]
#[doc(alias = "FI_SHARED_CONTEXT")]
pub struct SharedRx<'q, 'd, T: Connected, B: Buffer> {
    port: Port<'q, 'd, T, B>,
}

impl<'d, T: Connected, B: Buffer> Cq<'d, T, B> {
    /// Opens a shared receive context for connections whose endpoints are opened from this info or, on the listening side, for
    /// requests to a passive endpoint that was. It takes one of the queue's places for endpoints.
    ///
    /// # Errors
    /// - [`OpenError::OtherDomain`] if the info belongs to another domain
    /// - [`OpenError::EndpointType`] if the info describes endpoints without connections
    /// - [`OpenError::TooManyEndpoints`] if the queue has no place left
    /// - [`OpenError::Errno`] if the provider refuses: `ENOSYS` if it has none (`max_ep_srx_ctx` is zero), or
    ///   none that is safe (`sockets`)
    #[doc(alias = "fi_srx_context")]
    pub fn shared_rx<'q>(&'q self, info: &Info<T>) -> Result<SharedRx<'q, 'd, T, B>, OpenError> {
        let domain = self.domain();
        if !info.same_domain(domain.info()) {
            return Err(OpenError::OtherDomain);
        }
        Domain::check(info)?;
        let attributes = info.attributes();
        if attributes.endpoint.kind != EndpointType::MSG {
            return Err(OpenError::EndpointType(attributes.endpoint.kind));
        }
        if attributes.domain.max_ep_srx_ctx == 0 {
            return Err(Errno::ENOSYS.into());
        }
        let port = Port::open(self, info, Receives::ForOthers, Bound::new(), |_, rx| {
            // SAFETY: domain and queue are open. The queue closes the context before itself, and after every endpoint that receives
            // through it.
            unsafe { T::shared_rx_open(domain.raw(), info.raw(), rx) }
        })?;
        Ok(SharedRx { port })
    }
}

impl<'d, T: Connected, B: Buffer> SharedRx<'_, 'd, T, B> {
    /// Opens an endpoint that is to be connected, as
    /// [`Cq::msg_endpoint`](crate::objects::cq::CqBody::msg_endpoint) does, and receives through this context.
    ///
    /// # Errors
    /// As [`Cq::msg_endpoint`](crate::objects::cq::CqBody::msg_endpoint).
    #[doc(alias = "fi_ep_bind")]
    pub fn msg_endpoint<'s>(
        &'s self,
        bind: impl Into<Binding<'d, T>>,
        info: &Info<T>,
    ) -> Result<MsgEndpoint<'s, 'd, T, B, Idle>, OpenError> {
        MsgEndpoint::to_connect(self.cq(), Some(self), bind.into(), info)
    }

    /// Receives a message of any connection.
    ///
    /// # Errors
    /// As [`MsgEndpoint::recv`].
    #[doc(alias = "fi_recv")]
    #[inline]
    pub fn recv(&self, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.port.recv(the_peer, buf)
    }

    /// Receives a message of any connection into one buffer or several, each filled before the next.
    ///
    /// # Errors
    /// As [`MsgEndpoint::recvmsg`].
    #[doc(alias = "fi_recvmsg")]
    #[doc(alias = "fi_recvv")]
    pub fn recvmsg(&self, options: RecvOptions, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.port.recvmsg(the_peer, options, buf)
    }

    /// Asks for a receive to end early, as [`MsgEndpoint::cancel`] does.
    ///
    /// # Errors
    /// `ENOENT` if the operation is not in flight on this context, or what the provider says.
    #[doc(alias = "fi_cancel")]
    pub fn cancel(&self, key: OpKey) -> Result<(), Errno> {
        self.port.cancel(key)
    }

    /// The queue that receives complete into.
    #[must_use]
    pub fn cq(&self) -> &Cq<'d, T, B> {
        self.port.cq()
    }

    /// The raw handle, for posting what loom does not wrap.
    #[inline]
    #[must_use]
    pub fn raw(&self) -> &T::Endpoint {
        self.port.raw()
    }

    /// Its place in the queue.
    pub(super) const fn index(&self) -> u16 {
        self.port.index()
    }
}

impl<T: Connected, B: Buffer> fmt::Debug for SharedRx<'_, '_, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedRx").field("port", &self.port).finish_non_exhaustive()
    }
}
