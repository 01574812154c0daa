//! An endpoint that is kept beyond the scope of its queue.

use loom_core::av::Av;
use loom_core::cq::Cq;
use loom_core::endpoint::Endpoint;
use loom_core::scope;
use loom_core::soft::{Network, NetworkAttr, Soft};

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let mut kept: Option<Endpoint<'_, Soft<'_>, Box<[u8]>>> = None;
    scope(|s| {
        let domain = s.open(&network.info()).unwrap();
        let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, 4).unwrap());
        let endpoint = cq.endpoint(&av).unwrap();
        kept = Some(endpoint);
    });
    drop(kept);
}
