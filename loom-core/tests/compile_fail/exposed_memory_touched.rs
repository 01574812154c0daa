//! Memory that is touched while peers may reach it.

use loom_core::objects::domain::Domain;
use loom_core::objects::mr;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::vocabulary::Access;

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let mut memory = [0; 8];
    mr::scope(&domain, &mut memory[..], Access::REMOTE_WRITE, |region| {
        memory[0] = 1;
        assert_eq!(region.window().len(), 8);
    })
    .unwrap();
}
