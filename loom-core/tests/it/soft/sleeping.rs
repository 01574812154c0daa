//! Threads that sleep on a queue of the software transport. Every event of a peer wakes them up,
//! whenever it arrives.
//!
//! Peers begin after a random number of steps: before the sleep, at its start, and in the middle of
//! it. A lost wake-up costs the whole [`LIMIT`], and fails the test.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use allocator_api2::alloc::Global;
use loom_core::av::Av;
use loom_core::collective::ReduceOp;
use loom_core::completion::Completion;
use loom_core::cq::{Cq, CqAttr, CqError};
use loom_core::domain::Domain;
use loom_core::endpoint::CollectiveGroup;
use loom_core::endpoint::{Endpoint, Source};
use loom_core::error::OpenError;
use loom_core::info::Info;
use loom_core::mr::{Mr, MrAttr, RemoteRegion};
use loom_core::soft::{Network, NetworkAttr, Plan, Soft};
use loom_core::vocabulary::{Access, EndpointAddr, Errno, ImmediateData, Tag, WaitObj};
use loom_core::{Deadline, Peer};

type S = Soft<'static>;
type Bytes = Box<[u8]>;

const ATTR: NetworkAttr =
    NetworkAttr { endpoints: 4, tx_depth: 16, rx_depth: 64, eager_size: 256, regions: 4, ..NetworkAttr::DEFAULT };

/// Limit of one sleep.
const LIMIT: Duration = Duration::from_secs(10);

const ROUNDS: usize = if cfg!(miri) { 10 } else { 5000 };

/// Deadline of a polling thread. It yields, in case there are more threads than processors.
struct Patient(Instant);

impl Deadline for Patient {
    fn passed(&mut self) -> bool {
        thread::yield_now();
        self.0.passed()
    }
}

fn patient() -> Patient {
    Patient(Instant::now() + LIMIT)
}

fn filled(len: usize, byte: usize) -> Bytes {
    vec![u8::try_from(byte % 251).unwrap(); len].into()
}

struct Node {
    endpoint: Endpoint<'static, S, Bytes>,
    cq: Cq<'static, S, Bytes>,
    av: Av<'static, S>,
    domain: Domain<'static, S>,
}

impl Node {
    fn open(info: &Info<S>, attr: CqAttr) -> Self {
        let domain = Domain::open(info).unwrap();
        let av = Av::open(&domain, 4).unwrap();
        let cq = Cq::open(&domain, attr).unwrap();
        let endpoint = cq.endpoint(&av).unwrap();
        Node { endpoint, cq, av, domain }
    }

    /// Joins a group of two, with this side first or second.
    fn joins(&self, other: Peer, first: bool) -> CollectiveGroup<'static, S, Bytes> {
        let me = self.av.insert(&self.endpoint.address().unwrap()).unwrap();
        let mut set = self.av.set_in(2, Global).unwrap();
        for member in if first { [me, other] } else { [other, me] } {
            assert!(set.insert(member).unwrap());
        }
        self.endpoint.join_collective(&set).unwrap()
    }

    fn next(&self) -> Completion<'static, Bytes> {
        let begin = Instant::now();
        let completion = self.cq.poll_until(begin + LIMIT).unwrap();
        assert!(begin.elapsed() < LIMIT / 2, "the sleeper was not woken up");
        completion.expect("no signaller wakes it")
    }

    fn sleeps_for_one(&self) -> Result<(usize, Bytes), Errno> {
        let Completion::Op(done) = self.next() else { panic!("an operation") };
        let result = done.result().map(|transfer| transfer.len).map_err(|error| error.errno);
        result.map(|len| (len, done.into_buf()))
    }
}

struct Peers<'a> {
    node: Node,
    to: Peer,
    sleeper: EndpointAddr,
    go: &'a Go,
    network: &'a Network<'static>,
}

/// A round, with the peer's number of steps in the upper half. Not a channel, because the peer must
/// begin within nanoseconds.
struct Go {
    word: AtomicU64,
    begun: AtomicU64,
}

const OVER: u64 = u64::MAX;

fn take(steps: u64) {
    for step in 0..steps {
        std::hint::black_box(step);
    }
}

impl Peers<'_> {
    fn round(&self) -> Option<usize> {
        let next = self.go.begun.load(Ordering::Relaxed) + 1;
        let mut looks = 0_u32;
        let steps = loop {
            let word = self.go.word.load(Ordering::Acquire);
            if word == OVER {
                return None;
            }
            if word & 0xffff_ffff == next {
                break word >> 32;
            }
            looks += 1;
            if looks.is_multiple_of(1 << 12) {
                thread::yield_now();
            }
        };
        self.go.begun.store(next, Ordering::Relaxed);
        take(steps);
        usize::try_from(next - 1).ok()
    }
}

