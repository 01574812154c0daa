//! A counter that ends before the queue whose endpoints it counts for.

use loom_core::objects::av::Av;
use loom_core::objects::counter::{Counter, CounterAttr};
use loom_core::objects::cq::{Cq, CqAttr, CqOwner};
use loom_core::objects::domain::Domain;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::vocabulary::Counted;

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let counter = Counter::open(&domain, CounterAttr::default()).unwrap();
    let owner: CqOwner<'_, _, Box<[u8]>, _, 4> = Cq::open(&domain, CqAttr::new()).unwrap();
    let endpoint = owner.endpoint(&av).counter(Counted::SEND, &counter).enable().unwrap();
    drop(counter);
    assert!(endpoint.address().is_ok());
}
