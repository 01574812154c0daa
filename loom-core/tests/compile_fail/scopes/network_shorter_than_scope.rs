//! A network that ends before the scope does, which would close a forgotten queue of it.

use loom_core::allocator_api2::alloc::Global;
use loom_core::cq::Cq;
use loom_core::scope;
use loom_core::soft::{Network, NetworkAttr};

fn main() {
    scope(|s| {
        let arena = Global;
        let network = Network::new_in(NetworkAttr::default(), &arena).unwrap();
        let domain = s.open(&network.info()).unwrap();
        core::mem::forget(Cq::<_, Vec<u8>>::open(&domain, 4).unwrap());
    });
}
