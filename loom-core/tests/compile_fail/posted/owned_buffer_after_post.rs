//! An owned buffer that is used after it was posted.

use loom_core::av::Av;
use loom_core::cq::Cq;
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::soft::{Network, NetworkAttr};

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let cq = Cq::open(&domain, 4).unwrap();
    let endpoint = cq.endpoint(&av).unwrap();
    let buffer: Box<[u8]> = Box::new([0; 8]);
    endpoint.recv(Source::Any, buffer).unwrap();
    assert_eq!(buffer[0], 0);
}
