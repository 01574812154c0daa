//! A queue that may be forgotten, with memory that it would go on writing.

use loom_core::av::Av;
use loom_core::cq::Cq;
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::soft::{Network, NetworkAttr};

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let mut memory = [0; 8];
    let cq = Cq::open(&domain, 4).unwrap();
    let endpoint = cq.endpoint(&av).unwrap();
    endpoint.recv(Source::Any, &mut memory[..]).unwrap();
}