struct Sleeper<'a> {
    node: Node,
    to: Peer,
    go: &'a Go,
    rounds: u64,
    random: u64,
}

impl Sleeper<'_> {
    /// Starts the peer's next round. Half of the time this side takes steps instead, because the
    /// peer's action can be slow.
    fn begin(&mut self) {
        // xorshift, for delays of all sizes.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let most = 1_u64 << (self.random >> 60);
        self.rounds += 1;
        let (of_peer, own) = if self.random >> 59 & 1 == 0 { (self.random % most, 0) } else { (0, self.random % most) };
        self.go.word.store(of_peer << 32 | self.rounds, Ordering::Release);
        take(own);
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.go.word.store(OVER, Ordering::Release);
    }
}

fn against(attr: NetworkAttr, plan: Plan, sleeper: impl FnOnce(&mut Sleeper<'_>), peer: impl FnOnce(Peers<'_>) + Send) {
    let network = &Network::new(attr).unwrap();
    let go = &Go { word: AtomicU64::new(0), begun: AtomicU64::new(0) };
    let (tell, hear) = channel::<EndpointAddr>();
    let (tell_back, hear_back) = channel::<EndpointAddr>();
    thread::scope(|scope| {
        let peers = scope.spawn(move || {
            let node = Node::open(&network.info_with_faults(plan), CqAttr::new(64));
            tell.send(node.endpoint.address().unwrap()).unwrap();
            let sleeper = hear_back.recv().unwrap();
            let to = node.av.insert(&sleeper).unwrap();
            peer(Peers { node, to, sleeper, go, network });
        });
        let node = Node::open(&network.info(), CqAttr { wait: WaitObj::FD, ..CqAttr::new(64) });
        tell_back.send(node.endpoint.address().unwrap()).unwrap();
        let to = node.av.insert(&hear.recv().unwrap()).unwrap();
        let mut side = Sleeper { node, to, go, rounds: 0, random: 0x9e37_79b9_7f4a_7c15 };
        sleeper(&mut side);
        drop(side);
        peers.join().unwrap();
    });
}

fn messages_wake_the_sleeper(attr: NetworkAttr, plan: Plan, len: usize) {
    against(
        attr,
        plan,
        |sleeper| {
            for round in 0..ROUNDS {
                sleeper.node.endpoint.recv(Source::Any, filled(len, 0)).unwrap();
                sleeper.begin();
                assert_eq!(sleeper.node.sleeps_for_one(), Ok((len, filled(len, round))));
            }
        },
        |peers| {
            while let Some(round) = peers.round() {
                let cq = &peers.node.cq;
                let key =
                    cq.post(filled(len, round), patient(), |buf| peers.node.endpoint.send(peers.to, buf)).unwrap();
                cq.finish(key, patient()).unwrap().result().unwrap();
            }
        },
    );
}

#[test]
fn thread_is_woken_by_a_message_in_the_inbox() {
    messages_wake_the_sleeper(NetworkAttr { lanes: 0, ..ATTR }, Plan::new(0), 8);
    messages_wake_the_sleeper(ATTR, Plan::new(0), 200);
}

#[test]
fn thread_is_woken_by_a_message_in_a_lane() {
    messages_wake_the_sleeper(ATTR, Plan::new(0), 8);
}

#[test]
fn thread_is_woken_by_an_offer() {
    messages_wake_the_sleeper(ATTR, Plan::new(0), 3000);
}

#[test]
fn thread_is_woken_by_a_message_that_is_late() {
    messages_wake_the_sleeper(ATTR, Plan { delay: 4, ..Plan::new(7) }, 8);
}

