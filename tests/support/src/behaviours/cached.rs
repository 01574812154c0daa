//! Buffers with cached registrations.

use loom_alloc::mr_cache::{Cached, MrCache, MrCacheAttr, Notified};
use loom_core::av::Av;
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Deadline;
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::engine::op_table::OpKey;
use loom_core::error::PostError;
use loom_core::info::Info;
use loom_core::mr::Mr;
use loom_core::scope;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, Tag};

use crate::behaviours::needs::{Behaviour, MSG, TAGGED_AND_RMA};
use crate::behaviours::pair::{OrCut, limit, pattern};
use crate::memory::{Memory, allocator};
use crate::posting::post;

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    vec![
        ("cached_buffers_serve_every_operation", TAGGED_AND_RMA, cached_buffers_serve_every_operation),
        ("cached_regions_come_and_go_between_messages", MSG, cached_regions_come_and_go_between_messages),
        ("cached_buffers_are_dropped_with_their_queue", MSG, cached_buffers_are_dropped_with_their_queue),
        ("a_cached_region_of_another_domain_is_refused", MSG, a_cached_region_of_another_domain_is_refused),
    ]
}

type Cache<'d, T> = MrCache<'d, T, Notified, Memory>;
type Buf<'c, 'd, 'm, T> = Cached<'c, 'd, T, &'m mut [u8]>;

/// Opens a cache for memory that stays.
fn open<'d, T: Transport + 'static>(domain: &Domain<'d, T>, capacity: u32) -> Cache<'d, T> {
    // SAFETY: in each case here, the memory of all buffers stays until the cache is closed.
    let monitor = unsafe { Notified::new() };
    MrCache::open_in(domain, MrCacheAttr::new(capacity), monitor, allocator()).expect("cache")
}

fn register<'c, 'd, 'm, T: Transport + 'static>(cache: &'c Cache<'d, T>, buf: &'m mut [u8]) -> Buf<'c, 'd, 'm, T> {
    cache.register(buf).unwrap_or_else(|error| panic!("{error:#}"))
}

fn finish<'c, 'd, 'm, T: Transport + 'static>(cq: &Cq<'_, T, Buf<'c, 'd, 'm, T>>, key: OpKey) -> &'m mut [u8] {
    let done = cq.wait(key, limit()).or_cut("the queue works").expect("the operation ends in time");
    let (buf, result) = done.into_parts();
    result.or_cut("the operation succeeds");
    buf.into_inner()
}

/// Cuts memory into consecutive buffers of these lengths.
fn cut(mut memory: &mut [u8], lengths: impl IntoIterator<Item = usize>) -> Vec<&mut [u8]> {
    let cut = |len| memory.split_off_mut(..len).expect("the memory is long enough");
    lengths.into_iter().map(cut).collect()
}

fn cached_buffers_serve_every_operation<T: Transport + 'static>(info: &Info<T>) {
    const LENGTHS: [usize; 4] = [1, 64, 5000, 1 << 20];
    let domain = Domain::open(info).expect("domain");
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    let [exposed, mut out, mut into] = [(); 3].map(|()| vec![0; 2 << 20]);
    let cache = open(&domain, 64);
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
    let region = Mr::open_in(&domain, exposed, access, allocator()).expect("region");
    scope(|s| {
        let cq =
            &Cq::<T, Buf<'_, '_, '_, T>>::open_in(&s.domain(&domain), CqAttr::new(16), allocator()).expect("queue");
        let (a, b) = (cq.endpoint(&av).expect("a"), cq.endpoint(&av).expect("b"));
        let to_b = av.insert(&b.address().expect("address of b")).expect("b in the vector");
        let (mut out, mut into) = (cut(&mut out, LENGTHS), cut(&mut into, LENGTHS));
        for round in 0..3 {
            let bufs = out.drain(..).zip(into.drain(..)).zip(0..);
            let bufs = bufs.map(|((message, room), seed): ((&mut [u8], &mut [u8]), usize)| {
                let expected = pattern(message.len(), seed + round);
                message.copy_from_slice(&expected);
                room.fill(0xee);
                let received = post(cq, register(&cache, room), |into| b.tagged_recv(Source::Any, Tag(4), into));
                let sent = post(cq, register(&cache, message), |out| a.tagged_send(to_b, Tag(4), out));
                let (mut room, message) = (finish(cq, received), finish(cq, sent));
                assert!(*room == *expected, "{} bytes", room.len());
                let remote = region.remote();
                let written = post(cq, register(&cache, message), |out| a.write(to_b, &remote, 0, out));
                let message = finish(cq, written);
                // The completion of a write does not report that its bytes have arrived. A later
                // read finds them.
                let mut deadline = limit();
                loop {
                    room.fill(0xee);
                    let read = post(cq, register(&cache, room), |into| a.read(to_b, &remote, 0, into));
                    room = finish(cq, read);
                    if *room == *expected {
                        return (message, room);
                    }
                    assert!(!deadline.passed(), "{} bytes are written and read", room.len());
                }
            });
            (out, into) = bufs.collect();
        }
    });
    let stats = cache.stats();
    assert!(stats.misses <= 2 * LENGTHS.len() as u64, "from the second round on everything is found: {stats:?}");
    assert!(stats.hits >= 8 * LENGTHS.len() as u64 + stats.merges, "{stats:?}");
    assert_eq!(stats.in_use, 0);
}

