#![allow(unsafe_code, reason = "opens a raw shared receive context")]

use super::Endpoint;
use super::binding::Binding;
use super::kind::{Receives, Sealed};
use super::limits::Limits;
use super::msg_endpoint::{Idle, MsgEndpoint, Requested};
use super::opened::Opened;
use crate::buffer::Buffer;
use crate::cq::Cq;
use crate::cq::{Bonds, ReceiveMode};
use crate::eq::{ConnectionRequest, EventQueue};
use crate::error::{OpenError, PostError};
use crate::info::Info;
use crate::transport::Connected;
use crate::vocabulary::{EndpointType, Errno, FabricAddr};

/// A shared receive context: one set of receives for many connections.
///
/// Endpoints opened by [`msg_endpoint`](Self::msg_endpoint) or, for requests,
/// [`ConnectionRequest::endpoint_through`](crate::eq::ConnectionRequest::endpoint_through) receive
/// through it and complete into its queue. Their own receives are refused
/// ([`PostError::NotGranted`](crate::error::PostError::NotGranted)). Completions do not identify
/// the connection: use immediate data or the message.
///
/// If a connection ends during a message, its receive may complete with an error, or when the
/// context is dropped. A context dropped before its endpoints closes after them.
///
/// Tagged messages are refused ([`PostError::NotGranted`]): providers that support them here crash
/// when an unmatched one arrives.
///
/// Example: [`Srx`].
///
/// # References
/// - `man fi_endpoint`, *shared contexts*
#[doc(alias = "fi_srx_context")]
#[doc(alias = "FI_SHARED_CONTEXT")]
pub type SharedRx<'m, T, B> = Endpoint<'m, T, B, Srx>;

/// Endpoint kind of [`SharedRx`].
///
/// ```
/// use loom_core::{Completion, Endpoint, Error, endpoint::{AnyConnection, Srx}, transport::Connected};
///
/// /// Posts the buffer of each message again that has come over any of the connections.
/// fn serve<T: Connected>(shared: &Endpoint<'_, T, Vec<u8>, Srx>) -> Result<(), Error> {
///     while let Some(Completion::Op(done)) = shared.cq().poll()? {
///         let (room, transfer) = done.into_result()?;
///         println!("{} bytes", transfer.len);
///         shared.recv(AnyConnection, room)?;
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Srx(());

/// Source of receives of a [`SharedRx`]: the first connection with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnyConnection;

impl Sealed for Srx {}
impl<T: Connected> Receives<T> for Srx {
    type From = AnyConnection;

    const ANY: AnyConnection = AnyConnection;

    #[inline]
    fn source(&self, _: &Limits, AnyConnection: AnyConnection) -> Result<FabricAddr, PostError> {
        Ok(FabricAddr::UNSPEC)
    }
}

impl<'m, T: Connected, B: Buffer> Cq<'m, T, B> {
    /// Opens a shared receive context, in one of the queue's endpoint slots. It serves endpoints
    /// from this info or, on the listening side, for requests to a passive endpoint from this info.
    ///
    /// # Errors
    /// [`OpenError::OtherDomain`], [`OpenError::EndpointType`], [`OpenError::NotGranted`] and
    /// [`OpenError::TooManyEndpoints`] as in [`Cq::msg_endpoint`](crate::cq::Cq::msg_endpoint), or
    /// [`OpenError::Errno`] if the provider refuses, with `ENOSYS` without shared contexts
    /// (`max_ep_srx_ctx` is zero) or without safe ones (`sockets`).
    #[doc(alias = "fi_srx_context")]
    pub fn shared_rx(&self, info: &Info<T>) -> Result<SharedRx<'m, T, B>, OpenError> {
        let domain = self.domain();
        domain.admits(info, &[EndpointType::MSG])?;
        if info.attributes().domain.max_ep_srx_ctx == 0 {
            return Err(Errno::ENOSYS.into());
        }
        let opened = Opened::open(self, info, ReceiveMode::ForOthers, Bonds::default(), |_, rx| {
            // SAFETY: domain, queue and info belong together (H4) and are open (H1). The queue
            // closes the context before itself (H2), after every endpoint that receives through it
            // (E1).
            unsafe { T::shared_rx_open(domain.raw(), info.raw(), rx) }
        })?;
        Ok(Endpoint { opened, kind: Srx(()) })
    }
}

impl<'m, T: Connected, B: Buffer> SharedRx<'m, T, B> {
    /// [`Cq::msg_endpoint`](crate::cq::Cq::msg_endpoint) that receives through this context.
    #[doc(alias = "fi_ep_bind")]
    pub fn msg_endpoint(
        &self,
        bind: impl Into<Binding<'m, T, EventQueue<'m, T>>>,
        info: &Info<T>,
    ) -> Result<MsgEndpoint<'m, T, B, Idle>, OpenError> {
        MsgEndpoint::to_connect(self.cq(), Some(&self.opened), bind.into(), info)
    }
}

impl<T: Connected> ConnectionRequest<'_, T> {
    /// [`endpoint`](Self::endpoint) that receives through a shared receive context and completes
    /// into its queue.
    #[doc(alias = "fi_ep_bind")]
    pub fn endpoint_through<'c, B: Buffer>(
        self,
        shared_rx: &SharedRx<'c, T, B>,
        bind: impl Into<Binding<'c, T, EventQueue<'c, T>>>,
    ) -> Result<MsgEndpoint<'c, T, B, Requested>, OpenError> {
        self.open_endpoint(shared_rx.cq(), Some(&shared_rx.opened), bind.into())
    }
}
