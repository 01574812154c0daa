//! An engine on its own thread: submissions of several threads, waits, ends, notifications,
//! exchange of metadata.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use loom_core::allocator_api2::alloc::Global;
use loom_core::soft::{Every, Plan as Faults, Soft};
use loom_core::{Access, CqError, Errno, Error, Info, PostError, Transport};
use loom_fabric::loom_core;
use loom_group::bootstrap::{Board, Bootstrap, InProcess, Slots};
use loom_transfer::metadata::{self, Metadata};
use loom_transfer::{
    Agent, AgentAttr, Block, Ending, Engine, EngineAttr, MemoryKey, Outcome, PeerKey, Plan, RemoteMemory, Request,
    Submission, Wait,
};
use support::posting::{LIMIT, pattern};

use super::sides::{AnyPlan, Side, address, block, network, rails, small};

fn talking() -> EngineAttr {
    EngineAttr { message: 1024, notifications: 2, fragments: 2, messages: 16, piece: 1000, ..small() }
}

fn spawn<T: Transport + 'static, P: Plan + Send + 'static>(
    info: &Info<T>,
    count: usize,
    attr: EngineAttr,
    slots: usize,
) -> Agent<P>
where
    Info<T>: Send + Clone,
{
    let info = info.clone();
    let attr = move || Engine::open_in(&rails(&info, count), attr, Global);
    Agent::spawn(AgentAttr { slots, histogram: true, ..AgentAttr::default() }, attr).unwrap()
}

fn end<P, R>(mut submission: Submission<P, R>) -> Result<R, Error> {
    submission.wait_until(Instant::now() + LIMIT).expect("ended within the limit")
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let until = Instant::now() + LIMIT;
    loop {
        if let Poll::Ready(output) = std::pin::Pin::new(&mut future).poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        assert!(Instant::now() < until, "within {LIMIT:?}");
        thread::park_timeout(LIMIT);
    }
}

/// Submits again while all slots are in use.
fn submit<P: Plan + Send + 'static>(agent: &Agent<P>, mut request: Request<P>) -> Submission<P, Outcome<P>> {
    let until = Instant::now() + LIMIT;
    loop {
        match agent.submit(request) {
            Ok(submission) => return submission,
            Err(rejected) => {
                assert_eq!(rejected.error, Error::Full("AgentAttr::slots"));
                request = rejected.value;
            }
        }
        assert!(Instant::now() < until, "within {LIMIT:?}");
        thread::yield_now();
    }
}

fn eventually(holds: impl Fn() -> bool) {
    let until = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < until, "within {LIMIT:?}");
        thread::yield_now();
    }
}

fn bytes<P: Plan + Send + 'static>(agent: &Agent<P>, memory: MemoryKey, len: usize) -> Vec<u8> {
    let copied = agent.with_window(memory, move |window| {
        let mut bytes = vec![0; len];
        window.copy_to(0, &mut bytes).map(|()| bytes)
    });
    copied.unwrap().unwrap()
}

struct Pair<P> {
    source: Agent<P>,
    target: Agent<P>,
    peer: PeerKey,
    local: MemoryKey,
    exposed: MemoryKey,
    remote: RemoteMemory,
}

const LEN: usize = 1 << 17;

impl<P: Plan + Send + 'static> Pair<P> {
    fn open<T: Transport + 'static>(info: &Info<T>, count: usize, attr: EngineAttr, slots: usize) -> Self
    where
        Info<T>: Send + Clone,
    {
        let (source, target) = (spawn(info, count, attr, slots), spawn(info, count, attr, slots));
        let local = source.register(pattern(LEN, 1), Access::empty()).unwrap();
        let exposed = target.register(vec![0; LEN], Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
        let (peer, remote) = (source.insert_peer(target.address().unwrap()).unwrap(), target.remote(exposed).unwrap());
        Pair { source, target, peer, local, exposed, remote }
    }

    fn write(&self, plan: P) -> Request<P> {
        Request::write(self.peer, self.local, &self.remote, plan)
    }
}

