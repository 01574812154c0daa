//! Regions that can be reached after their close, over a transport that reports a close or a drop
//! at a wrong time.
//!
//! A region of a domain with open endpoints is kept when it is dropped. The thread that finds no
//! endpoint open closes the region before an endpoint can be opened, and only then drops the
//! memory.

mod halfway;
mod lock;
mod scopes;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use loom_core::Error;
use loom_core::av::Av;
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::error::Rejected;
use loom_core::mr::{Mr, MrAttr};
use loom_core::vocabulary::Access;

use world::{Memory, Watched, World};

const PEER_ACCESS: Access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);

/// Time that a closing region waits for a forbidden event.
const WHILE_CLOSING: Duration = Duration::from_millis(50);

const LIMIT: Duration = Duration::from_secs(60);

type Queue<'d> = Cq<'d, Watched, Vec<u8>>;

fn queue<'d>(domain: &Domain<'d, Watched>) -> Queue<'d> {
    Cq::open(domain, CqAttr::new(4)).unwrap()
}

fn vector<'d>(domain: &Domain<'d, Watched>) -> Av<'d, Watched> {
    Av::open(domain, 1).unwrap()
}

fn region<'d>(domain: &Domain<'d, Watched>, memory: Memory) -> Mr<'d, Watched, Memory> {
    Mr::open(domain, memory, PEER_ACCESS).unwrap()
}

fn for_ever(world: &'static World) -> (&'static Domain<'static, Watched>, &'static Av<'static, Watched>) {
    let domain: &Domain<'_, Watched> = Box::leak(Box::new(Domain::open(&world.info()).unwrap()));
    (domain, Box::leak(Box::new(vector(domain))))
}

fn open_for_ever(domain: &Domain<'static, Watched>, av: &Av<'static, Watched>) {
    let cq: &Queue<'static> = Box::leak(Box::new(queue(domain)));
    core::mem::forget(cq.endpoint(av).unwrap());
}

fn wait_for(limit: Duration, so: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !so() {
        if Instant::now() > deadline {
            return false;
        }
        thread::yield_now();
    }
    true
}

#[test]
fn memory_that_opens_an_endpoint_on_drop_finds_every_region_closed() {
    let world = World::strict();
    let (domain, av) = for_ever(world);
    let cq = queue(domain);
    let endpoint = cq.endpoint(av).unwrap();
    for _ in 0..3 {
        drop(region(domain, Memory::that_drops(world, move || open_for_ever(domain, av))));
    }
    assert_eq!((world.open_regions(), world.memories_dropped()), (3, 0), "an endpoint is open");
    drop(endpoint);
    assert_eq!(world.wrongs(), [""; 0]);
    assert_eq!((world.open_regions(), world.memories_dropped(), world.endpoints()), (0, 3, 3));
}

/// Memory of regions that are already closed, which a new endpoint cannot reach.
#[test]
fn memory_of_closed_regions_is_dropped_though_a_drop_opens_an_endpoint() {
    let world = World::lenient();
    let (domain, av) = for_ever(world);
    let cq = queue(domain);
    let endpoint = cq.endpoint(av).unwrap();
    for _ in 0..3 {
        drop(region(domain, Memory::that_drops(world, move || open_for_ever(domain, av))));
    }
    assert_eq!((world.open_regions(), world.memories_dropped()), (0, 0), "peers' operations may go on");
    drop(endpoint);
    assert_eq!((world.wrongs(), world.memories_dropped(), world.endpoints()), (vec![], 3, 3));
}

#[test]
fn memory_that_opens_and_closes_an_endpoint_on_drop_finds_a_whole_list() {
    let world = World::strict();
    let (domain, av) = for_ever(world);
    let cq = queue(domain);
    let endpoint = cq.endpoint(av).unwrap();
    for _ in 0..3 {
        let again = move || {
            let cq = queue(domain);
            let endpoint = cq.endpoint(av).unwrap();
            drop(region(domain, Memory::of(world)));
            drop(endpoint);
        };
        drop(region(domain, Memory::that_drops(world, again)));
    }
    drop(endpoint);
    assert_eq!(world.wrongs(), [""; 0]);
    assert_eq!((world.open_regions(), world.closings(), world.memories_dropped()), (0, 6, 6));
}

