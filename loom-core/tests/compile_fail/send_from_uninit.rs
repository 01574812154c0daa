//! Sending bytes that may not be initialised.

use core::mem::MaybeUninit;
use loom_core::objects::av::Av;
use loom_core::objects::cq::{self, CqAttr};
use loom_core::objects::domain::Domain;
use loom_core::soft::{Network, NetworkAttr};

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let mut memory = [MaybeUninit::uninit(); 8];
    cq::scope(&domain, CqAttr::<4>::new(), |cq| {
        let endpoint = cq.endpoint(&av).enable().unwrap();
        let peer = av.insert(&endpoint.address().unwrap()).unwrap();
        endpoint.send(peer, &mut memory[..]).unwrap();
    })
    .unwrap();
}