/// Agent with a peer that does not respond, so transfers to it wait.
struct Stuck {
    agent: Agent<AnyPlan>,
    _silent: Side<Soft<'static>>,
    peer: PeerKey,
    local: MemoryKey,
    remote: RemoteMemory,
}

impl Stuck {
    fn open(transfers: usize, slots: usize) -> Self {
        let info = network().info();
        let mut silent = Side::open_in(&rails(&info, 1), talking(), Global).unwrap();
        let exposed = silent.register(vec![0; LEN], Access::REMOTE_WRITE).unwrap();
        let agent: Agent<AnyPlan> = spawn(&info, 1, EngineAttr { transfers, ..talking() }, slots);
        let local = agent.register(pattern(LEN, 1), Access::empty()).unwrap();
        let (peer, remote) = (agent.insert_peer(address(&silent)).unwrap(), silent.remote(exposed).unwrap());
        Stuck { agent, _silent: silent, peer, local, remote }
    }

    fn request(&self) -> Request<AnyPlan> {
        Request::write(self.peer, self.local, &self.remote, block(0, 0, 5000))
    }

    fn submit(&self) -> Submission<AnyPlan, Outcome<AnyPlan>> {
        self.agent.submit(self.request()).unwrap()
    }
}

/// Runs transfers of 4 threads to disjoint parts, half of them awaited as futures, and counted by
/// the target.
fn check<T: Transport + 'static>(info: &Info<T>, count: usize, attr: EngineAttr, each: u64)
where
    Info<T>: Send + Clone,
{
    const PART: u64 = 700;
    let pair = Pair::open(info, count, attr, 8);
    let total = 4 * each * block(0, 0, PART).operations(pair.remote.piece());
    let arrived = pair.target.wait(Wait::new(3, total)).unwrap();
    thread::scope(|scope| {
        for thread in 0..4 {
            let pair = &pair;
            scope.spawn(move || {
                for number in 0..each {
                    let at = PART * (thread * each + number);
                    let submission = submit(&pair.source, pair.write(block(at, at, PART)).data(3));
                    let outcome = if number % 2 == 0 { block_on(submission) } else { end(submission) };
                    let outcome = outcome.unwrap();
                    assert_eq!(outcome.result(), Ok(PART));
                    assert_eq!(outcome.request.plan().block(0).local, at);
                }
            });
        }
    });
    end(arrived).unwrap();
    let written = (4 * each * PART) as usize;
    let expected = [&pattern(LEN, 1)[..written], &vec![0; LEN - written]].concat();
    assert!(bytes(&pair.target, pair.exposed, LEN) == expected);
    let counters = pair.source.counters();
    assert_eq!((counters.submitted, counters.done, counters.failed), (4 * each, 4 * each, 0));
    assert_eq!((counters.operations, counters.bytes), (total, 4 * each * PART));
    assert_eq!(pair.source.histogram().unwrap().iter().sum::<u64>(), 4 * each);
}

#[test]
fn many_threads_submit_to_one_agent_and_all_bytes_arrive() {
    check(&network().info(), 1, small(), 40);
    check(&network().info(), 2, EngineAttr { piece: 100, transfers: 2, ..small() }, 10);
}

#[cfg(feature = "libfabric")]
#[test]
fn many_threads_submit_to_one_agent_over_providers_of_libfabric() {
    use loom_core::Caps;
    use loom_core::vocabulary::EndpointType;

    for provider in ["shm", "tcp;ofi_rxm"] {
        check(&crate::protocols::libfabric::info(provider, EndpointType::RDM, Caps::MSG | Caps::RMA), 1, small(), 10);
    }
}

