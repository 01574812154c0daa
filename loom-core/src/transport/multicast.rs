use super::connected::Fid;
use super::{Bindings, Connected, EndpointError};
use crate::vocabulary::{EndpointAddr, Errno, FabricAddr};

/// Transport with multicast groups (`FI_MULTICAST`).
///
/// # Contract of callers
///
/// [H1 to H4, T1 to T3, N1, N2, L1 to L4, O1 to O3, M1 to M3, E1, E2, G1 to
/// G3](super#contract-of-callers).
///
/// # Safety
///
/// The promises of [`Connected`], and [P12 to P14](super#promises-of-implementations).
pub unsafe trait Multicast: Connected {
    /// `fid_mc`
    type Group;

    /// `endpoint_open`, with an event queue bound in addition.
    ///
    /// # Safety
    /// Contract of callers. The event queue and every object in `bind` belong to `domain`.
    unsafe fn multicast_endpoint_open(
        domain: &Self::Domain,
        info: &Self::Info,
        bind: Bindings<'_, Self>,
        eq: &Self::Eq,
    ) -> Result<Self::Endpoint, EndpointError>;
    /// `fi_join`, to send and to receive. The event of its completion carries `context`.
    ///
    /// # Errors
    /// `EINVAL` if the address is not of a group, or an error of the provider.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn join(endpoint: &Self::Endpoint, address: &EndpointAddr, context: u64) -> Result<Self::Group, Errno>;
    /// Identity of a group in events.
    fn group_fid(group: &Self::Group) -> Fid;
    /// `fi_mc_addr`
    ///
    /// # Safety
    /// Contract of callers. The event of the join has reported success.
    unsafe fn group_address(group: &Self::Group) -> FabricAddr;
    /// `fi_close` of a group: the endpoint leaves it. If this fails, the endpoint stays in the
    /// group until it is closed.
    ///
    /// # Safety
    /// Contract of callers. The group is one of this endpoint.
    unsafe fn leave(endpoint: &Self::Endpoint, group: &Self::Group) -> Result<(), Errno>;
}
