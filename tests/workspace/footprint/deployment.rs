//! One of each object with memory, opened in sequence.

use std::alloc::Layout;

use loom_alloc::mr_cache::{MrCache, MrCacheAttr, Notified};
use loom_alloc::registered::{ExposedSlab, HeapMemory, Slab, SlabAttr, Zeroed};
use loom_core::allocator_api2::alloc::Allocator;
use loom_core::av::{Av, AvAttr};
use loom_core::completion::Completion;
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::error::{OpenError, PostError};
use loom_core::info::Info;
use loom_core::mr::Mr;
use loom_core::registered::Registered;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, Tag};
use loom_tagged::{Packet, TaggedAttr, TaggedEndpoint, WithPeer};

/// Peers of the vector, and of a set of some. (`shm` has a maximum of 256.)
const PEERS: usize = 200;
const MEMBERS: usize = 100;
const DEPTH: usize = 64;
const TAGGED: TaggedAttr = TaggedAttr { links: 2, ..TaggedAttr::DEFAULT };
const ENDPOINTS: u16 = 2;
const SLAB: SlabAttr = SlabAttr::new(16, 1000);
const HEAP: Layout = Layout::new::<[u64; 512]>();
const PEER_ACCESS: Access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);
const CACHE: MrCacheAttr = MrCacheAttr::new(32);
pub(crate) const OBJECTS: usize = 13;

type Bytes = Box<[u8]>;
type Layer<'d, T, A> = TaggedEndpoint<WithPeer<'d, T, Bytes>, Bytes, A>;

/// Documented memory of an object.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) bytes: usize,
    pub(crate) blocks: usize,
}

impl Part {
    fn of(name: &'static str, layout: Result<Layout, OpenError>) -> Self {
        Part { name, bytes: layout.expect("the sizes are small").size(), blocks: 1 }
    }
}

fn attr() -> CqAttr {
    CqAttr { endpoints: ENDPOINTS, ..CqAttr::new(DEPTH) }
}

/// Documented memory of each object, in the order of opening. A set belongs to the vector, which is
/// open before it.
pub(crate) fn parts<T: Transport + 'static, A: Allocator + Clone + Send + 'static>(
    domain: &Domain<'_, T>,
    av: Option<&Av<'_, T>>,
) -> Vec<Part> {
    let vector = AvAttr::new(PEERS);
    let tagged = Layer::<'_, T, A>::footprint(&TAGGED).expect("the sizes are small");
    // Its links have four blocks each.
    let blocks = 8 + 4 * usize::from(TAGGED.links);
    let slab = [SLAB.memory(), SLAB.table()].map(|layout| layout.expect("the sizes are small").size());
    let slab: usize = slab.iter().sum();
    let region = Mr::<T, Zeroed<A>>::layout::<A>().expect("the sizes are small").size();
    let places = av.map_or(0, |av| av.peer_table().places());
    vec![
        Part::of("domain", Domain::layout::<A>(domain.info())),
        Part::of("counter", Counter::<T>::layout::<A>()),
        Part::of("address vector", vector.layout::<T, A>(domain)),
        Part { name: "address set", bytes: 4 * places + 8 * MEMBERS.min(places), blocks: 2 },
        Part::of("queue", attr().layout::<T, Bytes, A>()),
        Part::of("queue of packets", attr().layout::<T, Packet<Bytes>, A>()),
        Part { name: "tags over plain messages", bytes: tagged, blocks },
        Part::of("region", Mr::<T, Bytes>::layout::<A>()),
        Part { name: "registered slab", bytes: slab, blocks: 2 },
        Part::of("slab over other memory", SLAB.table()),
        Part { name: "exposed slab", bytes: slab + region, blocks: 3 },
        Part::of("memory of a registered heap", Ok(HEAP)),
        Part::of("cache of registrations", MrCache::<T, Notified, A>::layout(&CACHE)),
    ]
}

/// An opened object.
pub(crate) struct Step<'s, T: Transport> {
    pub(crate) domain: &'s Domain<'static, T>,
    pub(crate) av: Option<&'s Av<'static, T>>,
    /// Counts before it was opened.
    pub(crate) before: (usize, usize),
}

/// Opens one of each, calls back after each, and then transfers data.
pub(crate) fn deploy<T: Transport + 'static, A: Allocator + Clone + Send + 'static>(
    info: &Info<T>,
    alloc: &A,
    mut opened: impl FnMut(Step<'_, T>),
    count: impl Fn() -> (usize, usize),
) -> Result<(), OpenError> {
    let alloc = || alloc.clone();
    let mut before = count();
    let domain = Domain::open_in(info, alloc())?;
    opened(Step { domain: &domain, av: None, before });
    before = count();
    let _counter = Counter::open_in(&domain, CounterAttr::default(), alloc())?;
    opened(Step { domain: &domain, av: None, before });
    before = count();
    let av = Av::open_in(&domain, AvAttr::new(PEERS), alloc())?;
    let mut step = || {
        opened(Step { domain: &domain, av: Some(&av), before });
        before = count();
    };
    step();
    let _set = av.set_in(MEMBERS, alloc())?;
    step();
    let cq = Cq::<T, Bytes>::open_in(&domain, attr(), alloc())?;
    step();
    let packets = Cq::<T, Packet<Bytes>>::open_in(&domain, attr(), alloc())?;
    step();
    let _layer = Layer::<'_, T, A>::open_in(packets, TAGGED, alloc())?;
    step();
    let memory = vec![7; 4096].into_boxed_slice();
    let _region = Mr::open_in(&domain, memory, PEER_ACCESS, alloc())?;
    step();
    let _slab = Slab::open_in(&domain, SLAB, alloc())?;
    step();
    let memory = vec![0; SLAB.memory()?.size() + SLAB.align].into_boxed_slice();
    let memory = Registered::new(&domain, memory).map_err(|refused| refused.error)?;
    let _over: Slab<'_, T, Bytes, A> = Slab::over(memory, SLAB, alloc()).map_err(|refused| refused.error)?;
    step();
    let _exposed = ExposedSlab::open_in(&domain, SLAB, PEER_ACCESS, alloc())?;
    step();
    let _heap = HeapMemory::open_in(&domain, HEAP, alloc())?;
    step();
    // SAFETY: no memory is registered through it.
    let monitor = unsafe { Notified::new() };
    let _cache = MrCache::open_in(&domain, CACHE, monitor, alloc())?;
    step();
    let [a, b] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    let to_b = av.insert(&b.address().expect("it is enabled")).expect("there is room");
    for tag in 0..100 {
        let bytes: Bytes = [tag; 32].into();
        let received = b.tagged_recv(Source::Any, Tag(tag.into()), vec![0; 32].into()).expect("there is room");
        let mut sent = a.tagged_send(to_b, Tag(tag.into()), bytes.clone());
        while let Err(rejected) = sent {
            assert!(rejected.error.is_transient(), "{}", PostError::from(rejected));
            cq.progress().expect("the queue works");
            sent = a.tagged_send(to_b, Tag(tag.into()), bytes.clone());
        }
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let done = cq.wait(received, deadline).expect("the queue works").expect("it arrives in time");
        assert_eq!(done.into_buf(), bytes);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let sent = cq.wait(sent.expect("posted"), deadline).expect("the queue works").expect("it ends in time");
        assert!(sent.result().is_ok());
        assert!(matches!(cq.poll(), Ok(None::<Completion<'_, Bytes>>)));
    }
    // Closed in the reverse order.
    drop((a, b));
    Ok(())
}
