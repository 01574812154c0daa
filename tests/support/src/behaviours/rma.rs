//! Remote memory access.

use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use loom_core::Error;
use loom_core::av::Av;
use loom_core::buffer::{Buffer, Lent};
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Deadline;
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::endpoint::{ReadOptions, SendOptions};
use loom_core::error::{OpenError, PostError, Rejected};
use loom_core::info::Info;
use loom_core::mr::{Mr, RemoteRegion};
use loom_core::scope;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, Errno, ImmediateData, MemoryKey, RemoteAddr};

use crate::behaviours::needs::{Behaviour, RMA};
use crate::behaviours::pair::{
    Bytes, OrCut, Pair, SIZES, fails_with, fences, is_old, is_strict, is_tested, on_pair, pattern, retry, room,
};
use crate::memory::allocator;
use crate::posting::or_less;

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    vec![
        ("write_lands_in_the_peers_region", RMA, write_lands_in_the_peers_region),
        ("write_at_an_offset_leaves_the_rest_alone", RMA, write_at_an_offset_leaves_the_rest_alone),
        ("read_fetches_from_the_peers_region", RMA, read_fetches_from_the_peers_region),
        ("write_with_immediate_data_is_an_event_at_the_peer", RMA, write_with_immediate_data_is_an_event_at_the_peer),
        ("injected_write_lands_in_the_peers_region", RMA, injected_write_lands_in_the_peers_region),
        ("range_beyond_the_region_is_refused", RMA, range_beyond_the_region_is_refused),
        ("region_of_borrowed_memory_ends_with_its_scope", RMA, region_of_borrowed_memory_ends_with_its_scope),
        (
            "scope_of_borrowed_memory_is_around_the_queues_where_closing_is_no_fence",
            RMA,
            scope_of_borrowed_memory_is_around_the_queues_where_closing_is_no_fence,
        ),
        ("closed_region_gives_its_memory_back", RMA, closed_region_gives_its_memory_back),
        (
            "region_closed_in_the_middle_of_a_transfer_keeps_its_memory_while_it_is_reached",
            RMA,
            region_closed_in_the_middle_of_a_transfer_keeps_its_memory_while_it_is_reached,
        ),
        (
            "memory_of_a_closed_region_waits_for_every_endpoint_of_the_domain",
            RMA,
            memory_of_a_closed_region_waits_for_every_endpoint_of_the_domain,
        ),
        ("regions_of_one_domain_have_keys_of_their_own", RMA, regions_of_one_domain_have_keys_of_their_own),
        ("unknown_key_loses_no_buffer", RMA, unknown_key_loses_no_buffer),
        ("region_that_forbids_writing_is_not_written", RMA, region_that_forbids_writing_is_not_written),
        ("access_that_a_region_lacks_is_refused_by_the_post", RMA, access_that_a_region_lacks_is_refused_by_the_post),
        ("read_only_memory_cannot_be_exposed_for_writing", RMA, read_only_memory_cannot_be_exposed_for_writing),
        ("windows_check_their_bounds", RMA, windows_check_their_bounds),
    ]
}

const PEER_ACCESS: Access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);

pub fn contents<T: Transport + 'static, M: Buffer + Send>(mr: &Mr<'_, T, M>) -> Bytes {
    let mut bytes = room(mr.window().len());
    mr.window().copy_to(0, &mut bytes).expect("the whole window");
    bytes
}

/// Waits until a write's bytes are visible in the region. The write may complete earlier, and only
/// a message after it would report them.
fn settle<T: Transport + 'static, M: Buffer + Send>(pair: &Pair<'_, '_, T>, mr: &Mr<'_, T, M>, expected: &[u8]) {
    let mut deadline = crate::behaviours::pair::limit();
    while contents(mr)[..] != *expected {
        assert!(!deadline.passed(), "the bytes arrive");
        pair.cq.progress().or_cut("the queue works");
    }
}

