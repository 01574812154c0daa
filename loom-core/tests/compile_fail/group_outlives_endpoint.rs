//! A multicast group that is used after its endpoint was closed.

use loom_core::objects::endpoint::MulticastEndpoint;
use loom_core::transport::Multicast;
use loom_core::vocabulary::EndpointAddr;

fn late<T: Multicast>(endpoint: MulticastEndpoint<'_, '_, T, &'static [u8]>, address: &EndpointAddr) {
    let group = endpoint.join(address).unwrap();
    drop(endpoint);
    group.leave().unwrap();
}

fn main() {}
