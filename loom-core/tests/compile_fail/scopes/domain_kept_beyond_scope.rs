//! A domain that is kept beyond its scope.

use loom_core::scope;
use loom_core::soft::{Network, NetworkAttr};

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let kept = scope(|s| s.open(&network.info()).unwrap());
    drop(kept);
}
