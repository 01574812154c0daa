//! A query for a connected endpoint, which the code opens without a connection.

use loom_core::soft::{Network, NetworkAttr};
use loom_core::{Av, Cq, Domain};
use loom_static::query::{Messages, Msg, Query};

type Wanted = (Messages, Msg);

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 4).unwrap());
    <Wanted as Query>::endpoint(&cq, &av).unwrap();
}
