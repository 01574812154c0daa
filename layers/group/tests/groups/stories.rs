//! Random stories of a group and its peers under every fault.
//!
//! Invariants: every request has one outcome, every buffer returns once, messages of a pair arrive
//! in order, and every operation in flight has a key. Without faults, all possible ones complete.

use std::collections::{HashMap, HashSet};

use allocator_api2::alloc::Global;
use loom_core::error::PostError;
use loom_core::soft::{Every, Network, NetworkAttr, Plan, Soft};
use loom_core::vocabulary::{Access, ImmediateData};
use loom_core::{Av, Binding, Completion, Cq, Domain, Endpoint, Mr, Peer, RemoteRegion, Source, Spins, Tag};
use loom_group::{Group, Outcome, PeerIndex, PeerRegion, Place, Prepared, Summary};
use proptest::prelude::*;

type Bytes = Vec<u8>;
type Fabric = Soft<'static>;

/// Maximum length in bytes. 8 of them are the message's number.
const LONGEST: usize = 300;
const REGION: usize = 64;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Send,
    SendData,
    TaggedSend,
    Recv,
    TaggedRecv,
    Write,
    WriteData,
    Read,
}

impl Kind {
    fn is_tagged(self) -> bool {
        matches!(self, Kind::TaggedSend | Kind::TaggedRecv)
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Some numbers may exceed the members.
    Many {
        kind: Kind,
        peers: Vec<u16>,
        len: usize,
        turns: u8,
        patience: u16,
    },
    Send {
        peer: u16,
        count: u8,
    },
    Remove(u16),
    Put {
        place: u16,
        peer: u16,
    },
    Close(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![
        3 => Just(Kind::Send),
        1 => Just(Kind::SendData),
        1 => Just(Kind::TaggedSend),
        2 => Just(Kind::Recv),
        1 => Just(Kind::TaggedRecv),
        1 => Just(Kind::Write),
        1 => Just(Kind::WriteData),
        1 => Just(Kind::Read),
    ];
    let peers = prop::collection::vec(any::<u16>(), 1..24);
    let many = (kind, peers, 8..LONGEST, 0..40_u8, 0..400_u16)
        .prop_map(|(kind, peers, len, turns, patience)| Step::Many { kind, peers, len, turns, patience });
    prop_oneof![
        8 => many,
        3 => (any::<u16>(), 1..6_u8).prop_map(|(peer, count)| Step::Send { peer, count }),
        1 => any::<u16>().prop_map(Step::Remove),
        1 => (any::<u16>(), any::<u16>()).prop_map(|(place, peer)| Step::Put { place, peer }),
        1 => any::<u16>().prop_map(Step::Close),
    ]
}

fn plan() -> impl Strategy<Value = Option<Plan>> {
    let of = |seed| Plan::new(seed);
    prop_oneof![
        2 => Just(None),
        2 => any::<u64>().prop_map(move |seed| Some(Plan { refuse: Every::About(3), ..of(seed) })),
        1 => any::<u64>().prop_map(move |seed| Some(Plan { delay: 40, ..of(seed) })),
        1 => any::<u64>().prop_map(move |seed| Some(Plan { fail: Every::About(4), ..of(seed) })),
        1 => any::<u64>().prop_map(move |seed| Some(Plan { lose: Every::About(6), ..of(seed) })),
        1 => any::<u64>().prop_map(move |seed| Some(Plan { kill: Every::About(30), ..of(seed) })),
        1 => any::<u64>().prop_map(move |seed| Some(Plan { reorder: 20, refuse: Every::About(4), delay: 10, ..of(seed) })),
        1 => any::<u64>().prop_map(move |seed| Some(Plan { fail: Every::About(5), refuse: Every::About(3), delay: 9, ..of(seed) })),
    ]
}

struct Side {
    endpoint: Option<Endpoint<'static, Fabric, Bytes>>,
    hub: Peer,
    region: RemoteRegion,
    _memory: Mr<'static, Fabric, Bytes>,
    /// Last received message and last tagged one: untagged ones may overtake.
    last: [u64; 2],
    /// Last messages sent by this side, and of those received by the group.
    sent: [u64; 2],
    received: [u64; 2],
}

const TAG: Tag = Tag(7);

struct World {
    group: Group<'static, Fabric, Bytes, Global>,
    sides: Vec<Side>,
    members: Vec<Option<usize>>,
    lent: HashSet<usize>,
    /// Target by message number.
    sent: HashMap<u64, usize>,
    next: u64,
    has_faults: bool,
}

fn number(buf: &[u8]) -> u64 {
    u64::from_le_bytes(buf[..8].try_into().unwrap())
}

impl World {
    fn new(count: usize, plan: Option<Plan>) -> Self {
        let most = u16::try_from(count + 2).unwrap();
        let attr = NetworkAttr {
            endpoints: most,
            tx_depth: 32,
            rx_depth: 32,
            eager_size: 64,
            regions: most,
            ..NetworkAttr::DEFAULT
        };
        let network = Network::new(attr).unwrap();
        let plain = network.info();
        let info = plan.map_or_else(|| network.info(), |plan| network.info_with_faults(plan));
        let domain = Domain::open(&info).unwrap();
        let prepared = Prepared::open(&domain, count, 16).unwrap();
        let address = prepared.address().unwrap();
        let side = |_| {
            let av = Av::open(&domain, 2).unwrap();
            let cq = Cq::open(&domain, 16).unwrap();
            let endpoint = cq.endpoint(Binding::to(&av).info(plain.clone())).unwrap();
            let memory = Mr::open(&domain, vec![5; REGION], Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
            let region = memory.remote();
            for _ in 0..4 {
                endpoint.recv(Source::Any, vec![0; LONGEST]).unwrap();
                endpoint.tagged_recv(Source::Any, TAG, vec![0; LONGEST + 1]).unwrap();
            }
            let hub = av.insert(&address).unwrap();
            let [last, sent, received] = [[0; 2]; 3];
            Side { endpoint: Some(endpoint), hub, region, _memory: memory, last, sent, received }
        };
        let sides: Vec<_> = (0..count).map(side).collect();
        let addresses = sides.iter().map(|side| side.endpoint.as_ref().unwrap().address().unwrap());
        let group = prepared.connect(addresses).unwrap();
        let members = (0..count).map(Some).collect();
        World { group, sides, members, lent: HashSet::new(), sent: HashMap::new(), next: 1, has_faults: plan.is_some() }
    }

    fn lend(&mut self, len: usize, to: Option<usize>) -> Bytes {
        let mut buf = vec![0; len];
        buf[..8].copy_from_slice(&self.next.to_le_bytes());
        if let Some(to) = to {
            self.sent.insert(self.next, to);
        }
        self.next += 1;
        assert!(self.lent.insert(buf.as_ptr().addr()));
        buf
    }

    fn back(&mut self, buf: &Bytes) {
        assert!(self.lent.remove(&buf.as_ptr().addr()), "each buffer comes back once");
    }

    fn peers_turn(sides: &mut [Side], sent: &HashMap<u64, usize>) {
        for (number_of_side, side) in sides.iter_mut().enumerate() {
            let Some(endpoint) = &side.endpoint else { continue };
            while let Some(completion) = endpoint.cq().poll().unwrap() {
                let Completion::Op(done) = completion else { continue };
                let came = done.result().is_ok_and(|transfer| transfer.len >= 8 && transfer.source.is_some());
                let buf = done.into_buf();
                if came {
                    let message = number(&buf);
                    assert_eq!(sent.get(&message), Some(&number_of_side), "a message for this peer");
                    let last = &mut side.last[usize::from(buf.len() > LONGEST)];
                    assert!(message > *last, "in the order of the pair");
                    *last = message;
                }
                let _ = match buf.len() {
                    LONGEST => endpoint.recv(Source::Any, buf),
                    _ => endpoint.tagged_recv(Source::Any, TAG, buf),
                };
            }
        }
    }

    fn index(&self, peer: u16) -> PeerIndex {
        PeerIndex(u32::from(peer) % u32::try_from(self.members.len() + 1).unwrap())
    }

    fn side_of(&self, peer: PeerIndex) -> Option<usize> {
        self.members.get(usize::try_from(peer.0).unwrap()).copied().flatten()
    }

    fn many(&mut self, kind: Kind, peers: &[u16], len: usize, turns: u8, patience: u16) {
        let peers: Vec<_> = peers.iter().map(|peer| self.index(*peer)).collect();
        let targets: Vec<_> = peers.iter().map(|peer| self.side_of(*peer)).collect();
        let mut places: Vec<Place<'static, Fabric, Bytes>> = peers.iter().map(|_| Place::EMPTY).collect();
        let len = if matches!(kind, Kind::Read | Kind::Write | Kind::WriteData) { len.min(REGION) } else { len };
        let bufs: Vec<_> = targets.iter().map(|target| self.lend(len, *target)).collect();
        let sources = bufs.clone();
        let World { group, sides, sent, .. } = self;
        let regions: Vec<_> = peers
            .iter()
            .zip(&targets)
            .map(|(peer, target)| {
                PeerRegion::new(*peer, sides[target.unwrap_or(0)].region)
                    .slice(..u64::try_from(len.min(REGION)).unwrap())
                    .unwrap()
            })
            .collect();
        let summary: Summary = group.scope(&mut places, |scope| {
            for ((peer, region), buf) in peers.iter().zip(&regions).zip(bufs) {
                match kind {
                    Kind::Send => scope.send(*peer, buf),
                    Kind::SendData => scope.send_data(*peer, ImmediateData(3), buf),
                    Kind::TaggedSend => scope.tagged_send(*peer, TAG, buf),
                    Kind::Recv => scope.recv(*peer, buf),
                    Kind::TaggedRecv => scope.tagged_recv(*peer, TAG, buf),
                    Kind::Write => scope.write(region, buf),
                    Kind::WriteData => scope.write_data(region, ImmediateData(4), buf),
                    Kind::Read => scope.read(region, buf),
                }
                .unwrap();
            }
            for _ in 0..turns {
                let _ = scope.turn();
                Self::peers_turn(sides, sent);
            }
            scope.finish(Spins(patience.into())).unwrap()
        });
        assert_eq!(summary.requests(), peers.len(), "one outcome for each");
        for ((place, peer), (target, source)) in places.iter_mut().zip(&peers).zip(targets.iter().zip(&sources)) {
            assert_eq!(place.peer(), *peer);
            let outcome = place.take();
            let is_open = target.is_some_and(|target| self.sides[target].endpoint.is_some());
            match &outcome {
                Outcome::Empty => panic!("a request without outcome"),
                Outcome::NotPosted { error, .. } => {
                    let unknown = *error == PostError::UnknownPeer;
                    assert!(unknown == target.is_none() || self.has_faults, "{error}");
                }
                Outcome::Done { buf, transfer } => {
                    assert!(target.is_some());
                    match kind {
                        Kind::Read => assert_eq!(transfer.len, buf.len()),
                        Kind::Recv | Kind::TaggedRecv => {
                            assert_eq!(transfer.len, 8);
                            let received = &mut self.sides[target.unwrap()].received[usize::from(kind.is_tagged())];
                            assert!(number(buf) > *received, "in the order of the pair");
                            *received = number(buf);
                        }
                        _ => assert_eq!(buf, source, "what is sent is not changed"),
                    }
                }
                Outcome::Failed { .. } => assert!(target.is_some()),
                Outcome::InFlight(key) => {
                    // The operation completes later, or at the endpoint's end.
                    assert!(self.group.cq().take(*key).unwrap().is_none());
                }
            }
            // Operations that do not depend on the peer's progress.
            if is_open && !self.has_faults && matches!(kind, Kind::Write | Kind::WriteData | Kind::Read) {
                assert!(outcome.is_done(), "{outcome:?}");
            }
            if let Some(buf) = outcome.into_buf() {
                self.back(&buf);
            }
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Many { kind, peers, len, turns, patience } => self.many(kind, &peers, len, turns, patience),
            Step::Send { peer, count } => {
                let at = usize::from(peer) % self.sides.len();
                let side = &mut self.sides[at];
                let Some(endpoint) = &side.endpoint else { return };
                for _ in 0..count {
                    side.sent = side.sent.map(|sent| sent + 1);
                    let _ = endpoint.inject(side.hub, &side.sent[0].to_le_bytes());
                    let _ = endpoint.tagged_inject(side.hub, TAG, &side.sent[1].to_le_bytes());
                }
            }
            Step::Remove(peer) => {
                let peer = self.index(peer);
                let was = self.side_of(peer).is_some();
                assert_eq!(self.group.remove(peer), was);
                if let Some(member) = self.members.get_mut(usize::try_from(peer.0).unwrap()) {
                    *member = None;
                }
            }
            Step::Put { place, peer } => {
                let (place, side) = (self.index(place), usize::from(peer) % self.sides.len());
                let Some(endpoint) = &self.sides[side].endpoint else { return };
                // The vector has a place for each member. Removed peers keep theirs during posts.
                match self.group.set(place, &endpoint.address().unwrap()) {
                    Ok(()) => self.members[usize::try_from(place.0).unwrap()] = Some(side),
                    Err(_) => assert_eq!(self.group.peer(place).is_some(), self.side_of(place).is_some()),
                }
            }
            Step::Close(peer) => {
                let side = usize::from(peer) % self.sides.len();
                self.sides[side].endpoint = None;
            }
        }
        Self::peers_turn(&mut self.sides, &self.sent);
    }

    fn end(mut self) {
        for _ in 0..2000 {
            Self::peers_turn(&mut self.sides, &self.sent);
            while let Ok(Some(completion)) = self.group.cq().poll() {
                if let Completion::Op(done) = completion {
                    let buf = done.into_buf();
                    self.back(&buf);
                }
            }
            if self.lent.is_empty() {
                break;
            }
        }
        assert_eq!(self.lent.len(), self.group.cq().in_flight(), "what is not back is in flight");
    }
}

fn stories(count: usize, cases: u32) {
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(plan in plan(), steps in prop::collection::vec(step(), 1..30))| {
        let mut world = World::new(count, plan);
        for step in steps {
            world.take(step);
        }
        world.end();
    });
}

#[test]
fn group_of_one() {
    stories(1, 200);
}

#[test]
fn group_of_two() {
    stories(2, 200);
}

#[test]
fn group_of_three() {
    stories(3, 200);
}

#[test]
fn group_of_eight() {
    stories(8, 150);
}

#[test]
fn group_of_sixty_four() {
    stories(64, 40);
}

#[test]
fn group_of_a_thousand() {
    stories(1000, 6);
}
