//! A queue that is opened inside of a scope, but not by way of it, with memory that it would go on writing.

use loom_core::av::Av;
use loom_core::cq::Cq;
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::scope;
use loom_core::soft::{Network, NetworkAttr};

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let mut memory = [0; 8];
    scope(|_| {
        let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, 4).unwrap());
        let endpoint = cq.endpoint(&av).unwrap();
        endpoint.recv(Source::Any, &mut memory[..]).unwrap();
    });
}
