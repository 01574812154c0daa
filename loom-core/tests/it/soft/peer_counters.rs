//! Counters of peers' operations: the count of each operation, its counter, and exact counts under
//! concurrent threads.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use allocator_api2::alloc::{AllocError, Allocator, Global};
use loom_core::atomic::{BaseOp, CompareOp, FetchOp, ReadOp};
use loom_core::av::Av;
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::SendOptions;
use loom_core::endpoint::{Binding, Endpoint};
use loom_core::error::PostError;
use loom_core::info::Info;
use loom_core::mr::{Mr, MrAttr, RemoteRegion};
use loom_core::soft::{Network, NetworkAttr, Plan, Soft};
use loom_core::vocabulary::{Access, Caps, Counted, EndpointAddr, Errno, ImmediateData};
use loom_core::{Hints, Peer};

type S = Soft<'static>;
type Bytes = Box<[u8]>;
type Queue = Cq<'static, S, Bytes>;

const BOTH: Access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);
/// Time limit of a test.
const LIMIT: Duration = Duration::from_secs(120);

fn counter(domain: &Domain<'static, S>) -> Counter<'static, S> {
    Counter::open(domain, CounterAttr::default()).unwrap()
}

fn words(count: usize) -> Box<[u8]> {
    vec![0; 8 * count].into()
}

struct World {
    a: Endpoint<'static, S, Bytes>,
    to_b: Peer,
    reads: Counter<'static, S>,
    writes: Counter<'static, S>,
    of_region: Counter<'static, S>,
    region: Mr<'static, S, Bytes>,
    b: Endpoint<'static, S, Bytes>,
    cq: Queue,
    domain: Domain<'static, S>,
    av: Av<'static, S>,
}

impl World {
    fn open(info: &Info<S>) -> Self {
        let domain = Domain::open(info).unwrap();
        let [reads, writes, of_region] = [(); 3].map(|()| counter(&domain));
        let av = Av::open(&domain, 4).unwrap();
        let cq = Queue::open(&domain, CqAttr::new(32)).unwrap();
        let a = cq.endpoint(&av).unwrap();
        let bound = Binding::to(&av).counter(Counted::REMOTE_READ, &reads).counter(Counted::REMOTE_WRITE, &writes);
        let b = cq.endpoint(bound).unwrap();
        let to_b = av.insert(&b.address().unwrap()).unwrap();
        let region = Mr::open(&domain, words(32), MrAttr::new(BOTH).counter(&of_region)).unwrap();
        World { a, to_b, reads, writes, of_region, region, b, cq, domain, av }
    }

    /// Counts of reads, of writes, and of writes to the region.
    fn counts(&self) -> [u64; 3] {
        assert!([&self.reads, &self.writes, &self.of_region].iter().all(|counter| counter.read_error() == 0));
        [self.reads.read(), self.writes.read(), self.of_region.read()]
    }

    fn finish(&self, post: impl Fn(Bytes) -> Result<loom_core::OpKey, loom_core::error::Rejected<Bytes>>, len: usize) {
        let key = self.cq.post(vec![7; len].into(), Instant::now() + LIMIT, post).unwrap();
        self.cq.finish(key, Instant::now() + LIMIT).unwrap().result().unwrap();
    }
}

fn network() -> Network<'static> {
    Network::new(NetworkAttr { endpoints: 4, ..NetworkAttr::DEFAULT }).unwrap()
}