fn write_lands_in_the_peers_region<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        pair.warm_up();
        for (seed, len) in SIZES.into_iter().enumerate() {
            let mr = Mr::open_in(pair.domain, room(len.max(1)), PEER_ACCESS, allocator()).expect("region");
            let written = pair.post(pattern(len, seed), |buf| pair.a.write(pair.to_b, &mr.remote(), 0, buf));
            let (buf, transfer) = pair.finish(written);
            assert_eq!(transfer.len, len);
            assert!(buf == pattern(len, seed), "the source comes back unchanged");
            let mut expected = room(len.max(1));
            expected[..len].copy_from_slice(&pattern(len, seed));
            settle(pair, &mr, &expected);
        }
    });
}

fn write_at_an_offset_leaves_the_rest_alone<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        pair.warm_up();
        let mr = Mr::open_in(pair.domain, room(100), PEER_ACCESS, allocator()).expect("region");
        let written = pair.post(pattern(10, 1), |buf| pair.a.write(pair.to_b, &mr.remote(), 33, buf));
        pair.finish(written);
        let mut expected = room(100);
        expected[33..43].copy_from_slice(&pattern(10, 1));
        settle(pair, &mr, &expected);
    });
}

fn read_fetches_from_the_peers_region<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        pair.warm_up();
        for (seed, len) in SIZES.into_iter().enumerate() {
            let mr = Mr::open_in(pair.domain, pattern(len + 5, seed), PEER_ACCESS, allocator()).expect("region");
            let read = pair.post(room(len), |buf| pair.a.read(pair.to_b, &mr.remote(), 5, buf));
            let (buf, transfer) = pair.finish(read);
            assert_eq!(transfer.len, len);
            assert!(buf[..] == pattern(len + 5, seed)[5..], "{len} bytes are read from an offset");
        }
    });
}

fn write_with_immediate_data_is_an_event_at_the_peer<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        pair.warm_up();
        let mr = Mr::open_in(pair.domain, room(4096), PEER_ACCESS, allocator()).expect("region");
        for round in 0..10 {
            let data = ImmediateData(round + 1000);
            let bytes = pattern(4096, usize::try_from(round).unwrap());
            let written = pair.post(bytes.clone(), |buf| pair.a.write_data(pair.to_b, &mr.remote(), 0, data, buf));
            let event = pair.remote_event();
            assert_eq!(event.data(), Some(data));
            assert!(contents(&mr) == bytes, "the bytes are there when the event is");
            pair.finish(written);
        }
    });
}

fn injected_write_lands_in_the_peers_region<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        pair.warm_up();
        let mr = Mr::open_in(pair.domain, room(64), PEER_ACCESS, allocator()).expect("region");
        retry(pair.cq, || pair.a.inject_write(pair.to_b, &mr.remote(), 8, &pattern(16, 1)));
        let mut expected = room(64);
        expected[8..24].copy_from_slice(&pattern(16, 1));
        settle(pair, &mr, &expected);
        let data = ImmediateData(4711);
        retry(pair.cq, || pair.a.inject_write_data(pair.to_b, &mr.remote(), 40, data, &pattern(16, 2)));
        assert_eq!(pair.remote_event().data(), Some(data));
        expected[40..56].copy_from_slice(&pattern(16, 2));
        settle(pair, &mr, &expected);
    });
}

fn range_beyond_the_region_is_refused<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let mr = Mr::open_in(pair.domain, room(64), PEER_ACCESS, allocator()).expect("region");
        let remote = mr.remote();
        for (offset, len) in [(0, 65), (1, 64), (64, 1), (u64::MAX, 1), (u64::MAX - 3, 64)] {
            let rejected = pair.a.write(pair.to_b, &remote, offset, pattern(len, 1)).expect_err("out of bounds");
            assert_eq!(rejected.error, PostError::OutOfBounds);
            assert_eq!(rejected.value, pattern(len, 1), "the buffer comes back");
            let rejected = pair.a.read(pair.to_b, &remote, offset, room(len)).expect_err("out of bounds");
            assert_eq!(rejected.error, PostError::OutOfBounds);
            if len <= pair.a.inject_size() {
                let injected = pair.a.inject_write(pair.to_b, &remote, offset, &pattern(len, 1));
                assert_eq!(injected, Err(PostError::OutOfBounds));
            }
        }
        assert_eq!(contents(&mr), room(64));
        assert_eq!(RemoteRegion::from_bytes(&remote.to_bytes()), remote);
    });
}

