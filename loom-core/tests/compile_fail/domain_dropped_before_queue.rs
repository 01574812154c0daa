//! A domain that ends before its queue.

use loom_core::objects::cq::{Cq, CqAttr, CqOwner};
use loom_core::objects::domain::Domain;
use loom_core::soft::{Network, NetworkAttr};

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let owner: CqOwner<'_, _, Box<[u8]>, _, 4> = Cq::open(&domain, CqAttr::new()).unwrap();
    drop(domain);
    assert_eq!(owner.in_flight(), 0);
}
