//! Two endpoints of one driven queue.

use loom_core::driver::{CqDriver, Unclaimed};
use loom_core::soft::{Network, NetworkAttr, Plan, Soft};
use loom_core::{Av, Buffer, Cq, CqAttr, Domain, Endpoint, Peer};

type S = Soft<'static>;

pub const ATTR: NetworkAttr =
    NetworkAttr { endpoints: 3, tx_depth: 64, rx_depth: 64, eager_size: 64, regions: 8, ..NetworkAttr::DEFAULT };

/// Two endpoints of one driven queue.
pub struct Pair<B: Buffer + 'static> {
    pub driver: CqDriver<'static, S, B>,
    pub alice: Endpoint<'static, S, B>,
    pub bob: Endpoint<'static, S, B>,
    pub to_alice: Peer,
    pub to_bob: Peer,
    pub cq: Cq<'static, S, B>,
    pub av: Av<'static, S>,
    pub domain: Domain<'static, S>,
}

impl<B: Buffer + 'static> Pair<B> {
    pub fn open(depth: usize, unclaimed: Unclaimed) -> Self {
        Self::with(ATTR, CqAttr::new(depth), unclaimed, None)
    }

    pub fn with(attr: NetworkAttr, cq: CqAttr, unclaimed: Unclaimed, plan: Option<Plan>) -> Self {
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
