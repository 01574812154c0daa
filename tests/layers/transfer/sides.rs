//! Two engines that are polled in turn.

use std::time::Instant;

use loom_core::allocator_api2::alloc::Global;
use loom_core::soft::{Network, NetworkAttr, Plan as Faults, Soft};
use loom_core::{Access, Domain, Info, Transport};
use loom_fabric::loom_core;
use loom_transfer::{
    Block, Blocks, Engine, EngineAttr, Event, MemoryKey, Outcome, Pages, PeerKey, Plan, RemoteMemory, Strided, Subset,
};
use support::posting::{LIMIT, pattern};

/// Any plan of these tests.
#[derive(Clone, Debug)]
pub(super) enum AnyPlan {
    One(Block),
    List(Blocks<Vec<Block>>),
    Pages(Pages<Vec<u32>>),
    Strided(Strided),
    Subset(Subset<Strided, Vec<u32>>),
}

impl Plan for AnyPlan {
    fn blocks(&self) -> usize {
        match self {
            AnyPlan::One(plan) => plan.blocks(),
            AnyPlan::List(plan) => plan.blocks(),
            AnyPlan::Pages(plan) => plan.blocks(),
            AnyPlan::Strided(plan) => plan.blocks(),
            AnyPlan::Subset(plan) => plan.blocks(),
        }
    }

    fn block(&self, index: usize) -> Block {
        match self {
            AnyPlan::One(plan) => plan.block(index),
            AnyPlan::List(plan) => plan.block(index),
            AnyPlan::Pages(plan) => plan.block(index),
            AnyPlan::Strided(plan) => plan.block(index),
            AnyPlan::Subset(plan) => plan.block(index),
        }
    }
}

pub(super) type Bytes = Vec<u8>;
pub(super) type Side<T> = Engine<'static, T, Bytes, AnyPlan, Global>;

pub(super) const LEN: usize = 1 << 18;

pub(super) fn block(local: u64, remote: u64, len: u64) -> AnyPlan {
    AnyPlan::One(Block { local, remote, len })
}

pub(super) fn small() -> EngineAttr {
    EngineAttr { peers: 4, memories: 4, transfers: 8, depth: 16, peer_depth: 16, values: 64, ..EngineAttr::default() }
}

pub(super) fn network() -> Network<'static> {
    network_of(16)
}

pub(super) fn network_of(endpoints: u16) -> Network<'static> {
    Network::new(NetworkAttr { endpoints, regions: 16 * endpoints, ..NetworkAttr::default() }).unwrap()
}

pub(super) fn rails<T: Transport + 'static>(info: &Info<T>, count: usize) -> Vec<Domain<'static, T>> {
    (0..count).map(|_| Domain::open(info).unwrap()).collect()
}

pub(super) fn address<T: Transport>(side: &Side<T>) -> Vec<u8> {
    let mut record = vec![0; 16 * 1024];
    let len = side.address(&mut record).unwrap();
    record.truncate(len);
    record
}

/// An initiator and a target, each with memory of [`LEN`] bytes.
pub(super) struct Sides<T: Transport + 'static> {
    pub(super) initiator: Side<T>,
    pub(super) target: Side<T>,
    pub(super) peer: PeerKey,
    pub(super) local: MemoryKey,
    pub(super) exposed: MemoryKey,
    pub(super) remote: RemoteMemory,
    pub(super) arrived: u64,
    /// Domains of the target.
    pub(super) rails: Vec<Domain<'static, T>>,
}

pub(super) fn soft(count: usize, attr: EngineAttr) -> Sides<Soft<'static>> {
    let info = network().info();
    Sides::open(&rails(&info, count), &rails(&info, count), attr)
}

pub(super) fn faulty(count: usize, faults: Faults, attr: EngineAttr) -> Sides<Soft<'static>> {
    let network = network();
    Sides::open(&rails(&network.info_with_faults(faults), count), &rails(&network.info(), count), attr)
}

impl<T: Transport + 'static> Sides<T> {
    pub(super) fn open(here: &[Domain<'static, T>], there: &[Domain<'static, T>], attr: EngineAttr) -> Self {
        let mut initiator = Side::open_in(here, attr, Global).unwrap();
        let mut target = Side::open_in(there, attr, Global).unwrap();
        let local = initiator.register(pattern(LEN, 1), Access::empty()).unwrap();
        let exposed = target.register(vec![0; LEN], Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
        let remote = RemoteMemory::from_bytes(&target.remote(exposed).unwrap().to_bytes()).unwrap();
        let peer = initiator.insert_peer(&address(&target)).unwrap();
        Sides { initiator, target, peer, local, exposed, remote, arrived: 0, rails: there.to_vec() }
    }

    /// Polls both sides until the initiator has an outcome.
    pub(super) fn ended(&mut self) -> Outcome<AnyPlan> {
        let until = Instant::now() + LIMIT;
        loop {
            match self.initiator.poll(0).unwrap() {
                Some(Event::Ended(outcome)) => return outcome,
                Some(Event::Peer { result: Ok(()), .. }) | None => {}
                Some(event) => panic!("{event:?}"),
            }
            self.drive_target();
            assert!(Instant::now() < until, "ended within {LIMIT:?}");
        }
    }

    pub(super) fn drive_target(&mut self) {
        match self.target.poll(0).unwrap() {
            Some(Event::Arrived(_)) => self.arrived += 1,
            Some(Event::Peer { result: Ok(()), .. }) | None => {}
            Some(event) => panic!("{event:?}"),
        }
    }

    /// Polls both sides until this number of waits of the target have ended.
    pub(super) fn arrive(&mut self, waits: u64) {
        self.arrive_with(waits, |outcome| panic!("{outcome:?}"));
    }

    pub(super) fn arrive_with(&mut self, waits: u64, mut ended: impl FnMut(Outcome<AnyPlan>)) {
        let until = Instant::now() + LIMIT;
        while self.arrived < waits {
            self.drive_target();
            match self.initiator.poll(0).unwrap() {
                Some(Event::Ended(outcome)) => ended(outcome),
                event => assert!(event.is_none(), "{event:?}"),
            }
            assert!(Instant::now() < until, "arrived within {LIMIT:?}");
        }
    }

    pub(super) fn bytes(side: &Side<T>, memory: MemoryKey) -> Bytes {
        let mut bytes = vec![0; LEN];
        side.window(memory).unwrap().copy_to(0, &mut bytes).unwrap();
        bytes
    }

    pub(super) fn local_bytes(&self) -> Bytes {
        Self::bytes(&self.initiator, self.local)
    }

    pub(super) fn exposed_bytes(&self) -> Bytes {
        Self::bytes(&self.target, self.exposed)
    }
}

/// Moves the blocks of a plan from one memory to another.
pub(super) fn moved(plan: &AnyPlan, from: &[u8], into: &mut [u8], reads: bool) {
    for index in 0..plan.blocks() {
        let Block { local, remote, len } = plan.block(index);
        let (local, remote, len) = (local as usize, remote as usize, len as usize);
        let (from_at, into_at) = if reads { (remote, local) } else { (local, remote) };
        into[into_at..into_at + len].copy_from_slice(&from[from_at..from_at + len]);
    }
}
