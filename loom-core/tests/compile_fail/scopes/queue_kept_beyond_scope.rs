//! A queue that is kept beyond its scope.

use loom_core::cq::Cq;
use loom_core::scope;
use loom_core::soft::{Network, NetworkAttr, Soft};

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let mut kept: Option<Cq<'_, Soft<'_>, Box<[u8]>>> = None;
    scope(|s| {
        let domain = s.open(&network.info()).unwrap();
        kept = Some(Cq::open(&domain, 4).unwrap());
    });
    assert!(kept.is_some());
}
