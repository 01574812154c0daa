//! An address vector that moves while an endpoint refers to it.

use loom_core::objects::av::Av;
use loom_core::objects::cq::{Cq, CqAttr, CqOwner};
use loom_core::objects::domain::Domain;
use loom_core::soft::{Network, NetworkAttr};

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let owner: CqOwner<'_, _, Box<[u8]>, _, 4> = Cq::open(&domain, CqAttr::new()).unwrap();
    let endpoint = owner.endpoint(&av).enable().unwrap();
    let elsewhere = Box::new(av);
    assert!(endpoint.address().is_ok());
    drop(elsewhere);
}
