//! A region that may be forgotten, over memory that peers would go on writing.

use loom_core::domain::Domain;
use loom_core::mr::Mr;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::vocabulary::Access;

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let mut memory = [0; 8];
    let region = Mr::open(&domain, &mut memory[..], Access::REMOTE_WRITE).unwrap();
    drop(region);
}