#[test]
fn each_operation_of_a_peer_counts_once() {
    let world = World::open(&network().info());
    let (a, to_b, remote) = (&world.a, world.to_b, world.region.remote());
    let mut expected = [0; 3];
    let mut counts = |added: [u64; 3], what: &str| {
        expected.iter_mut().zip(added).for_each(|(sum, more)| *sum += more);
        assert_eq!(world.counts(), expected, "{what}");
    };
    counts([0, 0, 0], "nothing yet");
    world.finish(|buf| a.write(to_b, &remote, 0, buf), 8);
    counts([0, 1, 1], "a write");
    world.finish(|buf| a.write(to_b, &remote, 0, buf), 0);
    counts([0, 1, 1], "a write of nothing");
    world.finish(|buf| a.write_data(to_b, &remote, 0, ImmediateData(1), buf), 8);
    counts([0, 1, 1], "a write with immediate data");
    a.inject_write(to_b, &remote, 0, &[1; 8]).unwrap();
    counts([0, 1, 1], "an injected write");
    let parts = [remote.part(0, 8).unwrap(), remote.part(64, 8).unwrap()];
    world.finish(|buf| a.write_with(to_b, &parts, SendOptions::default(), buf), 16);
    counts([0, 1, 2], "a write to two ranges");
    world.finish(|buf| a.read(to_b, &remote, 0, buf), 8);
    counts([1, 0, 0], "a read");
    world.finish(|buf| a.read_with(to_b, &parts, Default::default(), buf), 16);
    counts([1, 0, 0], "a read of two ranges");

    let add = world.domain.query_atomic(BaseOp::<u64>::SUM).unwrap();
    let fetch_add = world.domain.query_atomic(FetchOp::<u64>::SUM).unwrap();
    let read = world.domain.query_atomic(ReadOp::<u64>::READ).unwrap();
    let swap = world.domain.query_atomic(CompareOp::<u64>::CSWAP).unwrap();
    let aligned = world.region.window().as_ptr().align_offset(8) as u64;
    let end = |key| world.cq.wait_value(key, Instant::now() + LIMIT).unwrap().unwrap();
    end(a.atomic_value(to_b, &remote, aligned, add, 1).unwrap()).result().unwrap();
    counts([0, 1, 1], "an atomic operation");
    a.inject_atomic(to_b, &remote, aligned, add, &[1]).unwrap();
    counts([0, 1, 1], "an injected atomic operation");
    end(a.fetch_value(to_b, &remote, aligned, fetch_add, 1).unwrap()).result().unwrap();
    counts([1, 0, 1], "a fetch");
    end(a.compare_value(to_b, &remote, aligned, swap, 1, 2).unwrap()).result().unwrap();
    counts([1, 0, 1], "a comparison");
    end(a.read_value(to_b, &remote, aligned, read).unwrap()).result().unwrap();
    counts([1, 0, 0], "an atomic read");

    let misaligned = a.atomic_value(to_b, &remote, aligned + 1, add, 1);
    assert_eq!(misaligned, Err(PostError::Misaligned { size: 8 }));

    // Forbidden writes, and writes elsewhere.
    let only_read = Mr::open(&world.domain, words(1), Access::REMOTE_READ).unwrap();
    let told = only_read.remote();
    let claimed = RemoteRegion { base: told.base, len: told.len, key: told.key, access: Access::REMOTE_WRITE };
    let key = a.write(to_b, &claimed, 0, words(1)).unwrap();
    let done = world.cq.finish(key, Instant::now() + LIMIT).unwrap();
    assert_eq!(done.result().unwrap_err().errno, Errno::EACCES);
    counts([0, 0, 0], "a write that is forbidden");
    let to_a = world.av.insert(&a.address().unwrap()).unwrap();
    world.finish(|buf| a.write(to_a, &remote, 0, buf), 8);
    counts([0, 0, 1], "a write by way of another endpoint");
    world.finish(|buf| world.b.write(to_b, &remote, 0, buf), 8);
    counts([0, 1, 1], "a write of the endpoint itself");
}

#[test]
fn a_counter_of_peers_is_set_and_added_to() {
    let world = World::open(&network().info());
    let (a, to_b, remote, writes) = (&world.a, world.to_b, world.region.remote(), &world.writes);
    let write = || a.inject_write(to_b, &remote, 0, &[1; 8]).unwrap();
    write();
    writes.add(5).unwrap();
    assert_eq!(writes.read(), 6);
    writes.set(u64::MAX).unwrap();
    assert_eq!(writes.read(), u64::MAX);
    write();
    assert_eq!(writes.read(), 0, "numbers wrap around");
    writes.set(3).unwrap();
    write();
    assert_eq!((writes.read(), writes.read_error()), (4, 0));
    writes.add_error(2).unwrap();
    assert_eq!((writes.read(), writes.read_error()), (4, 2));
}

