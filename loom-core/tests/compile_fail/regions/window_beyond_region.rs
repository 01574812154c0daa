//! A view of a region that outlives it.

use loom_core::domain::Domain;
use loom_core::mr::Mr;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::vocabulary::Access;

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let region = Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE).unwrap();
    let window = region.window();
    drop(region);
    assert_eq!(window.len(), 8);
}
