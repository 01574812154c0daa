//! An address vector of a scope for an endpoint of a queue that is kept, which would go on using it.

use loom_core::av::Av;
use loom_core::cq::Cq;
use loom_core::domain::Domain;
use loom_core::scope;
use loom_core::soft::{Network, NetworkAttr};

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let cq = Cq::<_, Box<[u8]>>::open(&domain, 4).unwrap();
    scope(|s| {
        let av = Av::open(&s.domain(&domain), 2).unwrap();
        cq.endpoint(&av).unwrap();
    });
}
