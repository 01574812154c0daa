//! Notifications of a good peer beside a forger. Each is reported once, with its message, after its
//! data.

mod forger;

use arbitrary::{Arbitrary, Unstructured};
use loom_core::allocator_api2::alloc::Global;
use loom_core::soft::{Every, Network, NetworkAttr, Plan as Faults, Soft};
use loom_core::{Access, Domain, Info};
use loom_transfer::{
    Block, Ending, Engine, EngineAttr, Event, MemoryKey, NotificationKey, PeerKey, Plan, RemoteMemory, Request, Strided,
};

use forger::{Forged, Forger};

/// Maximum number of notified transfers at a time, each with its own part of the memory.
const PARTS: usize = 4;
const PART: usize = 256;
const LEN: usize = PARTS * PART;
/// First name of plain messages. Names of parts are lower.
const PLAIN: u8 = 0x80;

#[derive(Arbitrary, Debug)]
struct Setting {
    seed: u64,
    rails: [u8; 2],
    piece: u8,
    batch: u8,
    notifications: u8,
    fragments: u8,
    refuse: u8,
    reorder: u8,
    delay: u8,
    narrow: bool,
    /// Links the forger to both sides at first.
    linked: bool,
}

#[derive(Arbitrary, Debug)]
enum Step<'a> {
    Submit { part: u8, at: [u8; 2], len: u8, count: u8, pitch: u8, message: u8 },
    Notify { back: bool, message: u8 },
    Poll { times: u8, side: bool },
    Forge { side: bool, forged: Forged<'a> },
    Drive,
    Keep(bool),
}

type Side = Engine<'static, Soft<'static>, Vec<u8>, Strided, Global>;

struct World {
    /// Initiator and target.
    sides: [Side; 2],
    /// Key of the other side at each.
    peers: [PeerKey; 2],
    local: MemoryKey,
    exposed: MemoryKey,
    remote: RemoteMemory,
    forger: Forger,
    /// Plan and length of the message of each transfer without a notification. `transfers` counts
    /// those without an outcome.
    open: [Option<(Strided, u8)>; PARTS],
    transfers: usize,
    /// Lengths of messages without a transfer, to each side.
    plain: [Vec<u8>; 2],
    /// Keeps notifications of the forger.
    keeps: bool,
    /// Reports of each side about the forger's peers.
    linked: [usize; 2],
}

pub fn notifications(data: &[u8]) -> usize {
    let mut bytes = Unstructured::new(data);
    let Ok(setting) = bytes.arbitrary::<Setting>() else { return 0 };
    let mut world = World::open(&setting);
    if setting.linked {
        world.link();
    }
    let mut steps = 1;
    while !bytes.is_empty() && steps < 100 {
        let Ok(step) = bytes.arbitrary() else { break };
        world.play(step);
        steps += 1;
    }
    world.end();
    steps
}

fn pattern(at: usize) -> u8 {
    (at % 250) as u8 + 1
}

/// Returns a message of the name and length.
fn message(name: u8, len: u8) -> Vec<u8> {
    core::iter::once(name).chain((0..4 * usize::from(len)).map(pattern)).collect()
}

fn domains(info: &Info<Soft<'static>>, count: u8) -> Vec<Domain<'static, Soft<'static>>> {
    (0..=count % 3).map(|_| Domain::open(info).expect("room for the rails")).collect()
}

fn record(side: &Side) -> Vec<u8> {
    let mut record = vec![0; 1024];
    let len = side.address(&mut record).expect("room for addresses");
    record.truncate(len);
    record
}

impl World {
    fn open(setting: &Setting) -> Self {
        let attr = NetworkAttr {
            endpoints: 10,
            tx_depth: 16,
            rx_depth: 32,
            eager_size: 128,
            regions: 16,
            groups: 0,
            lanes: 1,
            ..NetworkAttr::DEFAULT
        };
        let network = Network::new(attr).expect("memory");
        let faults = Faults {
            refuse: Every::About(if setting.refuse == 0 { 0 } else { 2 + u32::from(setting.refuse) }),
            reorder: (setting.reorder % 16).into(),
            delay: (setting.delay % 16).into(),
            narrow_data: setting.narrow,
            unordered: true,
            ..Faults::new(setting.seed)
        };
        let attr = EngineAttr {
            peers: forger::PEERS,
            memories: 1,
            transfers: PARTS,
            depth: 8,
            peer_depth: 8,
            piece: 1 + u64::from(setting.piece),
            values: forger::VALUES,
            waits: 1,
            remote_writes: 64,
            batch: 1 + usize::from(setting.batch % 4),
            message: 640,
            notifications: 1 + u16::from(setting.notifications % 4),
            fragments: 2 + u16::from(setting.fragments % 3),
            messages: 16,
            ..EngineAttr::default()
        };
        let open = |info: &Info<_>, rails| Side::open_in(&domains(info, rails), attr, Global).expect("room");
        let mut sides =
            [open(&network.info_with_faults(faults), setting.rails[0]), open(&network.info(), setting.rails[1])];
        let local = sides[0].register((0..LEN).map(pattern).collect(), Access::empty()).expect("room");
        let exposed = sides[1].register(vec![0; LEN], Access::REMOTE_WRITE).expect("room");
        let remote = sides[1].remote(exposed).expect("registered");
        let records = [record(&sides[0]), record(&sides[1])];
        let peers = [&records[1], &records[0]];
        let peers = [0, 1].map(|side| sides[side].insert_peer(peers[side]).expect("room"));
        let forger = Forger::open(&network.info(), &records, &remote, &attr);
        let (open, plain) = ([None; PARTS], [Vec::new(), Vec::new()]);
        World { sides, peers, local, exposed, remote, forger, open, transfers: 0, plain, keeps: false, linked: [0; 2] }
    }