/// Posts receives into buffers that share pages, while regions are replaced and evicted.
fn cached_regions_come_and_go_between_messages<T: Transport + 'static>(info: &Info<T>) {
    const LEN: usize = 1000;
    const MOST: usize = 4;
    let domain = Domain::open(info).expect("domain");
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    let [mut out, mut into] = [(); 2].map(|()| vec![0; 64 * LEN]);
    let cache = open(&domain, 12);
    scope(|s| {
        let cq =
            &Cq::<T, Buf<'_, '_, '_, T>>::open_in(&s.domain(&domain), CqAttr::new(32), allocator()).expect("queue");
        let (a, b) = (cq.endpoint(&av).expect("a"), cq.endpoint(&av).expect("b"));
        let to_b = av.insert(&b.address().expect("address of b")).expect("b in the vector");
        let (mut out, mut into) = (cut(&mut out, [LEN; 64]), cut(&mut into, [LEN; 64]));
        for round in 0..64 {
            // Buffers from various places of the memory.
            let count = round % MOST + 1;
            let at = |nth: usize| (round * 7 + nth * 13) % 60;
            let rooms = (0..count).map(|nth| register(&cache, into.remove(at(nth))));
            let received: Vec<_> = rooms.map(|room| post(cq, room, |room| b.recv(Source::Any, room))).collect();
            for (nth, received) in received.into_iter().enumerate() {
                let message = out.remove(at(nth));
                message.copy_from_slice(&pattern(LEN, round + nth));
                let sent = post(cq, register(&cache, message), |out| a.send(to_b, out));
                let room = finish(cq, received);
                assert!(*room == *pattern(LEN, round + nth), "message {nth} of round {round}");
                into.push(room);
                out.push(finish(cq, sent));
            }
        }
        let stats = cache.stats();
        assert!(stats.hits > 0 && stats.merges > 0 && stats.in_use == 0, "{stats:?}");
    });
    cache.flush();
    let stats = cache.stats();
    assert_eq!((stats.registered_bytes, stats.leaked), (0, 0), "every region is closed");
}

fn cached_buffers_are_dropped_with_their_queue<T: Transport + 'static>(info: &Info<T>) {
    if !crate::behaviours::waiting::closes_with_receives(info) {
        return;
    }
    let domain = Domain::open(info).expect("domain");
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    let mut memory = vec![0; 400];
    let cache = open(&domain, 8);
    scope(|s| {
        let cq =
            &Cq::<T, Buf<'_, '_, '_, T>>::open_in(&s.domain(&domain), CqAttr::new(16), allocator()).expect("queue");
        let endpoint = cq.endpoint(&av).expect("endpoint");
        for room in cut(&mut memory, [100; 4]) {
            post(cq, register(&cache, room), |room| endpoint.recv(Source::Any, room));
        }
        assert!(cache.stats().in_use > 0);
    });
    assert_eq!(cache.stats().in_use, 0);
    drop(cache);
    // The domain closes, because no object of it is open.
    drop(Mr::open_in(&domain, vec![0; 8], Access::REMOTE_READ, allocator()).expect("a region"));
}

fn a_cached_region_of_another_domain_is_refused<T: Transport + 'static>(info: &Info<T>) {
    let (domain, other) = (Domain::open(info).expect("domain"), Domain::open(info).expect("another domain"));
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    let mut memory = [1; 8];
    let cache = open(&other, 8);
    scope(|s| {
        let cq =
            &Cq::<T, Buf<'_, '_, '_, T>>::open_in(&s.domain(&domain), CqAttr::new(16), allocator()).expect("queue");
        let endpoint = cq.endpoint(&av).expect("endpoint");
        let rejected = endpoint.recv(Source::Any, register(&cache, &mut memory)).expect_err("it is another domain's");
        assert_eq!(rejected.error, PostError::ForeignDescriptor);
        assert_eq!(rejected.value.into_inner(), [1; 8]);
    });
}