#[test]
fn a_full_table_returns_the_request_and_a_slot_that_ended_is_used_again() {
    let stuck = Stuck::open(8, 2);
    for _ in 0..50 {
        let [first, second] = [(); 2].map(|()| stuck.submit());
        let rejected = stuck.agent.submit(stuck.request()).unwrap_err();
        assert_eq!((rejected.error, rejected.value.plan().bytes()), (Error::Full("AgentAttr::slots"), 5000));
        assert_eq!(stuck.agent.wait(Wait::new(1, 1)).unwrap_err(), Error::Full("AgentAttr::slots"));
        first.cancel();
        second.cancel();
        assert_eq!(end(first).unwrap().ending, Ending::Cancelled);
        assert_eq!(end(second).unwrap().ending, Ending::Cancelled);
    }
}

#[test]
fn transfers_beyond_the_room_of_the_engine_wait_and_end_once() {
    let pair = Pair::open(&network().info(), 1, EngineAttr { transfers: 2, ..small() }, 64);
    let stuck = Stuck::open(2, 64);
    let submissions: Vec<_> = (0..40).map(|_| stuck.submit()).collect();
    eventually(|| stuck.agent.counters().retries == 38);
    // Ends before earlier ones.
    submissions[30].cancel();
    drop(stuck.agent);
    for (number, submission) in submissions.into_iter().enumerate() {
        match end(submission) {
            Ok(outcome) => assert_eq!((number, outcome.ending), (30, Ending::Cancelled)),
            Err(error) => assert!(matches!(error, Error::Invalid(_))),
        }
    }
    let submissions: Vec<_> = (0..40).map(|at| pair.source.submit(pair.write(block(at, at, 1))).unwrap()).collect();
    for submission in submissions {
        assert_eq!(end(submission).unwrap().result(), Ok(1));
    }
}

#[test]
fn an_abandoned_transfer_goes_on_and_its_slot_returns() {
    let pair = Pair::open(&network().info(), 2, EngineAttr { piece: 100, ..small() }, 4);
    for number in 0..100 {
        drop(submit(&pair.source, pair.write(block(10 * number, 10 * number, 10))));
    }
    eventually(|| pair.source.counters().done == 100);
    assert!(bytes(&pair.target, pair.exposed, 1000) == pattern(LEN, 1)[..1000]);
    // Waits of all kinds.
    for _ in 0..100 {
        let target = &pair.target;
        drop(target.wait(Wait { deadline: target.time(Instant::now()), ..Wait::new(1, 1) }));
        drop(target.next_notification(Vec::new()));
        drop(target.next_peer());
    }
    let all = || (0..4).map(|_| pair.target.next_peer()).collect::<Result<Vec<_>, _>>().is_ok();
    eventually(all);
}

#[test]
fn a_refused_request_returns_in_its_outcome() {
    let pair = Pair::open(&network().info(), 1, small(), 4);
    let outcome = end(pair.source.submit(pair.write(block(0, LEN as u64 - 1, 2))).unwrap()).unwrap();
    assert_eq!((outcome.ending, outcome.operations), (Ending::Failed(PostError::OutOfBounds.into()), 0));
    assert_eq!(outcome.request.plan().bytes(), 2);
    assert!(pair.source.remove_peer(pair.peer).unwrap());
    let outcome = end(pair.source.submit(pair.write(block(0, 0, 2))).unwrap()).unwrap();
    assert_eq!(outcome.ending, Ending::Failed(PostError::UnknownPeer.into()));
    assert_eq!(pair.source.counters().failed, 2);
    pair.source.deregister(pair.local).unwrap();
    assert!(pair.source.deregister(pair.local).is_err());
}

#[test]
fn a_notification_that_never_fits_is_refused_once_the_agent_is_idle() {
    let pair = Pair::open(&network().info(), 1, EngineAttr { messages: 1, ..talking() }, 4);
    for message in [vec![0; 1500], vec![0; 10]] {
        let submission = pair.source.submit_and_notify(pair.write(block(0, 0, 2)), &message).unwrap();
        let expected =
            if message.len() > 1000 { Ending::Failed(Error::Full("EngineAttr::messages")) } else { Ending::Done };
        assert_eq!(end(submission).unwrap().ending, expected);
    }
    let silent: Pair<AnyPlan> = Pair::open(&network().info(), 1, small(), 4);
    assert!(matches!(end(silent.source.notify(silent.peer, b"").unwrap()), Err(Error::Invalid(_))));
}

