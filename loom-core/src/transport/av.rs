//! [`AddressVectors`]: the addresses of peers.

use super::Fabrics;
use crate::vocabulary::{EndpointAddr, Errno, FabricAddr};

/// The addresses of peers, as numbers.
///
/// # Safety
/// As [`Transport`](super::Transport).
pub unsafe trait AddressVectors: Fabrics {
    /// `fid_av`
    type Av;

    /// How many places a table needs for `capacity` peers: fabric addresses of the domain have smaller indices.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn av_places(domain: &Self::Domain, capacity: usize) -> usize;
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
    /// `fi_av_insert` of one address.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn av_insert(av: &Self::Av, address: &EndpointAddr) -> Result<FabricAddr, Errno>;
    /// `fi_av_insert` of many addresses: each result is what [`av_insert`](Self::av_insert) says of the address at its place. An
    /// address that is there twice is the same in both places, and one `av_remove` takes it out.
    ///
    /// # Safety
    /// The contract of callers; there are as many results as addresses.
    unsafe fn av_insert_all(av: &Self::Av, addresses: &[EndpointAddr], results: &mut [Result<FabricAddr, Errno>]) {
        for (address, result) in addresses.iter().zip(results) {
            // SAFETY: the caller's promise.
            *result = unsafe { Self::av_insert(av, address) };
        }
    }
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