    fn link(&mut self) {
        let words = [0, 0, 0, 0, 0, 1, 0];
        for (side, address) in [(0, 4), (0, 9), (1, 4), (1, 9)] {
            self.forger.send(side, &Forged::Hello { from: 0, words, answers: false, layout: true, address, rails: 0 });
        }
        self.poll_until(|world| world.forger.is_granted());
        // Names by endpoint, like the addresses.
        for (side, to, address) in [(0, 0, 4), (0, 8, 9), (1, 0, 4), (1, 8, 9)] {
            self.forger.send(side, &Forged::Rail { to, rail: 0, newer: 0, address, forged_key: false });
        }
        self.poll_until(|world| world.linked == [2; 2]);
    }

    fn poll_until(&mut self, holds: impl Fn(&Self) -> bool) {
        for _ in 0..10_000 {
            if holds(self) {
                return;
            }
            self.poll(0);
            self.poll(1);
            self.forger.drive();
        }
        panic!("linked {:?}, transfers {:?}, messages {:?}", self.linked, self.open, self.plain);
    }

    fn play(&mut self, step: Step<'_>) {
        match step {
            Step::Submit { part, at, len, count, pitch, message: length } => {
                let part = usize::from(part) % PARTS;
                let [local, remote] = at.map(|at| (part * PART) as u64 + u64::from(at));
                let (first, pitch) = (Block { local, remote, len: len.into() }, u64::from(pitch));
                let plan = Strided { first, count: usize::from(count % 8), local_pitch: pitch, remote_pitch: pitch };
                // Blocks stay in their part, and do not overlap.
                let end = (part * PART + PART) as u64;
                let inside = (0..plan.blocks())
                    .map(|index| plan.block(index))
                    .all(|block| block.local.max(block.remote) + block.len <= end);
                if self.open[part].is_some() || !inside || plan.first.len > pitch && plan.count > 1 {
                    return;
                }
                let exposed = self.sides[1].window(self.exposed).expect("registered");
                exposed.copy_from(part * PART, &[0; PART]).expect("inside");
                let request = Request::write(self.peers[0], self.local, &self.remote, plan);
                let length = length % 200;
                if self.sides[0].submit_and_notify(request, &message(part as u8, length)).is_ok() {
                    self.open[part] = Some((plan, length));
                    self.transfers += 1;
                }
            }
            Step::Notify { back, message: length } => {
                let from = usize::from(back);
                let length = length % 200;
                if self.sides[from].notify(self.peers[from], &message(PLAIN, length)).is_ok() {
                    self.plain[1 - from].push(length);
                }
            }
            Step::Poll { times, side } => (0..times % 32).for_each(|_| self.poll(side.into())),
            Step::Forge { side, forged } => self.forger.send(side.into(), &forged),
            Step::Drive => self.forger.drive(),
            Step::Keep(keeps) => self.keeps = keeps,
        }
    }

    fn poll(&mut self, side: usize) {
        match self.sides[side].poll(0).expect("a queue without faults") {
            Some(Event::Ended(outcome)) => {
                assert_eq!(outcome.ending, Ending::Done);
                self.transfers -= 1;
            }
            Some(Event::Notified(key)) => self.notified(side, key),
            Some(Event::Peer { peer, result }) => {
                assert!(result.is_ok() || peer != self.peers[side], "{result:?}");
                self.linked[side] += usize::from(peer != self.peers[side]);
            }
            Some(event) => panic!("{event:?}"),
            None => {}
        }
    }

    fn notified(&mut self, side: usize, key: NotificationKey) {
        let notification = self.sides[side].notification(key).expect("it is new");
        let mut bytes = vec![0; notification.len()];
        notification.copy_to(&mut bytes).expect("its length");
        let (is_good, ending, late) =
            (notification.peer() == self.peers[side], notification.ending(), notification.late_writes());
        if !is_good {
            return if self.keeps { notification.keep() } else { drop(notification) };
        }
        drop(notification);
        assert_eq!((ending, late), (Ending::Done, 0));
        let (name, length) = (bytes[0], u8::try_from((bytes.len() - 1) / 4).expect("a short message"));
        assert!(bytes == message(name, length), "the bytes of a message");
        if name == PLAIN {
            let at = self.plain[side].iter().position(|plain| *plain == length).expect("once");
            self.plain[side].swap_remove(at);
            return;
        }
        assert_eq!(side, 1);
        let (plan, expected) = self.open[usize::from(name)].take().expect("one notification of each transfer");
        assert_eq!(length, expected);
        let exposed = self.sides[1].window(self.exposed).expect("registered");
        for index in 0..plan.blocks() {
            let Block { local, remote, len } = plan.block(index);
            let mut bytes = vec![0; len as usize];
            exposed.copy_to(remote as usize, &mut bytes).expect("inside");
            let right = bytes.iter().enumerate().all(|(at, byte)| *byte == pattern(local as usize + at));
            assert!(right, "the data is there before its notification: {plan:?}");
        }
    }

    /// Waits for all transfers and messages of the good peer.
    fn end(&mut self) {
        self.poll_until(|world| {
            let done = world.transfers == 0 && world.open.iter().all(Option::is_none);
            done && world.plain.iter().all(Vec::is_empty)
        });
    }
}
