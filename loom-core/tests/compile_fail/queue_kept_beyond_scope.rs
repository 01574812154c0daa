//! A scope's queue that is kept.

use loom_core::objects::cq::{self, Cq, CqAttr};
use loom_core::objects::domain::Domain;
use loom_core::soft::{Network, NetworkAttr, Soft};

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let mut kept: Option<&Cq<'_, Soft<'_>, Box<[u8]>>> = None;
    cq::scope(&domain, CqAttr::<4>::new(), |cq| {
        kept = Some(cq);
    })
    .unwrap();
    assert!(kept.is_some());
}