#[test]
fn delayed_operations_are_counted_when_they_are_done() {
    // A plan that reorders, and a strict network.
    let strict = Network::new(NetworkAttr { strict: true, ..NetworkAttr::DEFAULT }).unwrap();
    let hints = Hints { caps: Caps::MSG | Caps::RMA | Caps::RMA_EVENT, ..Hints::default() };
    let infos = [network().info_with_faults(Plan { reorder: 6, ..Plan::new(1) }), strict.query(&hints).unwrap()];
    assert!(strict.query(&Hints::default()).is_ok_and(|info| !info.caps().contains(Caps::RMA_EVENT)), "unasked");
    for (strict, info) in [false, true].into_iter().zip(infos) {
        let world = World::open(&info);
        let (a, to_b, remote) = (&world.a, world.to_b, world.region.remote());
        world.finish(|buf| a.write(to_b, &remote, 0, buf), 8);
        let until = Instant::now() + LIMIT;
        let mut late = false;
        for round in 2..10 {
            let written = a.write(to_b, &remote, 0, words(1)).unwrap();
            late |= world.writes.read() < round;
            world.cq.finish(written, until).unwrap().result().unwrap();
            while world.writes.read() < round {
                assert!(Instant::now() < until);
                world.cq.progress().unwrap();
            }
            assert_eq!(world.counts(), [round - 2, round, round], "strict: {strict}");
            world.finish(|buf| a.read(to_b, &remote, 0, buf), 8);
            assert_eq!(world.counts()[0], round - 1);
        }
        assert!(late, "strict: {strict}");
    }
}

const THREADS: u64 = 3;

struct Poster {
    cq: Queue,
    endpoint: Endpoint<'static, S, Bytes>,
    domain: Domain<'static, S>,
    av: Av<'static, S>,
}

impl Poster {
    fn open(info: &Info<S>) -> Self {
        let domain = Domain::open(info).unwrap();
        let av = Av::open(&domain, 4096).unwrap();
        let cq = Queue::open(&domain, CqAttr::new(8)).unwrap();
        let endpoint = cq.endpoint(&av).unwrap();
        Poster { cq, endpoint, domain, av }
    }
}

