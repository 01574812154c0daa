//! An address vector that ends before the queue: a forgotten endpoint would outlive it.

use loom_core::objects::av::Av;
use loom_core::objects::cq::{self, CqAttr};
use loom_core::objects::domain::Domain;
use loom_core::objects::endpoint::Source;
use loom_core::soft::{Network, NetworkAttr};

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    cq::scope(&domain, CqAttr::<4>::new(), |cq| {
        let av = Av::open(&domain, 2).unwrap();
        let endpoint = cq.endpoint(&av).enable().unwrap();
        endpoint.recv(Source::Any, ()).unwrap();
    })
    .unwrap();
}
