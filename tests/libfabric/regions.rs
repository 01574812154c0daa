//! Regions over providers that cannot close a region under an open endpoint. Regions close before
//! the next endpoint opens, and no peer writes to memory that was given up. Endpoints that are
//! never closed run in a separate process, because endpoints of an untested provider stay open
//! beside them.

use support::alone::is_alone;
use support::shared_memory;

use std::iter;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use loom_core::av::Av;
use loom_core::buffer::{Buffer, Lent};
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Spins;
use loom_core::domain::Domain;
use loom_core::endpoint::{Endpoint, Source};
use loom_core::engine::op_table::OpKey;
use loom_core::error::Rejected;
use loom_core::info::{Hints, Info};
use loom_core::mr::{Mr, RemoteRegion};
use loom_core::vocabulary::{Access, Caps, EndpointAddr};
use loom_fabric::loom_core;
use loom_fabric::ofi::{Ofi, Shared};
use support::library_version;

type T = Ofi<Shared>;

const LIMIT: Duration = Duration::from_secs(60);

/// Length of a write that stays in flight for a while.
const LONG: usize = 64 << 20;

fn info(provider: &str) -> Info<T> {
    shared_memory::remove_at_exit();
    let node = (provider != "shm").then_some("127.0.0.1");
    let hints = Hints {
        caps: Caps::MSG | Caps::RMA,
        provider: Some(provider),
        node,
        listen: node.is_some(),
        ..Hints::default()
    };
    let mut infos = Ofi::<Shared>::query(&hints).unwrap();
    infos.next().unwrap_or_else(|| panic!("libfabric {} has no {provider}", library_version()))
}

/// Memory that is never freed: late writes are visible, and harmless.
struct Given {
    words: &'static [AtomicU64],
    /// Number of words that were written before it was given up.
    before: &'static AtomicUsize,
    on_drop: Option<Box<dyn FnOnce() + Send>>,
}

#[derive(Clone, Copy)]
struct Left {
    words: &'static [AtomicU64],
    before: &'static AtomicUsize,
}

const NOT_GIVEN_UP: usize = usize::MAX;

impl Given {
    fn new(len: usize, on_drop: impl FnOnce() + Send + 'static) -> (Self, Left) {
        let words = Box::leak(vec![0_u64; len / 8].into_boxed_slice());
        // SAFETY: the words have no other user, and a number has the layout of an atomic.
        let words: &'static [AtomicU64] = unsafe { &*(std::ptr::from_mut(words) as *const [AtomicU64]) };
        let before = Box::leak(Box::new(AtomicUsize::new(NOT_GIVEN_UP)));
        (Given { words, before, on_drop: Some(Box::new(on_drop)) }, Left { words, before })
    }
}

// SAFETY: the words are never freed, and are read as atomics alone.
unsafe impl Buffer for Given {
    fn lend(&mut self) -> Lent {
        Lent::both(NonNull::from(self.words).cast(), size_of_val(self.words))
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        if let Some(on_drop) = self.on_drop.take() {
            on_drop();
        }
        self.before.store(written(self.words), Ordering::SeqCst);
    }
}

impl Left {
    fn is_given_up(self) -> bool {
        self.before.load(Ordering::SeqCst) != NOT_GIVEN_UP
    }

    /// Numbers of words that were written before it was given up, and since.
    fn written(self) -> (usize, usize) {
        assert!(self.is_given_up());
        let before = self.before.load(Ordering::SeqCst);
        (before, written(self.words) - before)
    }
}

fn written(words: &[AtomicU64]) -> usize {
    words.partition_point(|word| word.load(Ordering::SeqCst) != 0)
}

/// Data for a peer: the address to write to, and the regions.
type Told = (EndpointAddr, Vec<RemoteRegion>);