#[test]
fn deadlines_end_transfers_and_waits_in_the_engine_and_before_it() {
    let stuck = Stuck::open(2, 8);
    let soon = Instant::now() + Duration::from_millis(20);
    let deadline = stuck.agent.time(soon);
    let mut submissions: Vec<_> =
        (0..6).map(|_| stuck.agent.submit(stuck.request().deadline(deadline)).unwrap()).collect();
    let wait = stuck.agent.wait(Wait { deadline, ..Wait::new(1, 1) }).unwrap();
    assert!(submissions[0].wait_until(Instant::now()).is_none());
    for submission in submissions {
        assert_eq!(end(submission).unwrap().ending, Ending::Deadline);
        assert!(Instant::now() >= soon);
    }
    assert_eq!(end(wait), Err(Error::Queue(CqError::TimedOut)));
}

#[test]
fn a_cancelled_wait_ends() {
    let stuck = Stuck::open(2, 8);
    let waits = [stuck.agent.wait(Wait::new(1, 1)).unwrap(), stuck.agent.notify(stuck.peer, b"hello").unwrap()];
    let reader = stuck.agent.next_notification(Vec::new()).unwrap();
    reader.cancel();
    assert_eq!(end(reader), Err(Error::Provider(Errno::ECANCELED)));
    for wait in waits {
        wait.cancel();
        assert_eq!(end(wait), Err(Error::Provider(Errno::ECANCELED)));
    }
    // Those of the engine are free again.
    for _ in 0..2 * EngineAttr::default().waits {
        let wait = stuck.agent.wait(Wait::new(1, 1)).unwrap();
        wait.cancel();
        assert_eq!(end(wait), Err(Error::Provider(Errno::ECANCELED)));
    }
}

#[test]
fn a_failed_engine_ends_all_waits_with_its_error() {
    let network = network();
    let faulty = network.info_with_faults(Faults { overrun: Every::Nth(10), ..Faults::new(1) });
    let (source, target): (Agent<AnyPlan>, Agent<AnyPlan>) =
        (spawn(&faulty, 1, EngineAttr { piece: 100, ..small() }, 8), spawn(&network.info(), 1, small(), 8));
    let local = source.register(pattern(LEN, 1), Access::empty()).unwrap();
    let remote = target.remote(target.register(vec![0; LEN], Access::REMOTE_WRITE).unwrap()).unwrap();
    let peer = source.insert_peer(target.address().unwrap()).unwrap();
    let (wait, reader) = (source.wait(Wait::new(1, 1)).unwrap(), source.next_notification(Vec::new()).unwrap());
    let request = Request::write(peer, local, &remote, block(0, 0, 50_000));
    let outcome = end(source.submit(request.clone()).unwrap()).unwrap();
    let failure = Error::Queue(CqError::Queue(Errno::EOVERRUN));
    assert_eq!(outcome.ending, Ending::Failed(failure));
    assert_eq!((end(wait), end(reader).err()), (Err(failure), Some(failure)));
    let rejected = source.submit(outcome.request).unwrap_err();
    assert!(matches!(rejected.error, Error::Invalid(_)) && rejected.value.plan().bytes() == 50_000);
    assert!(matches!(source.address(), Err(Error::Invalid(_))));
}

#[test]
fn dropping_the_last_handle_ends_all_submissions_of_other_threads() {
    for round in 0..20 {
        let Stuck { agent, _silent, peer, local, remote } = Stuck::open(2, 16);
        let request = Request::write(peer, local, &remote, block(0, 0, 5000));
        let submissions: Vec<_> = (0..8).map(|_| agent.submit(request.clone()).unwrap()).collect();
        let waits = [agent.wait(Wait::new(1, 1)).unwrap(), agent.notify(peer, b"").unwrap()];
        thread::scope(|scope| {
            scope.spawn(|| submissions.into_iter().for_each(|submission| assert!(end(submission).is_err())));
            scope.spawn(|| waits.into_iter().for_each(|wait| assert!(end(wait).is_err())));
            let other = agent.clone();
            scope.spawn(move || {
                let until = Instant::now() + Duration::from_millis(round % 3);
                while Instant::now() < until {
                    drop(other.submit(request.clone()));
                }
            });
            drop(agent);
        });
    }
}