#[test]
fn memory_that_panics_on_drop_prevents_no_other_drop() {
    let world = World::strict();
    {
        let domain = Domain::open(&world.info()).unwrap();
        let av = vector(&domain);
        let cq = queue(&domain);
        let endpoint = cq.endpoint(&av).unwrap();
        for number in 0..3 {
            drop(region(&domain, Memory::that_drops(world, move || assert!(number != 1, "a drop that unwinds"))));
        }
        assert!(catch_unwind(AssertUnwindSafe(|| drop(endpoint))).is_err(), "the panic arrives");
        assert_eq!((world.open_regions(), world.closings(), world.memories_dropped()), (0, 3, 3));
    }
    assert_eq!((world.wrongs(), world.domains_closed()), (vec![], 1));
}

/// This thread closes regions, and another thread opens an endpoint from the first close on. It
/// must not get the endpoint before the last close.
fn no_endpoint_is_opened_while_this_closes<'m>(
    world: &'static World,
    domain: &Domain<'m, Watched>,
    av: &Av<'m, Watched>,
    this: impl FnOnce(),
) {
    let (closing, begun) = mpsc::channel();
    let (wants, wanted) = mpsc::channel();
    let (ready, is_ready) = mpsc::channel();
    let (ended, end) = mpsc::channel();
    let mut is_wanted = false;
    world.while_closing(move || {
        let _ = closing.send(());
        is_wanted = is_wanted || wanted.recv_timeout(LIMIT).is_ok();
        assert!(is_wanted);
        wait_for(WHILE_CLOSING, || world.endpoints() > 0);
    });
    thread::scope(|threads| {
        threads.spawn(move || {
            let cq = queue(domain);
            ready.send(()).unwrap();
            begun.recv_timeout(LIMIT).unwrap();
            wants.send(()).unwrap();
            let endpoint = cq.endpoint(av).unwrap();
            end.recv_timeout(LIMIT).unwrap();
            drop(endpoint);
        });
        is_ready.recv_timeout(LIMIT).unwrap();
        this();
        ended.send(()).unwrap();
    });
    assert_eq!(world.wrongs(), [""; 0]);
    assert_eq!(world.open_regions(), 0);
}

#[test]
fn no_endpoint_is_opened_while_the_last_one_closes_regions() {
    let world = World::strict();
    let domain = Domain::open(&world.info()).unwrap();
    let av = vector(&domain);
    let cq = queue(&domain);
    let endpoint = cq.endpoint(&av).unwrap();
    for _ in 0..3 {
        drop(region(&domain, Memory::of(world)));
    }
    no_endpoint_is_opened_while_this_closes(world, &domain, &av, || drop(endpoint));
    assert_eq!(world.memories_dropped(), 3);
}

#[test]
fn no_endpoint_is_opened_while_a_region_is_dropped_or_closed() {
    let world = World::strict();
    let domain = Domain::open(&world.info()).unwrap();
    let av = vector(&domain);
    let dropped = region(&domain, Memory::of(world));
    no_endpoint_is_opened_while_this_closes(world, &domain, &av, || drop(dropped));
    let closed = region(&domain, Memory::of(world));
    no_endpoint_is_opened_while_this_closes(world, &domain, &av, || drop(closed.close().unwrap()));
    assert_eq!(world.memories_dropped(), 2);
}

