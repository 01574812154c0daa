use loom_core::allocator_api2::alloc::Global;
use loom_core::soft::{Every, Network, NetworkAttr, Plan, Soft};
use loom_core::{Domain, EndpointAddr};
use loom_group::CollectiveError;
use loom_group::collective::{Combine, Element, Running, Team, TeamAttr};
use loom_group::{PeerIndex, Prepared};

use crate::teams::counted::Counted;

pub(crate) type Side = Soft<'static>;
pub(crate) type Group = loom_group::Group<'static, Side, Counted, Global>;
pub(crate) type Members<'g> = Team<'g, 'static, Side, Counted, Global>;
pub(crate) type Run<'t, 'b, E, C> = Running<'t, 'b, 'static, Side, Counted, Global, E, C>;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) members: u32,
    pub(crate) depth: usize,
    pub(crate) tx_depth: u32,
    pub(crate) eager: u32,
}

impl Size {
    pub(crate) const fn new(members: u32) -> Self {
        Size { members, depth: 64, tx_depth: 32, eager: 64 }
    }
}

pub(crate) const FINE: Plan = Plan::new(0);

fn prepared(size: Size, faults: impl Fn(u32) -> Plan) -> Vec<Prepared<'static, Side, Counted, Global>> {
    let Size { members, depth, tx_depth, eager } = size;
    let attr = NetworkAttr {
        endpoints: u16::try_from(members).unwrap(),
        tx_depth,
        rx_depth: 64,
        eager_size: eager,
        regions: 0,
        ..NetworkAttr::DEFAULT
    };
    let network = Network::new(attr).unwrap();
    let open = |rank| {
        let domain = Domain::open(&network.info_with_faults(faults(rank))).unwrap();
        Prepared::open(&domain, members as usize, depth).unwrap()
    };
    (0..members).map(open).collect()
}

pub(crate) fn groups(size: Size, faults: impl Fn(u32) -> Plan) -> Vec<Group> {
    let prepared = prepared(size, faults);
    let addresses: Vec<EndpointAddr> = prepared.iter().map(|prepared| prepared.address().unwrap()).collect();
    prepared.into_iter().map(|prepared| prepared.connect(&addresses).unwrap()).collect()
}

pub(crate) fn packets(capacity: usize) -> impl Iterator<Item = Counted> {
    std::iter::repeat_with(move || Counted::new(capacity))
}

/// The position in `ranks` is the rank.
pub(crate) fn teams<'g>(groups: &'g [Group], ranks: &[u32], attr: TeamAttr, capacity: usize) -> Vec<Members<'g>> {
    let open = |(rank, member): (u32, &u32)| {
        let peers = ranks.iter().map(|member| PeerIndex(*member));
        Team::open(&groups[*member as usize], attr, peers, rank, packets(capacity)).unwrap()
    };
    (0..).zip(ranks).map(open).collect()
}

pub(crate) trait Turn {
    fn turn(&mut self) -> Result<bool, CollectiveError>;
}

impl<E: Element, C: Combine<E>> Turn for Run<'_, '_, E, C> {
    fn turn(&mut self) -> Result<bool, CollectiveError> {
        Running::turn(self)
    }
}

pub(crate) fn finish<R: Turn>(mut running: Vec<R>) {
    let mut left: Vec<usize> = (0..running.len()).collect();
    for _ in 0..100_000 {
        left.retain(|member| !running[*member].turn().unwrap());
        if left.is_empty() {
            return;
        }
        left.reverse();
    }
    panic!("members {left:?} are not over");
}

pub(crate) fn harmless(seed: u64) -> Plan {
    let plan = Plan::new(seed);
    match seed % 4 {
        0 => Plan { refuse: Every::About(3), ..plan },
        1 => Plan { delay: 9, ..plan },
        2 => Plan { reorder: 9, ..plan },
        _ => Plan { refuse: Every::About(2), delay: 5, reorder: 5, ..plan },
    }
}
