//! The peers of an address vector, as who reads them sees them: a fabric address that the provider did not give out would be one
//! that it follows.

use loom_core::av::Av;
use loom_core::domain::Domain;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::vocabulary::FabricAddr;

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let mut peers = av.peer_table();
    let forged = peers.insert(FabricAddr(1)).unwrap();
    assert_eq!(peers.remove(forged), None);
}
