//! A region that peers reach through one endpoint, on another thread than the endpoint's.

use loom_core::av::Av;
use loom_core::cq::Cq;
use loom_core::domain::Domain;
use loom_core::mr::Mr;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::vocabulary::Access;

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 1).unwrap();
    let cq = Cq::<_, Vec<u8>>::open(&domain, 4).unwrap();
    let endpoint = cq.endpoint(&av).unwrap();
    let region = Mr::open_for(&domain, &endpoint, vec![0; 8], Access::REMOTE_WRITE).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| drop(region));
    });
}