fn writes_wake_the_sleeper(attr: NetworkAttr) {
    let (tell, hear) = channel::<RemoteRegion>();
    against(
        attr,
        Plan::new(0),
        |sleeper| {
            let access = Access::REMOTE_WRITE;
            let region = Mr::<_, Bytes>::open(&sleeper.node.domain, filled(8, 0), MrAttr::new(access)).unwrap();
            tell.send(region.remote()).unwrap();
            for round in 0..ROUNDS {
                sleeper.begin();
                let Completion::Remote(event) = sleeper.node.next() else { panic!("the news of a write") };
                assert_eq!(event.data(), Some(ImmediateData(round as u64)));
                let mut bytes = [0; 8];
                region.window().copy_to(0, &mut bytes).unwrap();
                assert_eq!(bytes[..], filled(8, round)[..]);
            }
        },
        move |peers| {
            let region = hear.recv().unwrap();
            let Peers { node, to, .. } = &peers;
            while let Some(round) = peers.round() {
                let data = ImmediateData(round as u64);
                let write = |buf| node.endpoint.write_data(*to, &region, 0, data, buf);
                let key = node.cq.post(filled(8, round), patient(), write).unwrap();
                node.cq.finish(key, patient()).unwrap().result().unwrap();
            }
        },
    );
}

#[test]
fn thread_is_woken_by_a_write_with_immediate_data() {
    writes_wake_the_sleeper(ATTR);
    writes_wake_the_sleeper(NetworkAttr { lanes: 0, ..ATTR });
}

#[test]
fn thread_is_woken_when_its_long_message_was_received() {
    const LEN: usize = 3000;
    against(
        ATTR,
        Plan::new(0),
        |sleeper| {
            for round in 0..ROUNDS {
                sleeper.node.endpoint.send(sleeper.to, filled(LEN, round)).unwrap();
                sleeper.begin();
                assert_eq!(sleeper.node.sleeps_for_one(), Ok((LEN, filled(LEN, round))));
            }
        },
        |peers| {
            while let Some(round) = peers.round() {
                let Peers { node, .. } = &peers;
                let key = node.endpoint.recv(Source::Any, filled(LEN, 0)).unwrap();
                assert_eq!(node.cq.finish(key, patient()).unwrap().into_buf(), filled(LEN, round));
            }
        },
    );
}

/// In each round the peer is an endpoint that closes while the message is unread.
#[test]
fn thread_is_woken_when_the_peer_closes() {
    let (tell, hear) = channel::<EndpointAddr>();
    against(
        ATTR,
        Plan::new(0),
        |sleeper| {
            for round in 0..ROUNDS {
                let peer = sleeper.node.av.insert(&hear.recv().unwrap()).unwrap();
                sleeper.node.endpoint.send(peer, filled(3000, round)).unwrap();
                sleeper.begin();
                assert_eq!(sleeper.node.sleeps_for_one(), Err(Errno::ECONNRESET));
                assert!(sleeper.node.av.remove(peer));
            }
        },
        |peers| {
            loop {
                let other = peers.node.cq.endpoint(&peers.node.av).unwrap();
                if tell.send(other.address().unwrap()).is_err() || peers.round().is_none() {
                    break;
                }
                drop(other);
            }
        },
    );
}

/// The peer revokes an offer without a receive, which is no event.
#[test]
fn thread_sleeps_on_when_an_offer_is_revoked() {
    const LEN: usize = 3000;
    against(
        ATTR,
        Plan::new(0),
        |sleeper| {
            let node = &sleeper.node.endpoint.clone();
            for round in 0..ROUNDS {
                let key = node.tagged_recv(Source::Any, Tag(1), filled(8, 0)).unwrap();
                sleeper.begin();
                let Completion::Op(done) = sleeper.node.next() else { panic!("an operation") };
                assert_eq!((done.key(), done.into_buf()), (key, filled(8, round)));
            }
        },
        |peers| {
            while let Some(round) = peers.round() {
                let Peers { node, to, .. } = &peers;
                let offer = |buf| node.endpoint.send(*to, buf);
                let key = node.cq.post(filled(LEN, round), patient(), offer).unwrap();
                node.endpoint.cancel(key).unwrap();
                let done = node.cq.finish(key, patient()).unwrap();
                assert_eq!(done.result().unwrap_err().errno, Errno::ECANCELED);
                node.cq.retry(patient(), || node.endpoint.tagged_inject(*to, Tag(1), &filled(8, round))).unwrap();
            }
        },
    );
}

/// The sleeper calls first.
#[test]
fn thread_is_woken_when_a_collective_operation_ends() {
    against(
        ATTR,
        Plan::new(0),
        |sleeper| {
            let group = sleeper.node.joins(sleeper.to, true);
            for round in 0..ROUNDS {
                let key = loop {
                    match group.all_reduce_value(ReduceOp::SUM, 1_u64) {
                        Err(error) if error.is_transient() => drop(sleeper.node.cq.poll_for(LIMIT).unwrap()),
                        called => break called.unwrap(),
                    }
                };
                sleeper.begin();
                let Completion::Value(fetched) = sleeper.node.next() else { panic!("a value") };
                assert_eq!((fetched.key, fetched.value().unwrap()), (key, Some(round as u64 + 1)));
            }
        },
        |peers| {
            let group = peers.node.joins(peers.to, false);
            while let Some(round) = peers.round() {
                let key =
                    peers.node.cq.retry(patient(), || group.all_reduce_value(ReduceOp::SUM, round as u64)).unwrap();
                peers.node.cq.wait_value(key, patient()).unwrap();
            }
        },
    );
}

