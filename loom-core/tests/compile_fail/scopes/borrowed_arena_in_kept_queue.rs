//! A queue that may be forgotten, in memory that ends before it.

use loom_core::allocator_api2::alloc::Global;
use loom_core::cq::Cq;
use loom_core::domain::Domain;
use loom_core::soft::{Network, NetworkAttr};

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let arena = Global;
    let cq = Cq::<_, Vec<u8>>::open_in(&domain, 4, &arena).unwrap();
    assert_eq!(cq.in_flight(), 0);
}