/// A peer that tries to write to all regions that it receives, and answers when its writes have
/// ended. Their results depend on the provider: `shm` of libfabric 2 reports success although no
/// byte was written.
///
/// It opens its endpoint after the first request: beside a stranger's endpoint, one of an untested
/// provider is not closed.
fn peer(info: &Info<T>, told: &Receiver<Told>, answers: &Sender<()>) {
    let next = || told.recv_timeout(4 * LIMIT).ok();
    let Some(first) = next() else { return };
    let domain = Domain::open(info).unwrap();
    let av = Av::open(&domain, 16).unwrap();
    let cq = Cq::<T, Vec<u8>>::open(&domain, CqAttr::new(16)).unwrap();
    let endpoint = cq.endpoint(&av).unwrap();
    for (address, regions) in iter::once(first).chain(iter::from_fn(next)) {
        let to = av.insert(&address).unwrap();
        let deadline = Instant::now() + LIMIT;
        for region in regions {
            let mut buf = vec![1; usize::try_from(region.len).unwrap()];
            let key = loop {
                match endpoint.write(to, &region, 0, buf) {
                    Ok(key) => break key,
                    Err(refused) => {
                        assert!(refused.error.is_transient() && Instant::now() < deadline, "{:?}", refused.error);
                        buf = refused.value;
                        cq.progress().unwrap();
                    }
                }
            };
            assert!(cq.wait(key, deadline).unwrap().is_some(), "a write ends");
        }
        // The test may have failed meanwhile.
        let _ = answers.send(());
    }
}

/// Leaks a domain with a vector, for use in destructors.
fn for_ever(info: &Info<T>) -> (&'static Domain<'static, T>, &'static Av<'static, T>) {
    let domain: &Domain<'_, T> = Box::leak(Box::new(Domain::open(info).unwrap()));
    (domain, Box::leak(Box::new(Av::open(domain, 16).unwrap())))
}

/// Opens an endpoint that is never closed, lets the peer write, and drives progress until `over`
/// returns `true` or the peer has answered. Returns `true` in the second case.
fn let_write(
    (domain, av): (&'static Domain<'static, T>, &'static Av<'static, T>),
    tell: &Sender<Told>,
    answers: &Receiver<()>,
    regions: Vec<RemoteRegion>,
    over: impl Fn() -> bool,
) -> bool {
    let cq: &_ = Box::leak(Box::new(Cq::<T, Vec<u8>>::open(domain, CqAttr::new(16)).unwrap()));
    let endpoint = Box::leak(Box::new(cq.endpoint(av).unwrap()));
    tell.send((endpoint.address().unwrap(), regions)).unwrap();
    let deadline = Instant::now() + LIMIT;
    while !over() {
        match answers.try_recv() {
            Ok(()) => return true,
            Err(error) => assert_eq!(error, TryRecvError::Empty, "the peer runs"),
        }
        assert!(Instant::now() < deadline, "a write begins or is refused");
        cq.progress().unwrap();
    }
    false
}

struct Scene {
    objects: (&'static Domain<'static, T>, &'static Av<'static, T>),
    /// Channels to the peer and back, until the peer has answered.
    peer: Option<(Sender<Told>, Receiver<()>)>,
    regions: Vec<RemoteRegion>,
    memories: Vec<Left>,
}

impl Scene {
    /// Lets the peer write, if no memory was given up before.
    fn first_drop(&mut self) {
        if self.memories.iter().any(|left| left.is_given_up()) {
            return;
        }
        let (tell, answers) = self.peer.take().unwrap();
        let begun = || self.memories.iter().any(|left| written(&left.words[..1]) > 0);
        if !let_write(self.objects, &tell, &answers, self.regions.clone(), begun) {
            self.peer = Some((tell, answers));
        }
    }
}