/// The sleeper has called, and the other member leaves.
#[test]
fn thread_is_woken_when_a_group_is_broken() {
    let (tell, hear) = channel::<EndpointAddr>();
    against(
        ATTR,
        Plan::new(0),
        |sleeper| {
            for _ in 0..ROUNDS / 4 {
                let other = sleeper.node.av.insert(&hear.recv().unwrap()).unwrap();
                let group = sleeper.node.joins(other, true);
                sleeper.begin();
                let key = sleeper.node.cq.retry(patient(), || group.barrier());
                let Ok(key) = key else { panic!("{key:?}") };
                sleeper.begin();
                let Completion::Value(ended) = sleeper.node.next() else { panic!("an end") };
                assert_eq!((ended.key, ended.result().unwrap_err().errno), (key, Errno::ECONNRESET));
                drop(group);
                assert!(sleeper.node.av.remove(other));
            }
        },
        |peers| {
            loop {
                let node = Node::open(&peers.network.info(), CqAttr::new(8));
                let to = node.av.insert(&peers.sleeper).unwrap();
                if tell.send(node.endpoint.address().unwrap()).is_err() || peers.round().is_none() {
                    break;
                }
                let _group = node.joins(to, false);
                if peers.round().is_none() {
                    break;
                }
            }
        },
    );
}

/// Signals arrive before, at the beginning of, and in the middle of a sleep, beside messages. No
/// signal and no message is lost.
#[test]
fn thread_is_woken_by_signals_and_by_messages() {
    against(
        ATTR,
        Plan::new(0),
        |sleeper| {
            let cq = &sleeper.node.cq.clone();
            let signaller = cq.signaller().unwrap();
            let (go, going) = channel::<u32>();
            thread::scope(|scope| {
                let signaller = &signaller;
                scope.spawn(move || {
                    while let Ok(steps) = going.recv() {
                        (0..steps).for_each(|_| std::hint::spin_loop());
                        signaller.signal().unwrap();
                    }
                });
                for round in 0..ROUNDS {
                    sleeper.node.endpoint.recv(Source::Any, filled(8, 0)).unwrap();
                    go.send(u32::try_from(round % 64 * 16).unwrap()).unwrap();
                    sleeper.begin();
                    let (mut signals, mut messages) = (0, 0);
                    while signals + messages < 2 {
                        let begin = Instant::now();
                        match cq.poll_for(LIMIT).unwrap() {
                            None => signals += 1,
                            Some(_) => messages += 1,
                        }
                        assert!(begin.elapsed() < LIMIT / 2, "the sleeper was not woken up");
                    }
                    assert_eq!((signals, messages), (1, 1), "in round {round}");
                }
                drop(go);
            });
        },
        |peers| {
            while let Some(round) = peers.round() {
                let Peers { node, to, .. } = &peers;
                node.cq.retry(patient(), || node.endpoint.inject(*to, &filled(8, round))).unwrap();
            }
        },
    );
}

/// A queue closes after its thread has announced its sleep, while peers wake it up. They do not
/// access the closed queue. Messages go to the current endpoint of the port.
#[test]
fn thread_closes_its_queue_while_peers_wake_it_up() {
    let network = &Network::new(ATTR).unwrap();
    let (tell, hear) = channel::<EndpointAddr>();
    thread::scope(|scope| {
        let peer = scope.spawn(move || {
            let node = Node::open(&network.info(), CqAttr::new(64));
            let mut sent = 0_u64;
            while let Ok(address) = hear.recv() {
                let to = node.av.insert(&address).unwrap();
                // Until it has closed, or the queue is full.
                for _ in 0..20 {
                    sent += u64::from(node.endpoint.inject(to, &[7; 8]).is_ok());
                }
                assert!(node.av.remove(to));
            }
            sent
        });
        for round in 0..ROUNDS {
            let node = Node::open(&network.info(), CqAttr { wait: WaitObj::FD, ..CqAttr::new(8) });
            tell.send(node.endpoint.address().unwrap()).unwrap();
            // Not every time, so that the endpoint also closes before a message.
            for _ in 0..round % 3 {
                while !node.cq.may_sleep().unwrap() {
                    assert!(node.cq.poll().unwrap().is_none(), "no receive was posted");
                }
            }
        }
        drop(tell);
        assert!(peer.join().unwrap() > 0);
    });
}

