mod asleep;
mod beside;
mod threads;

use std::future::Future;
use std::time::Duration;

use loom_core::driver::{CqDriver, Unclaimed};
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::{Av, Cq, CqAttr, Domain, Endpoint, Peer};

type S = Soft<'static>;
type Bytes = Vec<u8>;

const LIMIT: Duration = Duration::from_secs(60);

fn on_one_thread<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(LIMIT, future).await.expect("it ends in time") })
}

struct Side {
    driver: CqDriver<'static, S, Bytes>,
    endpoint: Endpoint<'static, S, Bytes>,
    av: Av<'static, S>,
}

impl Side {
    fn open(domain: &Domain<'static, S>, attr: CqAttr) -> Self {
        let (av, cq) = (Av::open(domain, 4).unwrap(), Cq::open(domain, attr).unwrap());
        let endpoint = cq.endpoint(&av).unwrap();
        Side { driver: CqDriver::open(&cq, Unclaimed::Drop).unwrap(), endpoint, av }
    }
}

fn domain() -> Domain<'static, S> {
    let network = Network::new(NetworkAttr::default()).unwrap();
    Domain::open(&network.info()).unwrap()
}

fn pair(attr: CqAttr) -> [(Side, Peer); 2] {
    let domain = domain();
    let [a, b] = [Side::open(&domain, attr), Side::open(&domain, attr)];
    let [to_a, to_b] =
        [b.av.insert(&a.endpoint.address().unwrap()).unwrap(), a.av.insert(&b.endpoint.address().unwrap()).unwrap()];
    [(a, to_b), (b, to_a)]
}