/// Checks memories of which the first dropped one opens an endpoint. A peer tries to write to both
/// regions through it.
fn memory_that_opens_an_endpoint_on_drop(provider: &str) {
    let info = &info(provider);
    let (domain, av) = for_ever(info);
    let ((tell, told), (answer, answers)) = (mpsc::channel(), mpsc::channel());
    let scene = Scene { objects: (domain, av), peer: Some((tell, answers)), regions: vec![], memories: vec![] };
    let scene = Arc::new(Mutex::new(scene));
    thread::scope(|threads| {
        threads.spawn(move || peer(info, &told, &answer));
        let regions = [(); 2].map(|()| {
            let of_drop = scene.clone();
            let (memory, left) =
                Given::new(LONG, move || of_drop.lock().unwrap_or_else(PoisonError::into_inner).first_drop());
            let region = Mr::open(domain, memory, Access::REMOTE_WRITE).unwrap();
            let mut scene = scene.lock().unwrap();
            scene.memories.push(left);
            scene.regions.push(region.remote());
            region
        });
        let memories = scene.lock().unwrap().memories.clone();
        let cq = Cq::<T, Vec<u8>>::open(domain, CqAttr::new(16)).unwrap();
        let endpoint = cq.endpoint(av).unwrap();
        drop(regions);
        assert!(!memories.iter().any(|left| left.is_given_up()), "an endpoint is open");
        drop(endpoint);
        drop(cq);
        // The peer ends when its channel is closed.
        if let Some((_tell, answers)) = scene.lock().unwrap().peer.take() {
            let _ = answers.recv_timeout(LIMIT / 4);
        }
        for left in memories {
            assert_eq!(left.written(), (0, 0), "words written before and after memory was given up");
        }
    });
}

/// Closes the last endpoint in a thread, and with it very many regions. Another thread opens an
/// endpoint as soon as a memory was dropped, and lets a peer write to the region in their middle.
fn an_endpoint_is_opened_while_very_many_regions_go(provider: &str) {
    /// Number of regions on either side. Closing them takes longer than opening an endpoint.
    const SMALL: usize = 100_000;
    let info = &info(provider);
    let (domain, av) = for_ever(info);
    let ((tell, told), (answer, answers)) = (mpsc::channel(), mpsc::channel());
    let (dropped, first_drop) = mpsc::channel();
    thread::scope(|threads| {
        threads.spawn(move || peer(info, &told, &answer));
        let cq = Cq::<T, Vec<u8>>::open(domain, CqAttr::new(16)).unwrap();
        let endpoint = cq.endpoint(av).unwrap();
        let give_up_small = || {
            for _ in 0..SMALL {
                let dropped = dropped.clone();
                let (memory, _) = Given::new(64, move || dropped.send(()).unwrap_or_default());
                drop(Mr::open(domain, memory, Access::REMOTE_WRITE).unwrap());
            }
        };
        give_up_small();
        let (memory, left) = Given::new(LONG, || {});
        let region = Mr::open(domain, memory, Access::REMOTE_WRITE).unwrap();
        let remote = region.remote();
        drop(region);
        give_up_small();
        let other = threads.spawn(move || {
            first_drop.recv_timeout(LIMIT).unwrap();
            let begun = || written(&left.words[..1]) > 0;
            // A write that has begun continues until the peer has answered.
            if !let_write((domain, av), &tell, &answers, vec![remote], begun) {
                let _ = answers.recv_timeout(LIMIT / 4);
            }
        });
        drop(endpoint);
        assert!(left.is_given_up());
        other.join().unwrap();
        assert_eq!(left.written(), (0, 0), "words written before and after memory was given up");
    });
}

#[test]
fn sockets_memory_that_opens_an_endpoint_on_drop() {
    if is_alone("regions::sockets_memory_that_opens_an_endpoint_on_drop") {
        memory_that_opens_an_endpoint_on_drop("sockets");
    }
}

#[test]
fn shm_memory_that_opens_an_endpoint_on_drop() {
    if library_version().major < 2 {
        println!(
            "skipped: a write to a region that is closed does not end over shm of libfabric 1, which closes them at any time"
        );
        return;
    }
    if is_alone("regions::shm_memory_that_opens_an_endpoint_on_drop") {
        memory_that_opens_an_endpoint_on_drop("shm");
    }
}

