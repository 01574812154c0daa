//! A region of borrowed memory that is kept beyond its scope.

use loom_core::mr::Mr;
use loom_core::scope;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::vocabulary::Access;

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let mut memory = [0; 8];
    let region = scope(|s| {
        let domain = s.open(&network.info()).unwrap();
        Mr::open(&domain, &mut memory[..], Access::REMOTE_WRITE).unwrap()
    });
    drop(region);
}
