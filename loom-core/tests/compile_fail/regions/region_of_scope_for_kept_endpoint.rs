//! A region of a scope for an endpoint that is kept, which a forgotten region would keep open.

use loom_core::av::Av;
use loom_core::cq::Cq;
use loom_core::domain::Domain;
use loom_core::mr::Mr;
use loom_core::scope;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::vocabulary::Access;

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 4).unwrap());
    let endpoint = cq.endpoint(&av).unwrap();
    scope(|s| {
        let domain = s.domain(&domain);
        Mr::open_for(&domain, &endpoint, vec![0; 8], Access::REMOTE_WRITE).unwrap();
    });
}