pub const MAY_STAY: &str = "An endpoint may stay open until the process ends, with the memory that peers reach \
    through it";

/// Returns `true` if a region can borrow memory, because the end of peers' access is defined.
fn can_borrow<T: Transport + 'static>(domain: &Domain<'_, T>) -> bool {
    fences(domain.info()) || T::quirks(domain.info().raw()).ends_with_queue
}

fn region_of_borrowed_memory_ends_with_its_scope<T: Transport + 'static>(info: &Info<T>) {
    let domain = Domain::open(info).expect("domain");
    if !can_borrow(&domain) {
        return borrowing_is_refused(info);
    }
    drop(domain);
    let mut memory = [0u8; 256];
    scope(|s| {
        let domain = s.open(info).expect("domain");
        let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
        let mr = Mr::open_in(&domain, &mut memory[..], PEER_ACCESS, allocator()).expect("region");
        let cq = Cq::open_in(&domain, CqAttr::new(64), allocator()).expect("queue");
        let pair = Pair::open(&domain, &cq, &av);
        pair.warm_up();
        let written = pair.post(pattern(256, 7), |buf| pair.a.write(pair.to_b, &mr.remote(), 0, buf));
        pair.finish(written);
        settle(&pair, &mr, &pattern(256, 7));
    });
    assert_eq!(memory[..], pattern(256, 7)[..], "the borrow is over, and the bytes are there");
}

fn borrowing_is_refused<T: Transport + 'static>(info: &Info<T>) {
    crate::report::not_granted();
    assert_eq!(borrow_on_its_own(info, PEER_ACCESS), Err(OpenError::NoFence));
    assert_eq!(borrow_on_its_own(info, Access::SEND | Access::RECV), Ok(()), "peers do not reach it");
}

/// Exposes borrowed memory through a domain of its scope, with or without an endpoint that serves
/// peers.
fn borrow_on_its_own<T: Transport + 'static>(info: &Info<T>, access: Access) -> Result<(), OpenError> {
    let mut memory = [[0u8; 256]; 2];
    let [before, beside] = &mut memory;
    scope(|s| {
        let domain = s.open(info).expect("domain");
        let _before = Mr::open_in(&domain, &mut before[..], access, allocator())?;
        let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
        let cq = Cq::<T, Bytes>::open_in(&domain, CqAttr::new(16), allocator()).expect("queue");
        let _endpoint = cq.endpoint(&av).expect("endpoint");
        Mr::open_in(&domain, &mut beside[..], access, allocator()).map(drop)
    })
}

/// Exposes borrowed memory through a domain that is kept.
fn borrow_beside_others<T: Transport + 'static>(domain: &Domain<'_, T>, access: Access) -> Result<(), OpenError> {
    let mut memory = [0u8; 256];
    scope(|s| Mr::open_in(&s.domain(domain), &mut memory[..], access, allocator()).map(drop))
}

/// Checks that no borrow ends while an endpoint serves peers, if closing a region does not stop
/// their operations.
fn scope_of_borrowed_memory_is_around_the_queues_where_closing_is_no_fence<T: Transport + 'static>(info: &Info<T>) {
    let domain = Domain::open(info).expect("domain");
    if !can_borrow(&domain) {
        return borrowing_is_refused(info);
    }
    assert_eq!(borrow_on_its_own(info, PEER_ACCESS), Ok(()));
    // Other code may have endpoints of it, or open one during the scope.
    let beside_others = || {
        assert_eq!(borrow_beside_others(&domain, Access::SEND | Access::RECV), Ok(()), "peers do not reach it");
        borrow_beside_others(&domain, PEER_ACCESS)
    };
    let expected = if fences(info) { Ok(()) } else { Err(OpenError::NoFence) };
    assert_eq!(beside_others(), expected);
    let cq = Cq::<T, Bytes>::open_in(&domain, CqAttr::new(16), allocator()).expect("queue");
    assert_eq!(beside_others(), expected);
    drop(cq);
    assert_eq!(beside_others(), expected);
}

