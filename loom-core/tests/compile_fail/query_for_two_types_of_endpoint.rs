//! A query for two types of endpoint.

use loom_core::query::{Messages, Msg, Rdm};
use loom_core::soft::{Network, NetworkAttr};
use loom_core::{Av, Cq, Domain};

type Basic = (Rdm, Messages);
type Wanted = (Basic, Msg);

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 4).unwrap());
    cq.endpoint_for::<Wanted>(&av).unwrap();
}
