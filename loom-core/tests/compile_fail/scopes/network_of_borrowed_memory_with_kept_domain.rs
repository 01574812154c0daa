//! A domain that may be forgotten, on a network that lies in memory which ends before it.

use loom_core::allocator_api2::alloc::Global;
use loom_core::domain::Domain;
use loom_core::soft::{Network, NetworkAttr};

fn main() {
    let arena = Global;
    let network = Network::new_in(NetworkAttr::default(), &arena).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    assert_eq!(domain.info().provider(), "soft");
}
