//! [`AddressVectors`]: the addresses of peers.

use super::Fabrics;
use crate::vocabulary::{EndpointAddr, Errno, FabricAddr};

/// Room of an address vector, and the fate of removed addresses: [`AddressVectors::av_room`].
///
/// ```
/// use loom_core::transport::AvRoom;
///
/// // A provider from which addresses cannot be removed while endpoints are open.
/// assert_eq!(AvRoom::new(64), AvRoom { places: 64, reused: None, limit: None });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AvRoom {
    /// Number of places of the table: fabric addresses of the vector have smaller indices.
    pub places: usize,
    /// Maximum number of addresses that the raw vector holds at a time, where addresses may be removed while endpoints are bound to the
    /// vector and while operations in flight refer to them. The next insertion gets the lowest free index. `None` where addresses may not
    /// be removed so.
    pub reused: Option<usize>,
    /// Maximum number of addresses that the provider takes in the lifetime of a vector, or `None` if unlimited.
    pub limit: Option<usize>,
}

impl AvRoom {
    /// Room for this number of addresses, which stay in the vector while an endpoint is bound to it.
    #[must_use]
    pub const fn new(places: usize) -> Self {
        AvRoom { places, reused: None, limit: None }
    }
}

/// The addresses of peers, as numbers.
///
/// # Safety
/// As [`Transport`](super::Transport).
pub unsafe trait AddressVectors: Fabrics {
    /// `fid_av`
    type Av;

    /// Room that a vector for `capacity` peers needs.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn av_room(domain: &Self::Domain, capacity: usize) -> AvRoom;
    /// `fi_av_open` for about `capacity` peers, as a table (`FI_AV_TABLE`): the low 32 bits of the fabric addresses
    /// that it hands out are small numbers, one for each peer.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn av_open(domain: &Self::Domain, capacity: usize) -> Result<Self::Av, Errno>;
    /// `fi_close` of an address vector.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn av_close(av: &Self::Av) -> Result<(), Errno>;
    /// `fi_av_insert` of one address. `ENOSPC` if the vector has taken as many as [`AvRoom::limit`].
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn av_insert(av: &Self::Av, address: &EndpointAddr) -> Result<FabricAddr, Errno>;
    /// `fi_av_insertsvc`: an address by the name of its node and service, or by its own text.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn av_insert_service(av: &Self::Av, node: &str, service: Option<&str>) -> Result<FabricAddr, Errno>;
    /// `fi_av_remove` of one address.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn av_remove(av: &Self::Av, peer: FabricAddr) -> Result<(), Errno>;
    /// `fi_av_lookup`
    ///
    /// # Safety
    /// The contract of callers; `peer` was inserted and not removed.
    unsafe fn av_lookup(av: &Self::Av, peer: FabricAddr) -> Result<EndpointAddr, Errno>;
}
