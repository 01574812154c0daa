//! Memory that is written while it is being sent from.

use loom_core::objects::av::Av;
use loom_core::objects::cq::{self, CqAttr};
use loom_core::objects::domain::Domain;
use loom_core::soft::{Network, NetworkAttr};

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let mut memory = [0; 8];
    cq::scope(&domain, CqAttr::<4>::new(), |cq| {
        let endpoint = cq.endpoint(&av).enable().unwrap();
        let peer = av.insert(&endpoint.address().unwrap()).unwrap();
        endpoint.send(peer, &memory[..]).unwrap();
        memory[0] = 1;
    })
    .unwrap();
}
