//! A counter on two threads at once: providers drive its endpoints when it is read.

use loom_core::counter::{Counter, CounterAttr};
use loom_core::domain::Domain;
use loom_core::soft::{Network, NetworkAttr};

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let counter = Counter::open(&domain, CounterAttr::default()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| counter.read());
    });
}
