use super::Fabrics;
use crate::vocabulary::{EndpointAddr, Errno, FabricAddr};

/// Room of an address vector, and treatment of removed addresses: [`AddressVectors::av_room`]. By
/// default, addresses stay in the vector while an endpoint is bound to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AvRoom {
    /// Number of slots of the table. Fabric addresses of the vector have smaller indices.
    pub places: usize,
    /// Maximum number of addresses in the raw vector at a time, if addresses may be removed while
    /// endpoints are bound and operations in flight refer to them. The next insertion then gets the
    /// lowest free index.
    pub reused: Option<usize>,
    /// Maximum number of insertions in the lifetime of a vector, or `None` if unlimited.
    pub limit: Option<usize>,
}

/// Addresses of peers, as numbers.
///
/// # Safety
/// The promises of [`Transport`](super::Transport).
pub unsafe trait AddressVectors: Fabrics {
    /// `fid_av`
    type Av;

    /// Room required by a vector for `capacity` peers.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn av_room(domain: &Self::Domain, capacity: usize) -> AvRoom;
    /// `fi_av_open` for about `capacity` peers, as a table (`FI_AV_TABLE`). The low 32 bits of its
    /// fabric addresses are small numbers, one for each peer, and the high `rx_ctx_bits` the number
    /// of a receive context.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn av_open(domain: &Self::Domain, capacity: usize, rx_ctx_bits: u8) -> Result<Self::Av, Errno>;
    /// `fi_close` of an address vector.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn av_close(av: &Self::Av) -> Result<(), Errno>;
    /// `fi_av_insert` of one address. Returns `ENOSPC` after [`AvRoom::limit`] insertions.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn av_insert(av: &Self::Av, address: &EndpointAddr) -> Result<FabricAddr, Errno>;
    /// `fi_av_insertsvc` of an address by the name of its node and service, or by its own text.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn av_insert_service(av: &Self::Av, node: &str, service: Option<&str>) -> Result<FabricAddr, Errno>;
    /// `fi_av_remove` of one address.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn av_remove(av: &Self::Av, peer: FabricAddr) -> Result<(), Errno>;
    /// `fi_av_lookup`
    ///
    /// # Safety
    /// Contract of callers. `peer` was inserted and not removed.
    unsafe fn av_lookup(av: &Self::Av, peer: FabricAddr) -> Result<EndpointAddr, Errno>;
}
