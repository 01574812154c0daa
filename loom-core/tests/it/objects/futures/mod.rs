//! Futures over the software transport. Data moves, an event wakes its waiter, and dropped futures
//! lose no event.

mod asleep;
mod dropping;
mod ends;
mod operations;
mod rare;
mod stories;
mod waiting;
mod wakers;

use loom_core::driver::{CqDriver, Unclaimed};
use loom_core::soft::{Network, NetworkAttr, Plan, Soft};
use loom_core::{Av, Buffer, Cq, CqAttr, Domain, Endpoint, Peer};

type S = Soft<'static>;

const ATTR: NetworkAttr =
    NetworkAttr { endpoints: 3, tx_depth: 64, rx_depth: 64, eager_size: 64, regions: 8, ..NetworkAttr::DEFAULT };

/// Two endpoints of one queue, which is driven.
struct Pair<B: Buffer + 'static> {
    driver: CqDriver<'static, S, B>,
    alice: Endpoint<'static, S, B>,
    bob: Endpoint<'static, S, B>,
    to_alice: Peer,
    to_bob: Peer,
    cq: Cq<'static, S, B>,
    av: Av<'static, S>,
    domain: Domain<'static, S>,
}

impl<B: Buffer + 'static> Pair<B> {
    fn open(depth: usize, unclaimed: Unclaimed) -> Self {
        Self::with(ATTR, CqAttr::new(depth), unclaimed, None)
    }

    fn with(attr: NetworkAttr, cq: CqAttr, unclaimed: Unclaimed, plan: Option<Plan>) -> Self {
        let network = Network::new(attr).unwrap();
        let info = plan.map_or_else(|| network.info(), |plan| network.info_with_faults(plan));
        let domain = Domain::open(&info).unwrap();
        let (av, cq) = (Av::open(&domain, 4).unwrap(), Cq::open(&domain, cq).unwrap());
        let [alice, bob] = [cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap()];
        let [to_alice, to_bob] = [&alice, &bob].map(|endpoint| av.insert(&endpoint.address().unwrap()).unwrap());
        let driver = CqDriver::open(&cq, unclaimed).unwrap();
        Pair { driver, alice, bob, to_alice, to_bob, cq, av, domain }
    }
}
