//! A counter that is kept for an endpoint of a scope: the scope may close the endpoint on another thread than the counter's.

use loom_core::endpoint::Binding;
use loom_core::av::Av;
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::Cq;
use loom_core::domain::Domain;
use loom_core::scope;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::vocabulary::Counted;

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let counter = Counter::open(&domain, CounterAttr::default()).unwrap();
    scope(|s| {
        let domain = s.domain(&domain);
        let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 4).unwrap());
        cq.endpoint(Binding::to(&av).counter(Counted::SEND, &counter)).unwrap();
    });
}