#[derive(Clone, Copy, Debug)]
enum Bomb {
    Blocks,
    Block(usize),
    Dud,
}

impl Plan for Bomb {
    fn blocks(&self) -> usize {
        assert!(!matches!(self, Bomb::Blocks), "planted");
        10
    }

    fn block(&self, index: usize) -> Block {
        // Validation calls it from another function than the post does.
        if let Bomb::Block(at) = self
            && *at == index
            && thread::current().name() == Some("loom-agent")
            && COUNT.with(|count| count.replace(count.get() + 1)) > 0
        {
            panic!("planted");
        }
        Block { local: 0, remote: 10 * index as u64, len: 10 }
    }
}

std::thread_local! {
    static COUNT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[test]
fn a_plan_that_panics_ends_its_transfer_alone() {
    let pair: Pair<Bomb> = Pair::open(&network().info(), 1, small(), 8);
    let submissions = [Bomb::Dud, Bomb::Blocks, Bomb::Block(5), Bomb::Dud]
        .map(|plan| end(pair.source.submit(pair.write(plan)).unwrap()).map(|outcome| outcome.ending));
    let panicked = Error::Invalid("the plan panicked: correct `Plan::block`");
    assert_eq!(submissions, [Ok(Ending::Done), Err(panicked), Ok(Ending::Failed(panicked)), Ok(Ending::Done),]);
}

#[test]
fn calls_on_the_threads_of_agents_do_not_wait_for_themselves() {
    let pair: Pair<AnyPlan> = Pair::open(&network().info(), 1, small(), 8);
    let (agent, request) = (pair.target.clone(), pair.write(block(0, 0, 1)));
    let refused = pair.target.with_window(pair.exposed, move |_| {
        let submission = agent.submit(request).map_err(|rejected| rejected.error)?;
        assert!(agent.address().is_err());
        submission.wait()
    });
    assert!(refused.unwrap().is_err());
    // The thread drops the last handle.
    let Pair { source, local, .. } = pair;
    let (given, taken) = std::sync::mpsc::channel::<Agent<AnyPlan>>();
    let other = source.clone();
    let call = thread::spawn(move || source.with_window(local, move |_| drop(taken.recv_timeout(LIMIT))));
    let waiter = other.wait(Wait::new(1, 1)).unwrap();
    given.send(other).unwrap();
    call.join().unwrap().unwrap();
    assert!(end(waiter).is_err());
}

#[test]
fn notifications_between_threads_are_received_once_each() {
    let pair = Pair::open(&network().info(), 2, talking(), 16);
    let ready = end(pair.source.next_peer().unwrap()).unwrap();
    assert_eq!(ready, (pair.peer, Ok(())));
    let (received, counts) = (AtomicUsize::new(0), [const { AtomicUsize::new(0) }; 100]);
    thread::scope(|scope| {
        for thread in 0..2_u32 {
            let pair = &pair;
            scope.spawn(move || {
                for number in 0..50_u32 {
                    let name = thread * 50 + number;
                    let message = [&name.to_le_bytes()[..], &pattern(1500, name as usize)].concat();
                    let at = u64::from(name) * 1000;
                    let submission = loop {
                        match pair.source.submit_and_notify(pair.write(block(at, at, 1000)), &message) {
                            Ok(submission) => break submission,
                            Err(rejected) => assert_eq!(rejected.error, Error::Full("AgentAttr::slots")),
                        }
                    };
                    assert_eq!(end(submission).unwrap().ending, Ending::Done);
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let (mut buffer, until) = (Vec::new(), Instant::now() + LIMIT);
                for patience in [0, 0, 1, 10].map(Duration::from_millis).into_iter().cycle() {
                    if received.load(Ordering::Relaxed) == 100 {
                        break;
                    }
                    assert!(Instant::now() < until, "within {LIMIT:?}");
                    // Slots of readers that left return with the agent's next turn.
                    let Ok(mut reader) = pair.target.next_notification(core::mem::take(&mut buffer)) else {
                        thread::yield_now();
                        continue;
                    };
                    // Most readers leave, some of them while a message arrives.
                    let Some(message) = reader.wait_until(Instant::now() + patience) else { continue };
                    buffer = message.unwrap().bytes;
                    let name = u32::from_le_bytes(buffer[..4].try_into().unwrap()) as usize;
                    assert!(buffer[4..] == pattern(1500, name));
                    counts[name].fetch_add(1, Ordering::Relaxed);
                    received.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    assert!(bytes(&pair.target, pair.exposed, 100_000) == pattern(LEN, 1)[..100_000]);
    // The other direction, without a transfer.
    let (sender, _) = end(pair.target.next_peer().unwrap()).unwrap();
    end(pair.target.notify(sender, b"done").unwrap()).unwrap();
    let message = block_on(pair.source.next_notification(Vec::with_capacity(4)).unwrap()).unwrap();
    assert_eq!((&message.bytes[..], message.peer, message.ending), (&b"done"[..], pair.peer, Ending::Done));
}

#[test]
fn metadata_over_tcp_connects_agents_on_two_threads() {
    let info = network().info();
    let target: Agent<AnyPlan> = spawn(&info, 2, small(), 8);
    let memories = [(); 2].map(|()| target.register(vec![0; LEN], Access::REMOTE_WRITE).unwrap());
    // Only the second one is for peers.
    let served = target.metadata("target", &[("cache", memories[1])]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let fetched = thread::scope(|scope| {
        let fetched = scope.spawn(move || metadata::fetch(at, Instant::now() + LIMIT));
        metadata::serve(&listener, &served, Instant::now() + LIMIT).unwrap();
        fetched.join().unwrap().unwrap()
    });
    assert_eq!((&fetched, fetched.memories.len(), fetched.memory("other")), (&served, 1, None));
    let source: Agent<AnyPlan> = spawn(&info, 2, small(), 8);
    let local = source.register(pattern(LEN, 1), Access::empty()).unwrap();
    let peer = source.insert_peer(&*fetched.address).unwrap();
    let request = Request::write(peer, local, fetched.memory("cache").unwrap(), block(0, 0, LEN as u64));
    assert_eq!(end(source.submit(request).unwrap()).unwrap().result(), Ok(LEN as u64));
    assert!(bytes(&target, memories[1], LEN) == pattern(LEN, 1) && bytes(&target, memories[0], LEN) == vec![0; LEN]);
}

fn some_metadata() -> Metadata {
    let agent: Agent<AnyPlan> = spawn(&network().info(), 1, small(), 8);
    let memory = agent.register(vec![0; 64], Access::REMOTE_WRITE).unwrap();
    agent.metadata("name", &[("first", memory), ("", memory)]).unwrap()
}

#[test]
fn damaged_metadata_is_refused_or_differs() {
    let metadata = some_metadata();
    let bytes = metadata.to_bytes().unwrap();
    assert_eq!(Metadata::from_bytes(&bytes), Ok(metadata.clone()));
    for len in 0..bytes.len() {
        assert!(Metadata::from_bytes(&bytes[..len]).is_err(), "{len}");
        for byte in [0, 1, 0x7F, 0x80, 0xFF] {
            let mut damaged = bytes.clone();
            damaged[len] ^= byte;
            let decoded = Metadata::from_bytes(&damaged);
            assert!(byte == 0 || decoded.is_err() || decoded != Ok(metadata.clone()), "{len}");
        }
    }
    assert!(Metadata::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
    let long = Metadata { name: "n".repeat(metadata::MAX_LEN), ..metadata };
    assert!(matches!(long.to_bytes(), Err(Error::Invalid(_))));
}

/// Fetches from a server that behaves in this way.
fn fetch_from(server: impl FnOnce(TcpStream) + Send, limit: Duration) -> Result<Metadata, Error> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || server(listener.accept().unwrap().0));
        metadata::fetch(at, Instant::now() + limit)
    })
}

#[test]
fn servers_that_send_other_bytes_or_too_few_are_refused_in_time() {
    let bytes = &some_metadata().to_bytes().unwrap();
    let send = |bytes: Vec<u8>| move |mut stream: TcpStream| drop(stream.write_all(&bytes));
    assert_eq!(fetch_from(send(bytes.clone()), LIMIT), Metadata::from_bytes(bytes));
    for len in [0, 5, 11, 12, 100, bytes.len() - 1] {
        assert!(matches!(fetch_from(send(bytes[..len].to_vec()), LIMIT), Err(Error::Invalid(_))), "{len}");
    }
    assert!(matches!(fetch_from(send(b"HTTP/1.1 400 Bad Request".to_vec()), LIMIT), Err(Error::Invalid(_))));
    // A length without following bytes takes neither memory nor time.
    let forged = [&bytes[..8], &u32::MAX.to_le_bytes(), &bytes[12..]].concat();
    assert!(matches!(fetch_from(send(forged), LIMIT), Err(Error::Invalid(_))));
    let silent = |mut stream: TcpStream| {
        let mut byte = [0];
        // Waits until the client gives up.
        assert_eq!(stream.read(&mut byte).unwrap_or(0), 0);
    };
    let timed_out = Err(Error::Queue(CqError::TimedOut));
    assert_eq!(fetch_from(silent, Duration::from_millis(20)), timed_out);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let deadline = || Instant::now() + Duration::from_millis(20);
    assert!(metadata::serve(&listener, &some_metadata(), deadline()).is_err());
    drop(listener);
    assert_eq!(metadata::fetch(at, deadline()), timed_out);
}

#[test]
fn a_bootstrap_of_a_group_connects_3_agents() {
    let (info, board) = (network().info(), Board::open(3, 4096).unwrap());
    thread::scope(|scope| {
        for rank in 0..3_u32 {
            let mut ranks = InProcess::join(&board, rank).unwrap();
            let info = info.clone();
            scope.spawn(move || {
                let until = &mut (Instant::now() + LIMIT);
                let agent: Agent<AnyPlan> = spawn(&info, 1, small(), 8);
                let local = agent.register(vec![rank as u8 + 1; 100], Access::empty()).unwrap();
                let shared = agent.register(vec![0; 300], Access::REMOTE_WRITE).unwrap();
                let mine = agent.metadata("rank", &[("shared", shared)]).unwrap().to_bytes().unwrap();
                let mut memory = vec![0; Slots::memory_len(3, 4096)];
                let mut all = Slots::new(&mut memory, 3);
                ranks.all_gather(&mine, &mut all, until).unwrap();
                let arrived = agent.wait(Wait::new(1, 3)).unwrap();
                let submissions: Vec<_> = all
                    .iter()
                    .map(|bytes| {
                        let metadata = Metadata::from_bytes(bytes).unwrap();
                        let peer = agent.insert_peer(&*metadata.address).unwrap();
                        let plan = block(0, u64::from(rank) * 100, 100);
                        let request = Request::write(peer, local, metadata.memory("shared").unwrap(), plan);
                        agent.submit(request.data(1)).unwrap()
                    })
                    .collect();
                submissions.into_iter().for_each(|submission| assert_eq!(end(submission).unwrap().bytes, 100));
                end(arrived).unwrap();
                assert_eq!(bytes(&agent, shared, 300), [[1; 100], [2; 100], [3; 100]].concat());
                ranks.barrier(until).unwrap();
            });
        }
    });
}
