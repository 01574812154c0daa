//! Memory that is touched while peers may reach it.

use loom_core::mr::Mr;
use loom_core::scope;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::vocabulary::Access;

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let mut memory = [0; 8];
    scope(|s| {
        let domain = s.open(&network.info()).unwrap();
        let region = Mr::open(&domain, &mut memory[..], Access::REMOTE_WRITE).unwrap();
        memory[0] = 1;
        assert_eq!(region.window().len(), 8);
    });
}