/// Checks `ofi_rxm`, which can close regions at any time: they close before the endpoint opens, and
/// their memory is dropped after it opened.
#[test]
fn rxm_memory_that_opens_an_endpoint_on_drop() {
    if is_alone("regions::rxm_memory_that_opens_an_endpoint_on_drop") {
        memory_that_opens_an_endpoint_on_drop("tcp;ofi_rxm");
    }
}

#[test]
fn sockets_memory_of_a_region_among_very_many() {
    if is_alone("regions::sockets_memory_of_a_region_among_very_many") {
        an_endpoint_is_opened_while_very_many_regions_go("sockets");
    }
}

/// Checks that others of its domain do not drive an endpoint of `shm` that is not polled: memory
/// that peers reach through it alone is not written after the last poll of its queue.
#[test]
fn shm_endpoint_that_is_not_polled_is_not_driven() {
    let info = &info("shm");
    if !info.raw().is_tested() {
        println!(
            "skipped: it is relied on in versions that are tested, and these endpoints would keep those of other tests open"
        );
        return;
    }
    let [domain, others] = [(); 2].map(|()| Domain::open(info).unwrap());
    let [av, others_av] = [&domain, &others].map(|domain| Av::open(domain, 16).unwrap());
    let open = |domain| Cq::<T, Vec<u8>>::open(domain, CqAttr::new(64)).unwrap();
    let (idle, busy, writers) = (open(&domain), open(&domain), open(&others));
    let (memory, left) = Given::new(64, || {});
    let region = Mr::open(&domain, memory, Access::REMOTE_WRITE).unwrap();
    let (reached, neighbour) = (idle.endpoint(&av).unwrap(), busy.endpoint(&av).unwrap());
    let writer = writers.endpoint(&others_av).unwrap();
    let [to_reached, to_neighbour] =
        [&reached, &neighbour].map(|endpoint| others_av.insert(&endpoint.address().unwrap()).unwrap());
    let deadline = Instant::now() + LIMIT;
    // Drives the writer's queue and the one that it reaches.
    let posted = |on: &Cq<'_, T, Vec<u8>>, post: &dyn Fn() -> Result<OpKey, Rejected<Vec<u8>>>| loop {
        match post() {
            Ok(key) => break key,
            Err(refused) => assert!(refused.error.is_transient() && Instant::now() < deadline, "{:?}", refused.error),
        }
        writers.progress().unwrap();
        on.progress().unwrap();
    };
    let message = |on: &Cq<'_, T, Vec<u8>>, to: &Endpoint<'_, T, Vec<u8>>, peer| {
        let received = posted(on, &|| to.recv(Source::Any, vec![0; 8]));
        let sent = posted(on, &|| writer.send(peer, vec![2; 8]));
        while on.wait(received, Spins(1)).unwrap().is_none() {
            assert!(Instant::now() < deadline, "the message arrives");
            writers.progress().unwrap();
        }
        while writers.wait(sent, Spins(1)).unwrap().is_none() {
            assert!(Instant::now() < deadline, "the message is sent");
            on.progress().unwrap();
        }
    };
    message(&idle, &reached, to_reached);
    posted(&busy, &|| writer.write(to_reached, &region.remote(), 0, vec![1; 64]));
    for _ in 0..1000 {
        message(&busy, &neighbour, to_neighbour);
    }
    assert_eq!(self::written(left.words), 0, "the neighbour's queue drives the endpoint");
    // Its own queue drives it.
    let mut is_over = false;
    while !is_over || self::written(left.words) < 8 {
        assert!(Instant::now() < deadline, "the write ends, and has arrived");
        is_over |= writers.poll().unwrap().is_some();
        idle.progress().unwrap();
    }
}
