//! An endpoint that is kept beyond the scope of its queue.

use loom_core::objects::av::Av;
use loom_core::objects::cq::{self, CqAttr};
use loom_core::objects::domain::Domain;
use loom_core::objects::endpoint::Endpoint;
use loom_core::soft::{Network, NetworkAttr, Soft};

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let mut kept: Option<Endpoint<'_, '_, Soft<'_>, Box<[u8]>>> = None;
    cq::scope(&domain, CqAttr::<4>::new(), |cq| {
        kept = Some(cq.endpoint(&av).enable().unwrap());
    })
    .unwrap();
    drop(kept);
}
