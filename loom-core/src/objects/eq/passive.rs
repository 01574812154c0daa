//! [`PassiveEndpoint`]: where peers connect to.

#![allow(unsafe_code, reason = "opens and uses a raw handle")]

use core::fmt;

use super::{Eq, Fid};
use crate::error::OpenError;
use crate::objects::domain::DomainInner;
use crate::objects::info::Info;
use crate::transport::Connected;
use crate::vocabulary::{EndpointAddr, EndpointType, Errno};

/// A passive endpoint, which listens until its event queue is closed, of which it is a handle.
///
/// To stop listening earlier, give it an event queue of its own: endpoints of the requests may be bound to another.
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
    /// - [`OpenError::EndpointType`] if the info describes an endpoint without connections
    /// - [`OpenError::TooManyEndpoints`] if the queue has [`LISTENERS`](super::LISTENERS) of them
    /// - [`OpenError::Errno`] if the provider refuses: `EADDRINUSE`, for example
    #[doc(alias = "fi_passive_ep")]
    #[doc(alias = "fi_listen")]
    pub fn listen(&self, info: &Info<T>) -> Result<PassiveEndpoint<'m, T>, OpenError> {
        if !info.same_domain(self.body.domain.info()) {
            return Err(OpenError::OtherDomain);
        }
        DomainInner::check(info)?;
        if info.attributes().endpoint.kind != EndpointType::MSG {
            return Err(OpenError::EndpointType(info.attributes().endpoint.kind));
        }
        let mut listeners = self.body.listeners.borrow_mut();
        if listeners.is_full() {
            return Err(OpenError::TooManyEndpoints);
        }
        // SAFETY: queue and domain are open, and the queue closes the endpoint before itself.
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
            // Not reached: there is room, and nobody else has used it. Nothing knows the endpoint, so it can be closed.
            // SAFETY: just opened, and not used again.
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
            // SAFETY: the endpoint is open as long as the queue.
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
