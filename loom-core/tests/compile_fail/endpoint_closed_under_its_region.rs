//! An endpoint that is closed while a region is bound to it.

use loom_core::objects::av::Av;
use loom_core::objects::cq::{Cq, CqAttr};
use loom_core::objects::domain::Domain;
use loom_core::objects::mr::Mr;
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::Access;

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 1).unwrap();
    let cq = Cq::<Soft<'_>, Vec<u8>>::open(&domain, CqAttr::<4>::new()).unwrap();
    let endpoint = cq.endpoint(&av).enable().unwrap();
    let region = Mr::builder(&domain, Access::REMOTE_WRITE).open_for(&endpoint, vec![0; 8]).unwrap();
    drop(endpoint);
    drop(region);
}
