//! [`Multicast`]: transports whose endpoints can be in multicast groups.

use super::connected::Fid;
use super::{Bindings, Connected, EndpointError};
use crate::vocabulary::{EndpointAddr, Errno, FabricAddr};

/// A transport with multicast groups (`FI_MULTICAST`). Event queues tell how a join went.
///
/// # Contract of callers
///
/// [C1 to C24](super#contract-of-callers).
///
/// # Safety
///
/// Implementations promise what [`Connected`] does, and [P11 to P13](super#promises-of-implementations).
pub unsafe trait Multicast: Connected {
    /// `fid_mc`
    type Group;

    /// As `endpoint_open`; the endpoint is bound to an event queue, too.
    ///
    /// # Safety
    /// The contract of callers; everything in `bind`, and the event queue, belongs to `domain`.
    unsafe fn multicast_endpoint_open(
        domain: &Self::Domain,
        info: &Self::Info,
        bind: Bindings<'_, Self>,
        eq: &Self::Eq,
    ) -> Result<Self::Endpoint, EndpointError>;
    /// `fi_join`, to send and to receive. The event says `context` when it is over.
    ///
    /// # Errors
    /// `EINVAL` for what is not the address of a group, or the provider's.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn join(endpoint: &Self::Endpoint, address: &EndpointAddr, context: u64) -> Result<Self::Group, Errno>;
    /// What its events name.
    fn group_fid(group: &Self::Group) -> Fid;
    /// `fi_mc_addr`
    ///
    /// # Safety
    /// The contract of callers; the event of the join has said that the endpoint is in the group.
    unsafe fn group_address(group: &Self::Group) -> FabricAddr;
    /// `fi_close` of a group: the endpoint is not in it any more, or, if this fails, until it is closed.
    ///
    /// # Safety
    /// The contract of callers; it is a group of this endpoint.
    unsafe fn leave(endpoint: &Self::Endpoint, group: &Self::Group) -> Result<(), Errno>;
}