fn closed_region_gives_its_memory_back<T: Transport + 'static>(info: &Info<T>) {
    let domain = Domain::open(info).expect("domain");
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    let region = || {
        let mr = Mr::open_in(&domain, pattern(100, 3), PEER_ACCESS, allocator()).expect("region");
        mr.window().copy_from(10, &pattern(5, 9)).expect("within the window");
        mr
    };
    let expected = [&pattern(100, 3)[..10], &pattern(5, 9)[..], &pattern(100, 3)[15..]].concat();

    let (early, finished, mut late) = (region(), region(), region());
    assert!(early.close().expect("no endpoint is open")[..] == expected);
    let cq = Cq::open_in(&domain, CqAttr::new(64), allocator()).expect("queue");
    let pair = Pair::open(&domain, &cq, &av);
    pair.warm_up();
    // SAFETY: no peer has the region's key.
    assert!(unsafe { finished.close_finished() }.expect("the provider closes it")[..] == expected);
    if !fences(info) {
        late = match late.close() {
            Err(Rejected { value: Some(region), error: Error::StillReached }) => region,
            other => panic!("closing is refused while peers may reach the memory, not {other:?}"),
        };
        let read = pair.post(room(100), |buf| pair.a.read(pair.to_b, &late.remote(), 0, buf));
        assert!(pair.finish(read).0[..] == expected, "it is as open as before");
        drop(pair);
        drop(cq);
    }
    if can_borrow(&domain) {
        assert!(late.close().expect("no endpoint is open, or closing is a fence")[..] == expected);
    } else {
        crate::report::partly(MAY_STAY);
    }
}

struct Watched {
    bytes: Bytes,
    dropped: Arc<AtomicUsize>,
}

// SAFETY: lends the memory of the box.
unsafe impl Buffer for Watched {
    fn lend(&mut self) -> Lent {
        self.bytes.lend()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// Closes regions during a peer's transfer. It is cut off, or continues in memory that stays until
/// the endpoints are closed.
fn region_closed_in_the_middle_of_a_transfer_keeps_its_memory_while_it_is_reached<T: Transport + 'static>(
    info: &Info<T>,
) {
    let len = or_less(8 << 20, 1 << 18);
    let mut unfinished = 0;
    for polls in [0, 1, 2, 5, 10, 20, 50, 200] {
        let (dropped, domain) = (Arc::new(AtomicUsize::new(0)), Domain::open(info).expect("domain"));
        let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
        let cq = Cq::open_in(&domain, CqAttr::new(64), allocator()).expect("queue");
        let pair = Pair::open(&domain, &cq, &av);
        pair.warm_up();
        let regions = [0, 1].map(|_| {
            let memory = Watched { bytes: room(len), dropped: dropped.clone() };
            Mr::open_in(&domain, memory, PEER_ACCESS, allocator()).expect("region")
        });
        let written = pair.post(room(len), |buf| pair.a.write(pair.to_b, &regions[0].remote(), 0, buf));
        // shm of libfabric 1 never answers a read of a closed region. Until the answer, the peer
        // may write into the buffer, so the queue keeps it for ever.
        let read = || pair.post(room(len), |buf| pair.a.read(pair.to_b, &regions[1].remote(), 0, buf));
        let read = if is_old(info, "shm") {
            crate::report::partly("A read of a closed region never ends");
            None
        } else {
            Some(read())
        };
        for _ in 0..polls {
            pair.cq.progress().or_cut("the queue works");
        }
        unfinished += cq.in_flight();
        drop(regions);
        assert_eq!(dropped.load(Ordering::Relaxed), if fences(info) { 2 } else { 0 });
        for _ in 0..2000 {
            pair.cq.progress().or_cut("the queue works");
        }
        // The closed endpoints return the buffers, or the closed queue drops them.
        drop(pair);
        for key in iter::once(written).chain(read) {
            let _ = cq.wait(key, Instant::now());
        }
        // Over an untested provider, an operation that never ends leaks with its queue, and its
        // endpoint stays open.
        let may_leak = !is_tested(info) && cq.in_flight() > 0;
        drop(cq);
        if may_leak && dropped.load(Ordering::Relaxed) == 0 {
            continue;
        }
        no_endpoint_is_open(&domain, &dropped, 2);
    }
    // Over the software transport a write completes when it is posted.
    assert!(unfinished > 0 || fences(info), "regions were closed in the middle of transfers");
}

fn memory_of_a_closed_region_waits_for_every_endpoint_of_the_domain<T: Transport + 'static>(info: &Info<T>) {
    let (dropped, domain) = (Arc::new(AtomicUsize::new(0)), Domain::open(info).expect("domain"));
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    let open = || Cq::<T, Bytes>::open_in(&domain, CqAttr::new(16), allocator()).expect("queue");
    let (one, two) = (open(), open());
    let (a, b) = (one.endpoint(&av).expect("endpoint a"), two.endpoint(&av).expect("endpoint b"));
    let memory = Watched { bytes: room(64), dropped: dropped.clone() };
    drop(Mr::open_in(&domain, memory, PEER_ACCESS, allocator()).expect("region"));
    let later = usize::from(fences(info));
    drop(a);
    drop(one);
    assert_eq!(dropped.load(Ordering::Relaxed), later, "an endpoint is open");
    // It keeps its queue, and closes that too.
    drop(two);
    assert_eq!(dropped.load(Ordering::Relaxed), later, "an endpoint is open");
    drop(b);
    no_endpoint_is_open(&domain, &dropped, 1);
}

