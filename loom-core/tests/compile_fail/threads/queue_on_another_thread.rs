//! A queue, and an endpoint of it, that another thread is to use without being parked.

use loom_core::soft::{Network, NetworkAttr};
use loom_core::{Av, Cq, Domain};

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 4).unwrap());
    let endpoint = cq.endpoint(&av).unwrap();
    std::thread::spawn(move || (cq.in_flight(), endpoint.inject_size()));
}
