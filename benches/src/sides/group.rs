//! Collective operations of a group over the software transport, with all members on one thread and
//! one queue.

use loom_core::av::Av;
use loom_core::collective::ReduceOp;
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Forever;
use loom_core::domain::Domain;
use loom_core::endpoint::CollectiveGroup;
use loom_core::engine::op_table::OpKey;
use loom_core::error::PostError;
use loom_core::info::Hints;
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::Caps;

use crate::Failure;

/// Number of members.
pub(crate) const MEMBERS: u16 = 4;

/// Operation of all members, with all completions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Together {
    Barrier,
    /// All-reduce of one word.
    AllReduce,
}

impl Together {
    pub(crate) const ALL: [Together; 2] = [Together::Barrier, Together::AllReduce];

    /// Returns the name in metrics.
    pub(crate) fn name(self) -> String {
        let kind = match self {
            Together::Barrier => "barrier",
            Together::AllReduce => "all_reduce.8B",
        };
        format!("{kind}.{MEMBERS}_members")
    }
}

pub(crate) struct Group {
    cq: Cq<'static, Soft<'static>, ()>,
    members: Vec<CollectiveGroup<'static, Soft<'static>, ()>>,
}

impl Group {
    /// Opens the group, does everything a few times, and checks the results.
    pub(crate) fn open() -> Result<Self, Failure> {
        let network = Network::new(NetworkAttr { endpoints: MEMBERS, ..NetworkAttr::DEFAULT })?;
        let hints = Hints { caps: Caps::MSG | Caps::COLLECTIVE, ..Hints::default() };
        let domain = Domain::open(&network.query(&hints)?)?;
        let (av, cq) = (Av::open(&domain, usize::from(MEMBERS))?, Cq::open(&domain, CqAttr::new(16))?);
        let endpoints: Vec<_> = (0..MEMBERS).map(|_| cq.endpoint(&av)).collect::<Result<_, _>>()?;
        for endpoint in &endpoints {
            av.insert(&endpoint.address()?)?;
        }
        let mut set = av.set_in(MEMBERS.into(), loom_core::allocator_api2::alloc::Global)?;
        for peer in av.peer_table().iter() {
            set.insert(peer)?;
        }
        let join = |endpoint: &loom_core::Endpoint<'static, _, _>| endpoint.join_collective(&set);
        let members = endpoints.iter().map(join).collect::<Result<_, _>>()?;
        let group = Group { cq, members };
        Together::ALL.into_iter().for_each(|operation| group.run(operation, 3));
        Ok(group)
    }

    pub(crate) fn run(&self, operation: Together, count: u32) {
        match operation {
            Together::Barrier => self.barrier(count),
            Together::AllReduce => self.all_reduce(count),
        }
    }

    #[inline(always)]
    fn all(&self, post: impl Fn(&CollectiveGroup<'static, Soft<'static>, ()>) -> Result<OpKey, PostError>) -> Keys {
        let mut keys = [None; MEMBERS as usize];
        for (key, member) in keys.iter_mut().zip(&self.members) {
            *key = Some(self.cq.retry(Forever, || post(member)).expect("posted"));
        }
        keys
    }

    #[inline(never)]
    fn barrier(&self, count: u32) {
        for _ in 0..count {
            for key in self.all(CollectiveGroup::barrier).into_iter().flatten() {
                let ended = self.cq.wait_value(key, Forever).expect("the queue works").expect("there is no deadline");
                ended.result().expect("the operation succeeds");
            }
        }
    }

    #[inline(never)]
    fn all_reduce(&self, count: u32) {
        for number in 0..u64::from(count) {
            let keys = self.all(|member| member.all_reduce_value(ReduceOp::<u64>::SUM, number));
            for key in keys.into_iter().flatten() {
                let ended = self.cq.wait_value(key, Forever).expect("the queue works").expect("there is no deadline");
                let sum = ended.value::<u64>().expect("the operation succeeds");
                assert_eq!(sum, Some(number * u64::from(MEMBERS)));
            }
        }
    }
}

type Keys = [Option<OpKey>; MEMBERS as usize];
