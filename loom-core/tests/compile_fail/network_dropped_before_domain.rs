//! A network that ends before a domain on it.

use loom_core::objects::domain::Domain;
use loom_core::soft::{Network, NetworkAttr};

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    drop(network);
    assert_eq!(domain.info().provider(), "soft");
}
