//! [`scope`]: regions of borrowed memory.

#![allow(unsafe_code, reason = "registers memory that stays borrowed until the region is closed")]

use super::Mr;
use super::register::Terms;
use crate::buffer::Buffer;
use crate::error::OpenError;
use crate::objects::domain::Domain;
use crate::objects::lingering::Standstill;
use crate::transport::Transport;
use crate::vocabulary::Access;

/// Registers memory of any lifetime for the time of a call.
///
/// The closure gets the region by reference, so it cannot forget it. Before this function returns or unwinds, the
/// region is closed; if the provider fails to, the process is aborted.
///
/// Over libfabric, where closing a region does not stop what peers have begun, the scope has to be around the queues of the
/// domain: it is refused if one is open when it begins, and the process is aborted if an endpoint is open when it ends.
///
/// # Errors
/// - [`OpenError::Access`] if the memory is not initialised, or peers may write and it may not be written
/// - [`OpenError::QueueOpen`] over libfabric, if a queue of the domain is open
/// - [`OpenError::NoFence`] over a provider that the tests have not run over, if its endpoints may have to stay open for good
/// - [`OpenError::NeedsEndpoint`] if peers may reach the memory and the domain binds regions to endpoints: their memory is
///   never borrowed
/// - [`OpenError::Errno`] if the provider refuses
#[doc(alias = "fi_mr_reg")]
pub fn scope<'d, T: Transport, M: Buffer, R>(
    domain: &'d Domain<T>,
    memory: M,
    access: Access,
    f: impl FnOnce(&Mr<'d, T>) -> R,
) -> Result<R, OpenError> {
    Mr::builder(domain, access).scope(memory, f)
}

/// [`scope`], on these terms.
pub(super) fn scoped<'d, T: Transport, M: Buffer, R>(
    domain: &'d Domain<T>,
    mut memory: M,
    terms: &Terms<'_, 'd, T>,
    f: impl FnOnce(&Mr<'d, T>) -> R,
) -> Result<R, OpenError> {
    if !Mr::<T>::is_fenced(terms.registration.access) {
        if !T::conduct(domain.info().raw()).ends_with_queue {
            return Err(OpenError::NoFence);
        }
        // Refuses early what would end the process later. A queue that another thread opens after this check is no danger: `Scoped`
        // looks for its endpoints.
        if domain.lingering().has_queues() {
            return Err(OpenError::QueueOpen);
        }
    }
    let lent = memory.lend();
    // SAFETY: the memory is not touched here until `Scoped` is dropped, which comes before its own end, also when `f`
    // unwinds; that ends the process if peers might still reach the memory.
    let mr = unsafe { Mr::register(domain, &lent, terms) }?;
    let mut scoped = Scoped { mr };
    // SAFETY: registered just now, on these terms, which have no endpoint.
    unsafe { scoped.mr.enable(terms) }?;
    Ok(f(&scoped.mr))
}

/// A region of borrowed memory.
struct Scoped<'d, T: Transport> {
    mr: Mr<'d, T>,
}

impl<T: Transport> Drop for Scoped<'_, T> {
    fn drop(&mut self) {
        // Where closing is no fence, no endpoint is open now, and none is opened before the region is closed.
        let standstill = (!self.mr.fenced).then(|| self.mr.domain.lingering().standstill());
        if standstill.as_ref().is_some_and(Standstill::has_endpoints) {
            crate::abort::abort(
                "endpoints are open at the end of a scope whose borrowed memory peers may reach through them",
            );
        }
        // SAFETY: called once, here.
        if unsafe { self.mr.deregister() }.is_err() {
            crate::abort::abort("a provider failed to close a memory region whose memory is borrowed");
        }
        self.mr.leave_counter();
    }
}