#[test]
fn threads_lose_and_invent_no_count() {
    const EACH: u64 = 20_000;
    let network = Network::new(NetworkAttr { endpoints: 8, ..NetworkAttr::DEFAULT }).unwrap();
    let info = network.info();
    let domain = Domain::open(&info).unwrap();
    let [reads, all, of_region] = [(); 3].map(|()| counter(&domain));
    let av = Av::open(&domain, 4).unwrap();
    let cq = Queue::open(&domain, CqAttr::new(32)).unwrap();
    // One counter for two endpoints counts peers' writes and the owner's operations.
    let own = Counted::WRITE | Counted::REMOTE_WRITE;
    let one = cq.endpoint(Binding::to(&av).counter(Counted::REMOTE_READ, &reads).counter(own, &all)).unwrap();
    let two = cq.endpoint(Binding::to(&av).counter(Counted::REMOTE_READ | own, &all)).unwrap();
    let region = Mr::open(&domain, words(32), MrAttr::new(BOTH).counter(&of_region)).unwrap();
    let offset = region.window().as_ptr().align_offset(8) as u64;
    let (addresses, remote) = ([&one, &two].map(|endpoint| endpoint.address().unwrap()), &region.remote());
    let over = AtomicU64::new(0);

    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let (info, addresses, over) = (&info, &addresses, &over);
            scope.spawn(move || {
                let Poster { cq, endpoint, domain, av } = &Poster::open(info);
                let peers = addresses.each_ref().map(|address| av.insert(address).unwrap());
                let add = domain.query_atomic(FetchOp::<u64>::SUM).unwrap();
                let until = Instant::now() + LIMIT;
                let mut buf: Option<Bytes> = Some(words(1));
                for _ in 0..EACH {
                    for peer in peers {
                        for reading in [true, false] {
                            let post = |buf| match reading {
                                true => endpoint.read(peer, remote, 0, buf),
                                false => endpoint.write(peer, remote, 0, buf),
                            };
                            let key = cq.post(buf.take().unwrap(), until, post).unwrap();
                            let (back, result) = cq.finish(key, until).unwrap().into_parts();
                            result.unwrap();
                            buf = Some(back);
                        }
                        cq.retry(until, || endpoint.inject_write(peer, remote, 8, &[1; 8])).unwrap();
                        let key = cq.retry(until, || endpoint.fetch_value(peer, remote, 64 + offset, add, 1)).unwrap();
                        cq.wait_value(key, until).unwrap().unwrap().result().unwrap();
                    }
                }
                over.fetch_add(1, Ordering::Release);
            });
        }
        // Meanwhile the owner adds, and counts its own operations.
        let until = Instant::now() + LIMIT;
        let to_itself = av.insert(&one.address().unwrap()).unwrap();
        let (mut before, mut own, mut added) = ([0; 3], 0, 0);
        loop {
            let last = over.load(Ordering::Acquire) == THREADS;
            let counts = [reads.read(), all.read(), of_region.read()];
            assert!(before.iter().zip(counts).all(|(before, now)| *before <= now), "counts only grow");
            before = counts;
            if last {
                break;
            }
            assert!(Instant::now() < until, "{counts:?}");
            two.inject_write(to_itself, remote, 128, &[1; 8]).unwrap();
            all.add(1).unwrap();
            (own, added) = (own + 1, added + 1);
            cq.progress().unwrap();
        }
        let done = THREADS * EACH;
        // Each round has two reads and two writes for each endpoint. The owner's writes count as
        // such, and as a peer's.
        let expected = [2 * done, (2 + 4) * done + 2 * own + added, 2 * 3 * done + own];
        assert_eq!([reads.read(), all.read(), of_region.read()], expected);
        let sum = region.window().element::<u64>(64 + usize::try_from(offset).unwrap()).unwrap().load();
        assert_eq!(sum, 2 * done);
    });
    assert_eq!([&reads, &all, &of_region].map(Counter::read_error), [0; 3]);
}

/// An endpoint and a region of the owner: the values for peers, and the number of their successful
/// writes.
struct Round {
    number: u64,
    address: EndpointAddr,
    remote: RemoteRegion,
    done: AtomicU64,
    /// Threads that have taken the round, under the lock, and still write.
    users: AtomicU64,
}