/// Checks that the memory is dropped when no endpoint is open, unless one may have to stay open.
fn no_endpoint_is_open<T: Transport + 'static>(domain: &Domain<'_, T>, dropped: &AtomicUsize, all: usize) {
    let dropped = dropped.load(Ordering::Relaxed);
    if can_borrow(domain) {
        assert_eq!(dropped, all, "the memory is dropped when no endpoint is open");
    } else {
        crate::report::partly(MAY_STAY);
        assert!([0, all].contains(&dropped), "all of the memory stays, or none: {dropped}");
    }
}

fn regions_of_one_domain_have_keys_of_their_own<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        pair.warm_up();
        let regions: Vec<_> =
            (0..5).map(|_| Mr::open_in(pair.domain, room(32), PEER_ACCESS, allocator()).expect("region")).collect();
        for (seed, mr) in regions.iter().enumerate() {
            let written = pair.post(pattern(32, seed), |buf| pair.a.write(pair.to_b, &mr.remote(), 0, buf));
            pair.finish(written);
        }
        for (seed, mr) in regions.iter().enumerate() {
            settle(pair, mr, &pattern(32, seed));
        }
    });
}

/// Uses a bad key. Providers answer with an error completion, an error without an operation,
/// success, or silence. The test requires only that no byte is written and that every buffer
/// returns.
fn unknown_key_loses_no_buffer<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        pair.warm_up();
        let mr = Mr::open_in(pair.domain, room(64), PEER_ACCESS, allocator()).expect("region");
        let real = mr.remote();
        let forged =
            RemoteRegion { base: real.base, len: real.len, key: MemoryKey(real.key.0 ^ 0x5555), access: real.access };
        let c = pair.cq.endpoint(pair.av).expect("endpoint c");
        let key = pair.post(pattern(16, 1), |buf| c.write(pair.to_b, &forged, 0, buf));
        if info.provider() == "soft" && !is_strict(info) {
            assert_eq!(pair.fail(key, Errno::ENOKEY).0, pattern(16, 1));
            let beyond = RemoteRegion { base: RemoteAddr(0), len: u64::MAX, key: real.key, access: real.access };
            for offset in [49, 64, 1 << 40] {
                let written = pair.post(pattern(16, 1), |buf| c.write(pair.to_b, &beyond, offset, buf));
                // The peer checks the bounds, too.
                pair.fail(written, Errno::EFAULT);
            }
            assert_eq!(contents(&mr), room(64), "nothing was written");
            return;
        }
        for _ in 0..1000 {
            pair.cq.progress().or_cut("the queue works");
        }
        assert_eq!(contents(&mr), room(64), "nothing was written");
        drop(c);
        if let Some((buf, _)) = pair.end_after_close(key) {
            assert_eq!(buf, pattern(16, 1));
        }
    });
}

