//! A buffer that is declared inside of the closure: it ends before the scope does, which would close the queue if it was forgotten.

use loom_core::av::Av;
use loom_core::cq::Cq;
use loom_core::endpoint::Source;
use loom_core::scope;
use loom_core::soft::{Network, NetworkAttr};

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    scope(|s| {
        let mut memory = [0; 8];
        let domain = s.open(&network.info()).unwrap();
        let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, 4).unwrap());
        let endpoint = cq.endpoint(&av).unwrap();
        endpoint.recv(Source::Any, &mut memory[..]).unwrap();
    });
}
