//! Memory of an object that ends before the scope does, which would close the object if it was forgotten.

use loom_core::allocator_api2::alloc::Global;
use loom_core::cq::Cq;
use loom_core::scope;
use loom_core::soft::{Network, NetworkAttr};

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    scope(|s| {
        let domain = s.open(&network.info()).unwrap();
        let arena = Global;
        let cq = Cq::<_, Vec<u8>>::open_in(&domain, 4, &arena).unwrap();
        assert_eq!(cq.in_flight(), 0);
    });
}