#[test]
fn regions_dropped_while_endpoints_come_and_go_close_under_no_endpoint() {
    const ROUNDS: usize = 50_000;
    let world = World::strict();
    let domain = Domain::open(&world.info()).unwrap();
    let av = vector(&domain);
    // Long enough for the other thread to open an endpoint.
    world.while_closing(|| (0..200).for_each(|_| core::hint::spin_loop()));
    let opened = AtomicUsize::new(0);
    thread::scope(|threads| {
        // Ends here, also by a panic.
        let (_until, over) = mpsc::channel::<()>();
        let (domain, av, opened) = (&domain, &av, &opened);
        threads.spawn(move || {
            let cq = queue(domain);
            while over.try_recv() == Err(TryRecvError::Empty) {
                drop(cq.endpoint(av).unwrap());
                opened.fetch_add(1, Ordering::Relaxed);
            }
        });
        for _ in 0..ROUNDS {
            drop(region(domain, Memory::of(world)));
        }
        assert!(wait_for(LIMIT, || opened.load(Ordering::Relaxed) > 0), "the other thread runs");
    });
    assert_eq!((world.wrongs().len(), world.open_regions()), (0, 0), "of {ROUNDS}");
    assert_eq!((world.closings(), world.memories_dropped()), (ROUNDS, ROUNDS));
}

#[test]
fn a_kept_region_that_fails_to_close_keeps_the_domain_open() {
    let world = World::strict();
    {
        let domain = Domain::open(&world.info()).unwrap();
        let av = vector(&domain);
        let cq = queue(&domain);
        let endpoint = cq.endpoint(&av).unwrap();
        drop(region(&domain, Memory::of(world)));
        world.fail_to_close();
        drop(endpoint);
    }
    assert_eq!((world.wrongs(), world.closings()), (vec![], 1), "it is not tried again");
    assert_eq!((world.open_regions(), world.memories_dropped(), world.domains_closed()), (1, 0, 0));
}

#[test]
fn a_region_that_fails_to_close_at_once_keeps_the_domain_open() {
    for world in [World::strict(), World::lenient()] {
        let domain = Domain::open(&world.info()).unwrap();
        let [dropped, closed] = [(); 2].map(|()| region(&domain, Memory::of(world)));
        world.fail_to_close();
        drop(dropped);
        assert!(matches!(closed.close(), Err(Rejected { value: None, error: Error::Provider(_) })));
        drop(domain);
        assert_eq!((world.wrongs(), world.closings()), (vec![], 2));
        assert_eq!((world.open_regions(), world.memories_dropped(), world.domains_closed()), (2, 0, 0));
    }
}

#[test]
fn a_kept_region_is_closed_before_the_domain() {
    let world = World::strict();
    {
        let domain = Domain::open(&world.info()).unwrap();
        let av = vector(&domain);
        let cq = queue(&domain);
        let endpoint = cq.endpoint(&av).unwrap();
        drop(region(&domain, Memory::of(world)));
        let kept = region(&domain, Memory::of(world));
        let Err(Rejected { value: Some(kept), error: Error::StillReached }) = kept.close() else {
            panic!("an endpoint is open")
        };
        drop(kept);
        drop(endpoint);
        assert_eq!((world.open_regions(), world.memories_dropped()), (0, 2));
    }
    assert_eq!((world.wrongs(), world.domains_closed()), (vec![], 1));
}

/// A counter of peers' writes stays open as long as peers can reach the memory.
#[test]
fn a_counter_closes_after_the_last_region_bound_to_it() {
    for world in [World::strict(), World::lenient()] {
        {
            let domain = Domain::open(&world.info()).unwrap();
            let counted = || {
                let counter = Counter::open(&domain, CounterAttr::default()).unwrap();
                Mr::open(&domain, Memory::of(world), MrAttr::new(PEER_ACCESS).counter(&counter)).unwrap()
            };
            drop(counted());
            assert_eq!(world.counters_closed(), 1);
            let (av, cq) = (vector(&domain), queue(&domain));
            let endpoint = cq.endpoint(&av).unwrap();
            drop(counted());
            assert_eq!((world.counters_closed(), world.memories_dropped()), (1, 1));
            drop(endpoint);
            assert_eq!((world.counters_closed(), world.open_regions(), world.memories_dropped()), (2, 0, 2));
        }
        assert_eq!((world.wrongs(), world.domains_closed()), (vec![], 1));
    }
}