#[test]
fn endpoints_regions_and_counters_are_closed_while_peers_count() {
    const ROUNDS: u64 = 2000;
    let network = Network::new(NetworkAttr { endpoints: 8, ..NetworkAttr::DEFAULT }).unwrap();
    let info = network.info();
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, 4).unwrap();
    let cq = Queue::open(&domain, CqAttr::new(32)).unwrap();
    let (now, stop) = (&Mutex::new(None::<&'static Round>), &AtomicBool::new(false));

    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let info = &info;
            scope.spawn(move || {
                let poster = Poster::open(info);
                let mut known = None::<(u64, Peer)>;
                while !stop.load(Ordering::Relaxed) {
                    let Some(round) = now.lock().unwrap().inspect(|round| {
                        round.users.fetch_add(1, Ordering::Relaxed);
                    }) else {
                        // Lets others run where there are more threads than processors.
                        std::thread::yield_now();
                        continue;
                    };
                    let peer = match known {
                        Some((number, peer)) if number == round.number => peer,
                        _ => {
                            if let Some((_, peer)) = known {
                                assert!(poster.av.remove(peer));
                            }
                            poster.av.insert(&round.address).unwrap()
                        }
                    };
                    known = Some((round.number, peer));
                    for _ in 0..50 {
                        let written = poster.endpoint.inject_write(peer, &round.remote, 0, &[1; 8]);
                        if written.is_err() {
                            break;
                        }
                        round.done.fetch_add(1, Ordering::Relaxed);
                    }
                    round.users.fetch_sub(1, Ordering::Release);
                }
            });
        }
        struct Stop<'s>(&'s AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _stop = Stop(stop);
        let until = Instant::now() + LIMIT;
        let mut counted = 0;
        for number in 0..ROUNDS {
            // Freed with their last handle, so that AddressSanitizer detects a later count.
            let [of_endpoint, of_region] = [(); 2].map(|()| counter(&domain));
            let endpoint = cq.endpoint(Binding::to(&av).counter(Counted::REMOTE_WRITE, &of_endpoint)).unwrap();
            let region = Mr::open(&domain, words(8), MrAttr::new(BOTH).counter(&of_region)).unwrap();
            let (address, remote) = (endpoint.address().unwrap(), region.remote());
            let [done, users] = [(); 2].map(|()| AtomicU64::new(0));
            let round: &Round = Box::leak(Box::new(Round { number, address, remote, done, users }));
            *now.lock().unwrap() = Some(round);
            while of_endpoint.read() < number % 4 && Instant::now() < until {
                std::thread::yield_now();
            }
            if number.is_multiple_of(2) {
                drop(endpoint);
                drop(region);
            } else {
                drop(region);
                drop(endpoint);
            }
            let (endpoint, region) = (of_endpoint.read(), of_region.read());
            assert!(endpoint >= number % 4 && endpoint <= region, "{endpoint} of {region}");
            // No thread uses the round after this, so its writes can be summed up.
            *now.lock().unwrap() = None;
            while round.users.load(Ordering::Acquire) > 0 {
                assert!(Instant::now() < until);
                std::thread::yield_now();
            }
            let done = round.done.load(Ordering::Relaxed);
            assert_eq!((of_endpoint.read(), of_region.read(), region), (endpoint, done, done), "round {number}");
            counted += region;
        }
        assert!(counted > ROUNDS, "{counted}");
    });
}

#[derive(Clone, Copy)]
struct Freed(&'static AtomicU64);

// SAFETY: forwards.
#[allow(unsafe_code, reason = "an allocator")]
unsafe impl Allocator for Freed {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
        self.0.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { Global.deallocate(ptr, layout) };
    }
}

/// In a strict network, a region dropped while endpoints are open stays reachable until they are
/// closed.
#[test]
fn a_region_that_is_kept_counts_and_keeps_its_counter() {
    let network = Network::new(NetworkAttr { endpoints: 4, strict: true, ..NetworkAttr::DEFAULT }).unwrap();
    let hints = Hints { caps: Caps::MSG | Caps::RMA | Caps::RMA_EVENT, ..Hints::default() };
    let domain = Domain::open(&network.query(&hints).unwrap()).unwrap();
    let (av, cq) = (Av::open(&domain, 4).unwrap(), Queue::open(&domain, CqAttr::new(32)).unwrap());
    let (a, b) = (cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap());
    let to_b = av.insert(&b.address().unwrap()).unwrap();
    let (until, freed) = (Instant::now() + LIMIT, Freed(Box::leak(Box::new(AtomicU64::new(0)))));
    let counter = Counter::open_in(&domain, CounterAttr::default(), freed).unwrap();
    let region = Mr::open(&domain, words(8), MrAttr::new(BOTH).counter(&counter)).unwrap();
    let remote = region.remote();
    drop(region);
    let write = || {
        cq.retry(until, || a.inject_write(to_b, &remote, 0, &[1; 8])).unwrap();
        // The peer's polls complete the write.
        for _ in 0..1000 {
            cq.progress().unwrap();
        }
    };
    write();
    assert_eq!(counter.read(), 1, "it is not left");
    drop(counter);
    write();
    assert_eq!(freed.0.load(Ordering::Relaxed), 0);
    drop((a, b));
    assert_eq!(freed.0.load(Ordering::Relaxed), 1);
}