/// Returns the region as a peer that claims more access than its owner grants.
fn with_all_access(region: &RemoteRegion) -> RemoteRegion {
    RemoteRegion { base: region.base, len: region.len, key: region.key, access: PEER_ACCESS }
}

/// Posts without the required access: over some providers, the operation would succeed without
/// data, or never end and block the posts behind it.
fn access_that_a_region_lacks_is_refused_by_the_post<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        pair.warm_up();
        let open = |access| Mr::open_in(pair.domain, pattern(64, 1), access, allocator()).expect("region");
        let (for_reads, for_writes) = (open(Access::REMOTE_READ), open(Access::REMOTE_WRITE));
        let told = |mr: &Mr<'_, T, Bytes>| RemoteRegion::from_bytes(&mr.remote().to_bytes());
        let (readable, writable) = (told(&for_reads), told(&for_writes));
        assert_eq!((readable.access, writable.access), (Access::REMOTE_READ, Access::REMOTE_WRITE));
        let (a, to_b) = (&pair.a, pair.to_b);
        let lacks = |access| PostError::RemoteAccess(access);
        let part = |region: &RemoteRegion| [region.part(8, 16).expect("a part of it")];
        let refused = [
            (a.read(to_b, &writable, 0, pattern(16, 2)), Access::REMOTE_READ),
            (a.read_with(to_b, &part(&writable), ReadOptions::default(), pattern(16, 2)), Access::REMOTE_READ),
            (a.write(to_b, &readable, 0, pattern(16, 2)), Access::REMOTE_WRITE),
            (a.write_data(to_b, &readable, 0, ImmediateData(1), pattern(16, 2)), Access::REMOTE_WRITE),
            (a.write_with(to_b, &part(&readable), SendOptions::default(), pattern(16, 2)), Access::REMOTE_WRITE),
        ];
        for (posted, access) in refused {
            let rejected = posted.expect_err("it is refused");
            let expected =
                if rejected.error == (PostError::DataWidth { limit: 0 }) { rejected.error } else { lacks(access) };
            assert_eq!((rejected.error, rejected.value), (expected, pattern(16, 2)), "the buffer comes back");
        }
        assert_eq!(a.inject_write(to_b, &readable, 0, &[1]), Err(lacks(Access::REMOTE_WRITE)));
        assert_eq!(pair.cq.in_flight(), 0);
        // Later operations are not blocked.
        let read = pair.post(room(64), |buf| a.read(to_b, &readable, 0, buf));
        assert_eq!(pair.finish(read).0, pattern(64, 1));
        let written = pair.post(pattern(64, 3), |buf| a.write(to_b, &writable, 0, buf));
        pair.finish(written);
        settle(pair, &for_writes, &pattern(64, 3));
        assert_eq!(contents(&for_reads), pattern(64, 1), "nothing was written");
    });
}

