//! [`SharedRx`]: receives for many connections.

#![allow(unsafe_code, reason = "opens a raw shared receive context")]

use super::Endpoint;
use super::binding::Binding;
use super::kind::{Has, Receives, Sealed};
use super::msg_endpoint::{Idle, MsgEndpoint};
use super::opened::Opened;
use super::post::Limits;
use crate::buffer::Buffer;
use crate::cq::Cq;
use crate::cq::{Bonds, ReceiveMode};
use crate::eq::Eq;
use crate::error::{OpenError, PostError};
use crate::info::Info;
use crate::query::Group;
use crate::transport::Connected;
use crate::vocabulary::{EndpointType, Errno, FabricAddr};

/// A shared receive context: receives that take the messages of many connections, whichever has one first, so that a server
/// needs buffers for the messages under way and not for its peers.
///
/// Endpoints receive through it that are opened by [`msg_endpoint`](Self::msg_endpoint) or, for a request, by
/// [`ConnectionRequest::endpoint_through`](crate::eq::ConnectionRequest::endpoint_through); they have no receives of
/// their own ([`PostError::NotGranted`](crate::error::PostError::NotGranted)). All of them complete into its queue. A
/// completion does not tell which of them a message came from: where that matters, immediate data or the message has to.
///
/// A receive whose connection ends in the middle of its message may complete with an error, or come back when the context is
/// dropped; the others wait for the next message of any connection. A context that is dropped while an endpoint still receives through it is
/// closed after the last of these; its receives are cancelled, where the provider can.
///
/// Messages have no tags here ([`PostError::NotGranted`]): the providers that have them with shared contexts crash when one arrives
/// that no receive matches.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::endpoint::{AnyConnection, SharedRx};
/// use loom_core::transport::Connected;
/// use loom_core::{Cq, Error, Forever, Info};
///
/// /// A server's receives: `count` buffers for the messages of all its connections.
/// fn share<'m, T: Connected>(
///     cq: &Cq<'m, T, Vec<u8>>,
///     info: &Info<T>,
///     count: usize,
/// ) -> Result<SharedRx<'m, T, Vec<u8>>, Error> {
///     let shared = cq.shared_rx(info)?;
///     for _ in 0..count {
///         cq.post(vec![0; 4096], Forever, |room| shared.recv(AnyConnection, room))?;
///     }
///     Ok(shared)
/// }
/// # }
/// ```
///
/// # References
/// - `man fi_endpoint`, *shared contexts*
#[doc(alias = "fi_srx_context")]
#[doc(alias = "FI_SHARED_CONTEXT")]
pub type SharedRx<'m, T, B> = Endpoint<'m, T, B, Srx>;

/// A shared receive context: see [`SharedRx`].
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::endpoint::{AnyConnection, Endpoint, Srx};
/// use loom_core::transport::Connected;
/// use loom_core::{Completion, Error};
///
/// /// Posts the buffer of each message again that has come over any of the connections.
/// fn serve<T: Connected>(shared: &Endpoint<'_, T, Vec<u8>, Srx>) -> Result<(), Error> {
///     while let Some(completion) = shared.cq().poll()? {
///         if let Completion::Op(done) = completion {
///             let (room, transfer) = done.into_result()?;
///             println!("{} bytes", transfer.len());
///             shared.recv(AnyConnection, room)?;
///         }
///     }
///     Ok(())
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Srx(());

/// Whichever connection has a message first: what stands for a peer in receives of a [`SharedRx`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnyConnection;

impl Sealed for Srx {}
impl<G: Group> Has<G> for Srx {}

impl<T: Connected> Receives<T> for Srx {
    type From = AnyConnection;

    const ANY: AnyConnection = AnyConnection;

    #[inline]
    fn source(&self, _: &Limits, AnyConnection: AnyConnection) -> Result<FabricAddr, PostError> {
        Ok(FabricAddr::UNSPEC)
    }
}

impl<'m, T: Connected, B: Buffer> Cq<'m, T, B> {
    /// Opens a shared receive context for connections whose endpoints are opened from this info or, on the listening side, for
    /// requests to a passive endpoint that was. It takes one of the queue's places for endpoints.
    ///
    /// # Errors
    /// - [`OpenError::OtherDomain`] if the info belongs to another domain
    /// - [`OpenError::EndpointType`] if the info, or that of the domain, describes endpoints without connections
    /// - [`OpenError::NotGranted`] if it grants collectives or memory of devices, and the domain's info does not
    /// - [`OpenError::TooManyEndpoints`] if the queue has no place left
    /// - [`OpenError::Errno`] if the provider refuses: `ENOSYS` if it has none (`max_ep_srx_ctx` is zero), or
    ///   none that is safe (`sockets`)
    #[doc(alias = "fi_srx_context")]
    pub fn shared_rx(&self, info: &Info<T>) -> Result<SharedRx<'m, T, B>, OpenError> {
        let domain = self.domain();
        domain.admits(info, &[EndpointType::MSG])?;
        if info.attributes().domain.max_ep_srx_ctx == 0 {
            return Err(Errno::ENOSYS.into());
        }
        let opened = Opened::open(self, info, ReceiveMode::ForOthers, Bonds::default(), |_, rx| {
            // SAFETY: domain and queue are open, of one another, as the info is (C1, C4). The queue closes the context before itself (C2),
            // and after every endpoint that receives through it (C19).
            unsafe { T::shared_rx_open(domain.raw(), info.raw(), rx) }
        })?;
        Ok(Endpoint { opened, kind: Srx(()) })
    }
}

impl<'m, T: Connected, B: Buffer> SharedRx<'m, T, B> {
    /// Opens an endpoint that is to be connected, as
    /// [`Cq::msg_endpoint`](crate::cq::Cq::msg_endpoint) does, and receives through this context.
    ///
    /// # Errors
    /// As [`Cq::msg_endpoint`](crate::cq::Cq::msg_endpoint).
    #[doc(alias = "fi_ep_bind")]
    pub fn msg_endpoint<'b>(
        &self,
        bind: impl Into<Binding<'b, 'm, T, Eq<'m, T>>>,
        info: &Info<T>,
    ) -> Result<MsgEndpoint<'m, T, B, Idle>, OpenError>
    where
        'm: 'b,
        T: 'b,
    {
        MsgEndpoint::to_connect(self.cq(), Some(self), bind.into(), info)
    }
}