/// Two endpoints on one queue: an event of either one wakes the thread up.
#[test]
fn thread_sleeps_for_all_endpoints_of_its_queue() {
    let (tell, hear) = channel::<EndpointAddr>();
    against(
        ATTR,
        Plan::new(0),
        |sleeper| {
            let second = sleeper.node.cq.endpoint(&sleeper.node.av).unwrap();
            let both = [sleeper.node.endpoint.clone(), second];
            tell.send(both[1].address().unwrap()).unwrap();
            for round in 0..ROUNDS {
                let endpoint = &both[round % 2];
                endpoint.recv(Source::Any, filled(8, 0)).unwrap();
                sleeper.begin();
                assert_eq!(sleeper.node.sleeps_for_one(), Ok((8, filled(8, round))));
            }
        },
        move |peers| {
            let Peers { node, to, .. } = &peers;
            let second = node.av.insert(&hear.recv().unwrap()).unwrap();
            while let Some(round) = peers.round() {
                let to = [*to, second][round % 2];
                node.cq.retry(patient(), || node.endpoint.inject(to, &filled(8, round))).unwrap();
            }
        },
    );
}

#[test]
fn sleep_ends_with_its_time_and_not_before() {
    let network = Network::new(ATTR).unwrap();
    for attr in [CqAttr { wait: WaitObj::FD, ..CqAttr::new(8) }, CqAttr { wait: WaitObj::UNSPEC, ..CqAttr::new(8) }] {
        let node = Node::open(&network.info(), attr);
        let time = Duration::from_millis(30);
        let begin = Instant::now();
        assert!(node.cq.poll_for(time).unwrap().is_none());
        assert!(begin.elapsed() >= time, "nothing has come");
        assert!(node.cq.poll_for(Duration::ZERO).unwrap().is_none());
        let has_fd = attr.wait == WaitObj::FD;
        assert_eq!((node.cq.wait_fd().is_ok(), node.cq.may_sleep().is_ok()), (has_fd, has_fd));
        if !has_fd {
            assert_eq!(node.cq.wait_fd(), Err(CqError::NotOpenedFor));
        }
    }
}

/// An event of this thread itself is at hand, and would not cause a wake-up.
#[test]
fn queue_that_has_something_is_not_slept_on() {
    let network = Network::new(ATTR).unwrap();
    let node = Node::open(&network.info(), CqAttr { wait: WaitObj::FD, ..CqAttr::new(8) });
    let me = node.av.insert(&node.endpoint.address().unwrap()).unwrap();
    assert!(node.cq.may_sleep().unwrap());
    node.endpoint.send(me, filled(8, 1)).unwrap();
    assert!(!node.cq.may_sleep().unwrap(), "the end of the send");
    assert_eq!(node.sleeps_for_one(), Ok((8, filled(8, 1))));
    // An unexpected message is stored, and is no event.
    assert!(node.cq.may_sleep().unwrap());
    node.endpoint.recv(Source::Any, filled(8, 0)).unwrap();
    assert!(!node.cq.may_sleep().unwrap(), "the receive has taken it");
    assert_eq!(node.sleeps_for_one(), Ok((8, filled(8, 1))));
    assert!(node.cq.may_sleep().unwrap());
}

#[test]
fn queues_open_with_descriptors_unless_the_network_is_strict() {
    for strict in [false, true] {
        let info = Network::new(NetworkAttr { strict, ..ATTR }).unwrap().info();
        let domain = Domain::open(&info).unwrap();
        for number in 1..8 {
            let wait = WaitObj::from_raw(number);
            let can = !strict && [WaitObj::UNSPEC, WaitObj::FD].contains(&wait);
            let opened = Cq::<_, Bytes>::open(&domain, CqAttr { wait, ..CqAttr::new(8) }).map(drop);
            assert_eq!(opened, if can { Ok(()) } else { Err(OpenError::Errno(Errno::ENOSYS)) }, "{wait}");
        }
        assert!(
            Cq::<_, Bytes>::open(&domain, CqAttr { wait: WaitObj::FD, separate: true, ..CqAttr::new(8) }).is_err(),
            "two queues of the transport"
        );
    }
}