fn region_that_forbids_writing_is_not_written<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        pair.warm_up();
        let mr = Mr::open_in(pair.domain, pattern(64, 1), Access::REMOTE_READ, allocator()).expect("region");
        let claimed = with_all_access(&mr.remote());
        if info.provider().starts_with("tcp") {
            crate::report::partly(
                "A write through a forged `RemoteRegion` that claims access breaks the connection, and no error \
                    reports it",
            );
            let c = pair.cq.endpoint(pair.av).expect("endpoint c");
            let open = Mr::open_in(pair.domain, room(16), PEER_ACCESS, allocator()).expect("region");
            let written = pair.post(pattern(16, 2), |buf| c.write(pair.to_b, &open.remote(), 0, buf));
            pair.finish(written);
            settle(pair, &open, &pattern(16, 2));
            let written = pair.post(pattern(16, 2), |buf| c.write(pair.to_b, &claimed, 0, buf));
            for _ in 0..1000 {
                pair.cq.progress().or_cut("the queue works");
            }
            assert_eq!(contents(&mr), pattern(64, 1));
            drop(c);
            assert_eq!(pair.end(written).0, pattern(16, 2), "the buffer comes back");
            return;
        }
        let written = pair.post(pattern(16, 2), |buf| pair.a.write(pair.to_b, &claimed, 0, buf));
        let (buf, result) = pair.end(written);
        assert_eq!(buf, pattern(16, 2), "the buffer comes back");
        for _ in 0..1000 {
            pair.cq.progress().or_cut("the queue works");
        }
        assert_eq!(contents(&mr), pattern(64, 1));
        if info.provider() != "soft" || is_strict(info) {
            if result.is_ok() {
                crate::report::partly(
                    "A write through a forged `RemoteRegion` that claims access changes nothing, \
                    but completes as a success",
                );
            }
            return;
        }
        fails_with(result, Errno::EACCES);
        let refused = iter::repeat_with(|| pair.a.inject_write(pair.to_b, &claimed, 0, &[1, 2, 3]))
            .take(100)
            .find(|injected| *injected != Err(PostError::Again));
        // The end of an injected write is not reported, so it is refused.
        fails_with(refused.expect("an answer"), Errno::EACCES);
        assert_eq!(contents(&mr), pattern(64, 1));
        let read = pair.post(room(64), |buf| pair.a.read(pair.to_b, &mr.remote(), 0, buf));
        assert_eq!(pair.finish(read).0, pattern(64, 1));
        let write_only = Mr::open_in(pair.domain, pattern(64, 1), Access::REMOTE_WRITE, allocator()).expect("region");
        let claimed = with_all_access(&write_only.remote());
        let read = pair.post(room(8), |buf| pair.a.read(pair.to_b, &claimed, 0, buf));
        pair.fail(read, Errno::EACCES);
    });
}

fn read_only_memory_cannot_be_exposed_for_writing<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        static CONSTANT: [u8; 16] = [7; 16];
        let refused =
            Mr::open_in(pair.domain, &CONSTANT[..], PEER_ACCESS, allocator()).expect_err("it cannot be written");
        assert_eq!(refused, OpenError::Access);
        let uninit: &'static mut [std::mem::MaybeUninit<u8>] = Vec::leak(vec![std::mem::MaybeUninit::uninit(); 16]);
        let refused = Mr::open_in(pair.domain, uninit, PEER_ACCESS, allocator()).expect_err("its window would read it");
        assert_eq!(refused, OpenError::Access);
        let mr = Mr::open_in(pair.domain, &CONSTANT[..], Access::REMOTE_READ, allocator()).expect("it can be read");
        assert!(mr.window().copy_from(0, &[1]).is_err(), "a window on it does not write either");
        pair.warm_up();
        let read = pair.post(room(16), |buf| pair.a.read(pair.to_b, &mr.remote(), 0, buf));
        assert_eq!(pair.finish(read).0[..], CONSTANT);
        let received = pair.post(room(1), |buf| pair.b.recv(Source::Any, buf));
        pair.b.cancel(received).expect("in flight");
        let _ = pair.end(received);
    });
}

fn windows_check_their_bounds<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let mr = Mr::open_in(pair.domain, pattern(32, 1), PEER_ACCESS, allocator()).expect("region");
        let window = mr.window();
        let mut out = [0; 8];
        assert!(window.copy_to(25, &mut out).is_err());
        assert_eq!(out, [0; 8], "nothing was copied");
        assert!(window.copy_to(usize::MAX, &mut out).is_err());
        assert!(window.copy_from(32, &[1]).is_err());
        assert!(window.slice(30, 3).is_err());
        assert!(window.copy_to(24, &mut out).is_ok());
        assert_eq!(out[..], pattern(32, 1)[24..]);
        let part = window.slice(8, 8).expect("within the window");
        assert!(part.copy_to(1, &mut out).is_err(), "a part has bounds of its own");
        assert_eq!(part.load(0, Ordering::Relaxed), Ok(pattern(32, 1)[8]));
    });
}
