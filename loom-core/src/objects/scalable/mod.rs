//! [`ScalableEndpoint`]: one address, and transmit and receive contexts for many queues.
//!
//! A program with a queue for each thread can give each its own transmit context and receive context of one endpoint
//! ([`Cq::tx_context`](super::cq::CqBody::tx_context), [`Cq::rx_context`](super::cq::CqBody::rx_context)), where it would need an
//! endpoint with an address for each otherwise. Peers say which receive context a message is for ([`RxPeer`]).
//!
//! Over the providers of this machine only `sockets` has them.

#![allow(unsafe_code, reason = "opens, uses and closes a raw scalable endpoint")]

mod binding;
mod rx;
mod rx_peek;
mod rx_peer;
mod tx;
mod tx_rma;

use core::fmt;
use core::ptr;

pub use self::binding::ContextBinding;
pub use self::rx::RxContext;
pub use self::rx_peer::RxPeer;
pub use self::tx::TxContext;
use crate::error::OpenError;
use crate::objects::av::Av;
use crate::objects::domain::Domain;
use crate::objects::info::Info;
use crate::objects::users::Users;
use crate::transport::Scalable;
pub use crate::transport::scalable::Contexts;
use crate::vocabulary::{EndpointAddr, EndpointType, Errno};

/// A connectionless endpoint with several transmit and receive contexts, which alone post.
///
/// Where the transport's threading level admits it, threads share it, and each opens contexts of its own. It is closed when it
/// is dropped; if a context is still open then, because its queue was forgotten, it is left open, with its address vector and
/// domain.
///
/// A message to a receive context that its peer has not open waits until it is, and over `sockets` everything that comes after
/// it from the same scalable endpoint waits, too. So open the contexts before peers know the address, and close them together.
///
/// # References
/// - `man fi_endpoint`, *scalable endpoints*
#[doc(alias = "fi_scalable_ep")]
#[doc(alias = "FI_CLASS_SEP")]
pub struct ScalableEndpoint<'d, T: Scalable> {
    raw: T::ScalableEndpoint,
    /// What it was opened from, and its contexts are.
    info: Info<T>,
    av: &'d Av<'d, T>,
    contexts: Contexts,
    /// Its open contexts.
    users: Users,
}

impl<'d, T: Scalable> ScalableEndpoint<'d, T> {
    /// Opens an endpoint with so many contexts from an info of the vector's domain.
    ///
    /// # Errors
    /// - [`OpenError::OtherDomain`] if the info belongs to another domain
    /// - [`OpenError::EndpointType`] if the info describes an endpoint that has to be connected
    /// - [`OpenError::Threading`] if the provider wants all contexts of an endpoint on one thread, and the transport's type
    ///   admits many
    /// - [`OpenError::Size`] if there is to be no context at all
    /// - [`OpenError::TooManyContexts`] if the provider's endpoints have not so many
    /// - [`OpenError::OutOfMemory`] if there is no memory for a copy of the info
    /// - [`OpenError::Errno`] if the provider refuses: `ENOSYS` if it has no scalable endpoints; `EOPNOTSUPP` over `sockets` with
    ///   manual progress, where a context that was closed would go on being used
    #[doc(alias = "fi_scalable_ep")]
    #[doc(alias = "fi_scalable_ep_bind")]
    #[doc(alias = "fi_enable")]
    pub fn open(av: &'d Av<'d, T>, info: &Info<T>, contexts: Contexts) -> Result<Self, OpenError> {
        let domain = av.domain();
        if !info.same_domain(domain.info()) {
            return Err(OpenError::OtherDomain);
        }
        Domain::check(info)?;
        let attributes = info.attributes();
        if !matches!(attributes.endpoint.kind, EndpointType::RDM | EndpointType::DGRAM) {
            return Err(OpenError::EndpointType(attributes.endpoint.kind));
        }
        if !T::serves_contexts(domain.attributes()) || !T::serves_contexts(attributes) {
            return Err(OpenError::Threading);
        }
        if contexts == (Contexts { tx: 0, rx: 0 }) {
            return Err(OpenError::Size);
        }
        let limits = [(contexts.tx, attributes.domain.max_ep_tx_ctx), (contexts.rx, attributes.domain.max_ep_rx_ctx)];
        for (wanted, most) in limits {
            let limit = most.min(Self::MAX_CONTEXTS.into());
            if usize::from(wanted) > limit {
                return Err(OpenError::TooManyContexts { limit });
            }
        }
        let info = info.try_clone()?;
        domain.child_opened();
        av.bind();
        // SAFETY: domain and vector are open, and outlive the endpoint: they live for 'd, and stay open while they have users.
        match unsafe { T::scalable_open(domain.raw(), info.raw(), av.raw(), contexts) } {
            Ok(raw) => Ok(ScalableEndpoint { raw, info, av, contexts, users: Users::none() }),
            Err(error) => {
                // What is left open keeps what it is bound to open, too.
                if !error.left_open {
                    av.unbind();
                    domain.child_closed();
                }
                Err(error.errno.into())
            }
        }
    }

    /// The most contexts of a kind that one endpoint can have here, whatever the provider's limit is.
    pub const MAX_CONTEXTS: u16 = 64;

    /// The endpoint's address, for peers to insert into their address vectors: all its contexts are reached by it.
    ///
    /// # Errors
    /// The provider's.
    #[doc(alias = "fi_getname")]
    pub fn address(&self) -> Result<EndpointAddr, Errno> {
        // SAFETY: the endpoint is open.
        unsafe { T::scalable_address(&self.raw) }
    }

    /// How many contexts it has; they are numbered from zero.
    #[must_use]
    pub const fn contexts(&self) -> Contexts {
        self.contexts
    }

    /// The address vector in which its contexts find their peers.
    #[must_use]
    pub fn av(&self) -> &'d Av<'d, T> {
        self.av
    }

    /// The raw handle, for calls that loom does not wrap.
    #[must_use]
    pub fn raw(&self) -> &T::ScalableEndpoint {
        &self.raw
    }
}

impl<T: Scalable> Drop for ScalableEndpoint<'_, T> {
    fn drop(&mut self) {
        if !self.users.are_none() {
            return;
        }
        // SAFETY: no context is open, and nobody borrows the endpoint. A failed close is not retried: vector and domain then have
        // a user for ever, and leak themselves.
        if unsafe { T::scalable_close(&self.raw) }.is_ok() {
            self.av.unbind();
            self.av.domain().child_closed();
        }
    }
}

impl<T: Scalable> fmt::Debug for ScalableEndpoint<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("ScalableEndpoint");
        out.field("contexts", &self.contexts).field("users", &self.users).finish_non_exhaustive()
    }
}

/// Whether an endpoint and a queue are of one domain.
fn same_domain<T: Scalable>(endpoint: &ScalableEndpoint<'_, T>, domain: &Domain<T>) -> Result<(), OpenError> {
    if ptr::eq(endpoint.av.domain(), domain) { Ok(()) } else { Err(OpenError::OtherDomain) }
}
