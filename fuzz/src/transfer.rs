//! Transfers under faults. Each has one outcome, a completed transfer has moved its bytes, and no
//! other byte changes. Records of memory and addresses may be any bytes, too.

use arbitrary::{Arbitrary, Unstructured};
use loom_core::allocator_api2::alloc::Global;
use loom_core::soft::{Every, Network, NetworkAttr, Plan as Faults, Soft};
use loom_core::{Access, Domain, Info};
use loom_transfer::{
    Block, Ending, Engine, EngineAttr, Event, MemoryKey, PeerKey, Plan, RemoteMemory, Request, Strided, TransferKey,
};

/// Maximum number of transfers at a time, each with its own part of the memory.
const PARTS: usize = 4;
const PART: usize = 512;
const LEN: usize = PARTS * PART;

/// Sizes of the engines, and faults.
#[derive(Arbitrary, Debug)]
struct Setting {
    seed: u64,
    rails: [u8; 2],
    piece: u8,
    batch: u8,
    depth: u8,
    peer_depth: u8,
    refuse: u8,
    fail: u8,
    lose: u8,
    kill: u8,
    overrun: u8,
    reorder: u8,
    delay: u8,
    narrow: bool,
}

#[derive(Arbitrary, Debug)]
enum Step<'a> {
    Submit { part: u8, reads: bool, at: [u8; 2], len: u8, count: u8, pitch: u8, data: Option<u8>, deadline: Option<u8> },
    Cancel { part: u8 },
    Poll { times: u8, target: bool },
    Remove,
    Insert,
    Memory(&'a [u8]),
    Address(&'a [u8]),
}

type Side<P> = Engine<'static, Soft<'static>, Vec<u8>, P, Global>;

/// Transfer in flight.
#[derive(Clone, Copy)]
struct Open {
    key: TransferKey,
    plan: Strided,
    reads: bool,
    deadline: u64,
}

struct World {
    initiator: Side<Strided>,
    target: Side<Block>,
    peer: PeerKey,
    local: MemoryKey,
    exposed: MemoryKey,
    remote: RemoteMemory,
    address: Vec<u8>,
    open: [Option<Open>; PARTS],
    now: u64,
    may_fail: bool,
    /// Its operations were in flight when it ended.
    late: bool,
}

pub fn transfer(data: &[u8]) -> usize {
    let mut bytes = Unstructured::new(data);
    let Ok(setting) = bytes.arbitrary() else { return 0 };
    let mut world = World::open(&setting);
    let mut steps = 1;
    while !bytes.is_empty() && steps < 100 {
        let Ok(step) = bytes.arbitrary() else { break };
        world.play(step);
        steps += 1;
    }
    world.end();
    steps
}

fn pattern(at: usize, side: u8) -> u8 {
    (at % 251) as u8 ^ side
}

fn domains(info: &Info<Soft<'static>>, count: u8) -> Vec<Domain<'static, Soft<'static>>> {
    (0..=count % 4).map(|_| Domain::open(info).expect("room for the rails")).collect()
}

impl World {
    fn open(setting: &Setting) -> Self {
        let attr = NetworkAttr { endpoints: 8, regions: 16, tx_depth: 16, rx_depth: 16, ..NetworkAttr::DEFAULT };
        let network = Network::new(attr).expect("memory");
        let about = |every: u8| Every::About(if every == 0 { 0 } else { 2 + u32::from(every) });
        let faults = Faults {
            refuse: about(setting.refuse),
            fail: about(setting.fail),
            lose: about(setting.lose),
            kill: Every::Nth(setting.kill.into()),
            overrun: Every::Nth(setting.overrun.into()),
            reorder: (setting.reorder % 16).into(),
            delay: (setting.delay % 16).into(),
            narrow_data: setting.narrow,
            unordered: true,
            doorbell: setting.batch & 8 != 0,
            ..Faults::new(setting.seed)
        };
        let attr = EngineAttr {
            peers: 2,
            memories: 1,
            transfers: PARTS,
            depth: 1 + usize::from(setting.depth % 8),
            peer_depth: 1 + usize::from(setting.peer_depth % 16),
            piece: 1 + u64::from(setting.piece),
            values: 8,
            waits: 1,
            remote_writes: 16,
            batch: 1 + usize::from(setting.batch % 8),
            budget: 1 + usize::from(setting.seed as u8),
            ..EngineAttr::default()
        };
        let mut initiator =
            Side::open_in(&domains(&network.info_with_faults(faults), setting.rails[0]), attr, Global).expect("room");
        let mut target = Side::open_in(&domains(&network.info(), setting.rails[1]), attr, Global).expect("room");
        let local = (0..LEN).map(|at| pattern(at, 0x80)).collect();
        let local = initiator.register(local, Access::empty()).expect("room");
        let exposed = (0..LEN).map(|at| pattern(at, 0)).collect();
        let exposed = target.register(exposed, Access::REMOTE_READ | Access::REMOTE_WRITE).expect("room");
        let mut address = vec![0; 16 << 10];
        let len = target.address(&mut address).expect("room for addresses");
        address.truncate(len);
        World {
            peer: initiator.insert_peer(&address).expect("room"),
            remote: target.remote(exposed).expect("registered"),
            may_fail: setting.fail | setting.lose | setting.kill | setting.overrun != 0,
            late: false,
            open: [None; PARTS],
            now: 0,
            initiator,
            target,
            local,
            exposed,
            address,
        }
    }

    fn play(&mut self, step: Step<'_>) {
        match step {
            Step::Submit { part, reads, at, len, count, pitch, data, deadline } => {
                let part = usize::from(part) % PARTS;
                let (first, pitch) = ((part * PART) as u64, u64::from(pitch));
                let first =
                    Block { local: first + u64::from(at[0]), remote: first + u64::from(at[1]), len: len.into() };
                let plan = Strided { first, count: usize::from(count % 8), local_pitch: pitch, remote_pitch: pitch };
                let deadline = deadline.map_or(u64::MAX, |after| self.now + u64::from(after));
                let request = if reads { Request::read } else { Request::write };
                let mut request = request(self.peer, self.local, &self.remote, plan).deadline(deadline);
                if let Some(value) = data.filter(|_| !reads) {
                    let of_last = value >= 128;
                    request = if of_last { Request::signal } else { Request::data }(request, (value % 16).into());
                }
                // Blocks stay in their part, and do not overlap.
                let end = (part * PART + PART) as u64;
                let inside = (0..plan.blocks())
                    .map(|index| plan.block(index))
                    .all(|block| block.local.max(block.remote) + block.len <= end);
                if self.open[part].is_some() || !inside || plan.first.len > pitch && plan.count > 1 {
                    return;
                }
                if let Ok(key) = self.initiator.submit(request) {
                    self.open[part] = Some(Open { key, plan, reads, deadline });
                }
            }
            Step::Cancel { part } => {
                if let Some(open) = self.open[usize::from(part) % PARTS] {
                    self.initiator.cancel(open.key);
                }
            }
            Step::Poll { times, target } => {
                for _ in 0..times % 32 {
                    if target { self.poll_target() } else { self.poll() }
                }
            }
            Step::Remove => {
                self.may_fail |= self.initiator.remove_peer(self.peer);
            }
            Step::Insert => self.peer = self.initiator.insert_peer(&self.address).expect("room for two"),
            Step::Memory(bytes) => {
                if let Ok(remote) = RemoteMemory::from_bytes(bytes) {
                    assert_eq!(remote.to_bytes()[..40], bytes[..40]);
                }
            }
            Step::Address(bytes) => {
                if let Ok(peer) = self.initiator.insert_peer(bytes) {
                    self.initiator.remove_peer(peer);
                }
            }
        }
    }

    fn poll_target(&mut self) {
        assert!(self.target.poll(0).expect("a queue without faults").is_none(), "the target waits for no value");
    }

    fn poll(&mut self) {
        let polled = self.initiator.poll(self.now);
        assert!(polled.is_ok() || self.may_fail, "{polled:?}");
        self.now += 1;
        let Ok(Some(event)) = polled else { return };
        let Event::Ended(outcome) = event else { panic!("{event:?}") };
        let open = self.open.iter_mut().find(|open| open.is_some_and(|open| open.key == outcome.key));
        let Open { plan, reads, deadline, .. } = open.and_then(Option::take).expect("one outcome of each transfer");
        let (operations, bytes) = (plan.operations(self.remote.piece()), plan.bytes());
        assert!(outcome.operations <= operations && outcome.bytes <= bytes);
        match outcome.ending {
            Ending::Done => {
                assert_eq!((outcome.operations, outcome.bytes, outcome.in_flight), (operations, bytes, 0));
                self.moved(&plan, reads);
            }
            Ending::Failed(error) => assert!(self.may_fail, "{error}"),
            Ending::Cancelled => assert!(outcome.in_flight == 0 || self.may_fail || self.now > deadline),
            Ending::Deadline => assert!(self.now > deadline),
        }
        if outcome.in_flight > 0 {
            // Its operations may still write to the part.
            self.late = true;
        }
    }

    /// Checks that both sides of the blocks are equal.
    fn moved(&self, plan: &Strided, reads: bool) {
        let here = self.initiator.window(self.local).expect("registered");
        let there = self.target.window(self.exposed).expect("registered");
        for index in 0..plan.blocks() {
            let Block { local, remote, len } = plan.block(index);
            let (mut ours, mut theirs) = (vec![0; len as usize], vec![0; len as usize]);
            here.copy_to(local as usize, &mut ours).expect("inside");
            there.copy_to(remote as usize, &mut theirs).expect("inside");
            assert!(ours == theirs || self.late, "{plan:?}, a read: {reads}");
        }
    }

    /// Ends all transfers.
    fn end(&mut self) {
        for open in self.open.into_iter().flatten() {
            self.initiator.cancel(open.key);
        }
        let mut left = 10_000;
        while self.open.iter().any(Option::is_some) && left > 0 {
            self.poll();
            self.poll_target();
            left -= 1;
        }
        assert!(self.may_fail || self.late || self.open.iter().all(Option::is_none), "a cancelled transfer ends");
        if self.initiator.in_flight(self.local) == Some(0) && self.open.iter().all(Option::is_none) {
            self.initiator.deregister(self.local).expect("no transfer uses it");
        }
    }
}
