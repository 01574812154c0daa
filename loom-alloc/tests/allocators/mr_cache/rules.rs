//! One test for each rule of the module's documentation.

use loom_alloc::mr_cache::{Cached, MrCache, MrCacheAttr, MrCacheStats, Notified};
use loom_core::allocator_api2::alloc::Global;
use loom_core::av::Av;
use loom_core::buffer::{Buffer, Lent, SourceBuffer, TargetBuffer};
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Spins;
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::error::{OpenError, PostError};
use loom_core::mr::Mr;
use loom_core::registered::Registered;
use loom_core::soft::{Network, NetworkAttr, RequiredModes, Soft};
use loom_core::vocabulary::{Access, Errno, HmemIface};

use crate::mr_cache::world::memory::{Memory, PAGE, Part, Use};

type Cache<'d, 'n> = MrCache<'d, Soft<'n>, Notified, Global>;

/// Tests a cache with these attributes.
fn with(attr: MrCacheAttr, test: impl FnOnce(&Cache<'_, '_>, &mut Memory)) {
    with_regions(attr, 16, test);
}

/// Tests a cache over a provider with `regions` regions.
fn with_regions(attr: MrCacheAttr, regions: u16, test: impl FnOnce(&Cache<'_, '_>, &mut Memory)) {
    let network = Network::new(NetworkAttr { regions, ..NetworkAttr::DEFAULT }).unwrap();
    let domain = Domain::open(&network.info_requiring(RequiredModes::LOCAL_REGISTRATION)).unwrap();
    let mut memory = Memory::new(16);
    {
        // SAFETY: the memory is mapped until the end.
        let monitor = unsafe { Notified::new() };
        let cache = MrCache::open_in(&domain, attr, monitor, Global).unwrap();
        test(&cache, &mut memory);
    }
    assert_eq!(free_regions(&domain), usize::from(regions), "a cache that is dropped has closed its regions");
}

fn free_regions(domain: &Domain<'_, Soft<'_>>) -> usize {
    std::iter::from_fn(|| Mr::open(domain, vec![0; 1], Access::REMOTE_READ).ok()).collect::<Vec<_>>().len()
}

fn pages(memory: &mut Memory, first: usize, count: usize) -> Part {
    memory.part(first * PAGE, count * PAGE, Use::Both)
}

fn counts(stats: MrCacheStats) -> (u64, u64) {
    (stats.hits, stats.misses)
}

fn refused<B: Buffer>(
    result: Result<Cached<'_, '_, Soft<'_>, B>, loom_core::error::Rejected<B, OpenError>>,
) -> (OpenError, B) {
    let refused = result.unwrap_err();
    (refused.error, refused.value)
}

#[test]
fn rule_1_a_region_consists_of_the_pages_that_the_buffer_lies_on() {
    with(MrCacheAttr::new(8), |cache, memory| {
        let buf = cache.register(memory.part(PAGE - 1, 2, Use::Both)).unwrap();
        assert_eq!(cache.stats().registered_bytes, 2 * PAGE);
        let before = cache.register(memory.part(0, 1, Use::Both)).unwrap();
        let behind = cache.register(memory.part(2 * PAGE - 1, 1, Use::Both)).unwrap();
        assert_eq!([before.descriptor(), behind.descriptor()], [buf.descriptor(); 2]);
        drop(cache.register(memory.part(2 * PAGE, 1, Use::Both)).unwrap());
        assert_eq!(cache.stats().registered_bytes, 3 * PAGE, "pages that touch are regions of their own");
    });
    // SAFETY: pages of 4096 bytes are larger than this size.
    with(unsafe { MrCacheAttr::new(8).page_size(1) }, |cache, memory| {
        drop(cache.register(memory.part(PAGE - 1, 2, Use::Both)).unwrap());
        assert_eq!(cache.stats().registered_bytes, 2);
    });
}

#[test]
fn rule_1_headroom_is_a_part_of_the_buffer() {
    with(MrCacheAttr::new(8), |cache, memory| {
        let buf = cache.register(memory.part(PAGE - 40, 50, Use::Both).with_headroom(40)).unwrap();
        assert_eq!(cache.stats().registered_bytes, 2 * PAGE);
        assert_eq!(buf.addr(), memory.addr(PAGE - 40));
    });
}

#[test]
fn rule_2_a_region_is_found_for_ranges_within_it_and_its_access() {
    with(MrCacheAttr::new(8), |cache, memory| {
        drop(cache.register(pages(memory, 1, 2)).unwrap());
        for use_ in [Use::Read, Use::Write, Use::Both] {
            drop(cache.register(memory.part(PAGE + 100, PAGE, use_)).unwrap());
        }
        assert_eq!(counts(cache.stats()), (3, 1));
        drop(cache.register(memory.part(8 * PAGE, 10, Use::Read)).unwrap());
        drop(cache.register(memory.part(8 * PAGE, 10, Use::Read)).unwrap());
        assert_eq!(counts(cache.stats()), (4, 2));
    });
}

/// Buffer that lends this memory, with the descriptor of a region.
struct Named(Lent);

// SAFETY: the test lends memory that stays, one buffer at a time.
unsafe impl Buffer for Named {
    fn lend(&mut self) -> Lent {
        self.0
    }
}
impl SourceBuffer for Named {}
impl TargetBuffer for Named {}

/// Read-only memory could not be registered for writing.
#[test]
fn rule_2_a_region_has_exactly_the_access_of_its_buffers() {
    let network = Network::new(NetworkAttr::DEFAULT).unwrap();
    let domain = Domain::open(&network.info_requiring(RequiredModes::LOCAL_REGISTRATION)).unwrap();
    let av = Av::open(&domain, 1).unwrap();
    let mut memory = Memory::new(3);
    // SAFETY: the memory is mapped until the end.
    let cache = MrCache::open_in(&domain, MrCacheAttr::new(3), unsafe { Notified::new() }, Global).unwrap();
    let cq = Cq::<_, Named>::open(&domain, CqAttr { endpoints: 1, ..CqAttr::new(4) }).unwrap();
    let endpoint = cq.endpoint(&av).unwrap();
    let me = av.insert(&endpoint.address().unwrap()).unwrap();
    for (page, (use_, sends, receives)) in
        [(Use::Read, true, false), (Use::Write, false, true), (Use::Both, true, true)].into_iter().enumerate()
    {
        let buf = cache.register(memory.part(page * PAGE, 8, use_)).unwrap();
        let mut bytes = memory.part(page * PAGE, 8, Use::Both);
        let mut named = || Named(Lent { descriptor: Some(buf.descriptor().unwrap()), ..bytes.lend() });
        let not_allowed = Err(PostError::Errno(Errno::EACCES));
        let received = endpoint.recv(Source::Any, named()).map_err(|rejected| rejected.error);
        assert_eq!(received.map(|_| ()), if receives { Ok(()) } else { not_allowed }, "{use_:?}");
        let sent = endpoint.send(me, named()).map_err(|rejected| rejected.error);
        assert_eq!(sent.map(|_| ()), if sends { Ok(()) } else { not_allowed }, "{use_:?}");
        for key in [received, sent].into_iter().flatten() {
            let _ = endpoint.cancel(key);
            drop(cq.wait(key, Spins(1 << 20)).unwrap().expect("it ends"));
        }
    }
}

#[test]
fn rule_3_buffers_that_need_no_region_pass() {
    with(MrCacheAttr::new(1), |cache, memory| {
        let empty = cache.register(memory.part(PAGE, 0, Use::Both)).unwrap();
        let nothing = cache.register(()).unwrap();
        assert_eq!([empty.descriptor(), nothing.descriptor()], [None, None]);
        assert_eq!(cache.stats(), MrCacheStats::default());
    });
    let network = Network::new(NetworkAttr::DEFAULT).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    // SAFETY: no memory is unmapped.
    let cache = MrCache::open_in(&domain, MrCacheAttr::new(1), unsafe { Notified::new() }, Global).unwrap();
    let registered = Registered::new(&domain, vec![1; 10]).unwrap();
    let own = registered.descriptor();
    let mut passed = cache.register(registered).unwrap();
    assert_eq!((passed.descriptor(), passed.lend().descriptor), (None, Some(own)));
    assert_eq!(cache.stats(), MrCacheStats::default());
}

#[test]
fn rule_4_a_region_with_users_is_never_closed() {
    with(MrCacheAttr::new(1), |cache, memory| {
        let [first, second] =
            [cache.register(pages(memory, 0, 1)).unwrap(), cache.register(pages(memory, 0, 1)).unwrap()];
        drop(first);
        assert_eq!(refused(cache.register(pages(memory, 1, 1))).0, OpenError::Limit("MrCacheAttr::new"));
        std::mem::forget(cache.register(pages(memory, 0, 1)).unwrap());
        drop(second);
        assert_eq!(
            refused(cache.register(pages(memory, 1, 1))).0,
            OpenError::Limit("MrCacheAttr::new"),
            "one was forgotten"
        );
        assert_eq!((cache.stats().in_use, cache.stats().found), (1, 1));
    });
}

#[test]
fn rule_5_regions_that_overlap_a_buffer_become_one_with_it() {
    with(MrCacheAttr::new(8), |cache, memory| {
        let used = cache.register(memory.part(0, 2 * PAGE, Use::Read)).unwrap();
        drop(cache.register(memory.part(3 * PAGE, 2 * PAGE, Use::Write)).unwrap());
        let all = cache.register(memory.part(PAGE, 3 * PAGE, Use::Read)).unwrap();
        let stats = cache.stats();
        assert_eq!((stats.merges, stats.found, stats.in_use), (1, 1, 2));
        assert_eq!(stats.registered_bytes, (2 + 5) * PAGE, "the one that is used is open still");
        let whole = cache.register(pages(memory, 0, 5)).unwrap();
        assert_eq!(whole.descriptor(), all.descriptor(), "it has the access of all");
        drop(used);
        assert_eq!(cache.stats().registered_bytes, 5 * PAGE);
    });
}

#[test]
fn rule_5_more_access_is_merged_with_the_existing_access() {
    with(MrCacheAttr::new(8), |cache, memory| {
        drop(cache.register(memory.part(0, 10, Use::Read)).unwrap());
        drop(cache.register(memory.part(0, 10, Use::Write)).unwrap());
        drop(cache.register(memory.part(0, 10, Use::Read)).unwrap());
        drop(cache.register(memory.part(0, 10, Use::Both)).unwrap());
        let stats = cache.stats();
        assert_eq!((counts(stats), stats.found, stats.registered_bytes), ((2, 2), 1, PAGE));
    });
}

#[test]
fn rule_5_no_region_grows_beyond_the_merge_limit() {
    with(MrCacheAttr::new(8).merged(2 * PAGE), |cache, memory| {
        drop(cache.register(memory.part(0, 2 * PAGE, Use::Read)).unwrap());
        drop(cache.register(memory.part(PAGE, 2 * PAGE, Use::Write)).unwrap());
        let stats = cache.stats();
        assert_eq!((stats.merges, stats.found, stats.registered_bytes), (1, 1, 2 * PAGE));
        drop(cache.register(memory.part(PAGE, 2 * PAGE, Use::Read)).unwrap());
        assert_eq!(cache.stats().hits, 1, "the access of both");
    });
}

#[test]
fn rule_5_where_the_whole_is_refused_the_buffer_is_registered_alone() {
    with(MrCacheAttr::new(8).bytes(4 * PAGE), |cache, memory| {
        drop(cache.register(pages(memory, 0, 3)).unwrap());
        let buf = cache.register(pages(memory, 2, 3)).unwrap();
        assert_eq!((cache.stats().registered_bytes, cache.stats().found), (3 * PAGE, 1));
        assert_eq!(cache.register(pages(memory, 2, 3)).unwrap().descriptor(), buf.descriptor());
    });
}

#[test]
fn rule_6_a_replaced_region_is_not_found_and_closes_with_its_last_user() {
    with(MrCacheAttr::new(8), |cache, memory| {
        let old = cache.register(pages(memory, 0, 1)).unwrap();
        cache.invalidate(memory.addr(0), 1);
        assert_eq!((cache.stats().found, cache.stats().invalidations), (0, 1));
        let new = cache.register(pages(memory, 0, 1)).unwrap();
        assert_ne!(old.descriptor(), new.descriptor());
        assert_eq!(cache.stats().registered_bytes, 2 * PAGE);
        drop(old);
        assert_eq!(cache.stats().registered_bytes, PAGE);
        drop(new);
        cache.flush();
        assert_eq!((cache.stats().registered_bytes, cache.stats().invalidations), (0, 2));
    });
}

#[test]
fn rule_6_ranges_beside_a_region_and_empty_ones_invalidate_no_region() {
    with(MrCacheAttr::new(8), |cache, memory| {
        drop(cache.register(pages(memory, 1, 1)).unwrap());
        cache.invalidate(memory.addr(0), PAGE);
        cache.invalidate(memory.addr(2 * PAGE), usize::MAX);
        cache.invalidate(memory.addr(PAGE + 5), 0);
        assert_eq!((cache.stats().found, cache.stats().invalidations), (1, 0));
        cache.invalidate(memory.addr(2 * PAGE) - 1, usize::MAX);
        assert_eq!((cache.stats().found, cache.stats().invalidations), (0, 1));
    });
}

#[test]
fn rule_7_the_least_recently_used_region_makes_room() {
    with(MrCacheAttr::new(3), |cache, memory| {
        for page in [0, 2, 4] {
            drop(cache.register(pages(memory, page, 1)).unwrap());
        }
        drop(cache.register(pages(memory, 0, 1)).unwrap());
        drop(cache.register(pages(memory, 6, 1)).unwrap());
        assert_eq!((cache.stats().evictions, cache.stats().found), (1, 3));
        let before = cache.stats().hits;
        for page in [0, 4, 6] {
            drop(cache.register(pages(memory, page, 1)).unwrap());
        }
        assert_eq!(cache.stats().hits, before + 3, "that of page 2 was evicted");
    });
}

#[test]
fn rule_7_bytes_are_limited_with_those_that_wait_for_their_users() {
    with(MrCacheAttr::new(8).bytes(4 * PAGE), |cache, memory| {
        let hidden = cache.register(pages(memory, 0, 2)).unwrap();
        cache.flush();
        drop(cache.register(pages(memory, 4, 1)).unwrap());
        drop(cache.register(pages(memory, 6, 1)).unwrap());
        drop(cache.register(pages(memory, 8, 1)).unwrap());
        assert_eq!((cache.stats().registered_bytes, cache.stats().evictions), (4 * PAGE, 1));
        let (error, buf) = refused(cache.register(pages(memory, 10, 3)));
        assert_eq!((error, buf.addr()), (OpenError::Limit("MrCacheAttr::bytes"), memory.addr(10 * PAGE)));
        assert_eq!(refused(cache.register(pages(memory, 0, 5))).0, OpenError::TooLong { limit: 4 * PAGE });
        drop(hidden);
        drop(cache.register(pages(memory, 10, 3)).unwrap());
    });
}

#[test]
fn rule_7_no_region_is_closed_for_a_buffer_that_cannot_fit() {
    with(MrCacheAttr::new(8).bytes(8 * PAGE), |cache, memory| {
        let held = cache.register(pages(memory, 0, 5)).unwrap();
        for page in [8, 10] {
            drop(cache.register(pages(memory, page, 1)).unwrap());
        }
        assert_eq!(refused(cache.register(pages(memory, 12, 4))).0, OpenError::Limit("MrCacheAttr::bytes"));
        assert_eq!((cache.stats().evictions, cache.stats().found), (0, 3));
        // It does not merge regions either: six pages beside five.
        let beside = cache.register(pages(memory, 4, 2)).unwrap();
        assert_eq!((cache.stats().evictions, cache.stats().registered_bytes), (1, 8 * PAGE));
        drop((held, beside));
    });
}

#[test]
fn rule_7_regions_make_room_when_the_provider_is_full() {
    with_regions(MrCacheAttr::new(8), 2, |cache, memory| {
        for page in 0..6 {
            drop(cache.register(pages(memory, page, 1)).unwrap());
        }
        assert_eq!((cache.stats().evictions, cache.stats().found), (4, 2));
        let held = [0, 1].map(|page| cache.register(pages(memory, page, 1)).unwrap());
        let (error, buf) = refused(cache.register(pages(memory, 8, 1)));
        assert_eq!(error, OpenError::Limit("NetworkAttr::regions"));
        assert_eq!(buf.addr(), memory.addr(8 * PAGE));
        drop(held);
    });
}

#[test]
fn rule_8_notices_come_before_the_next_look_up() {
    with(MrCacheAttr::new(8), |cache, memory| {
        let [gone, stays] = [0, 4].map(|page| cache.register(pages(memory, page, 1)).unwrap());
        cache.monitor().notices().give(memory.addr(0), PAGE);
        let [anew, found] = [0, 4].map(|page| cache.register(pages(memory, page, 1)).unwrap());
        assert_ne!(anew.descriptor(), gone.descriptor());
        assert_eq!(found.descriptor(), stays.descriptor());
    });
}

#[test]
fn rule_8_a_cache_that_has_missed_notices_forgets_everything() {
    with(MrCacheAttr::new(8), |cache, memory| {
        drop(cache.register(pages(memory, 0, 1)).unwrap());
        for _ in 0..64 {
            cache.monitor().notices().give(1, 1);
        }
        drop(cache.register(pages(memory, 0, 1)).unwrap());
        assert_eq!(cache.stats().hits, 1, "as many as it can be behind");
        for _ in 0..65 {
            cache.monitor().notices().give(1, 1);
        }
        drop(cache.register(pages(memory, 0, 1)).unwrap());
        assert_eq!((cache.stats().hits, cache.stats().invalidations), (1, 1));
    });
}

#[test]
fn rule_8_while_a_notice_is_given_a_buffer_has_a_region_for_itself() {
    with(MrCacheAttr::new(8), |cache, memory| {
        let found = cache.register(pages(memory, 0, 1)).unwrap();
        cache.monitor().notices().give_what(|| {
            let own = cache.register(pages(memory, 0, 1)).unwrap();
            assert_ne!(own.descriptor(), found.descriptor());
            assert_eq!((cache.stats().uncached, cache.stats().found, cache.stats().in_use), (1, 1, 2));
            None
        });
        assert_eq!((cache.stats().in_use, cache.stats().registered_bytes), (1, PAGE));
        assert_eq!(cache.register(pages(memory, 0, 1)).unwrap().descriptor(), found.descriptor());
    });
}

/// Buffer in the memory of a device.
struct OfDevice(Part);

// SAFETY: refused before any use.
unsafe impl Buffer for OfDevice {
    fn lend(&mut self) -> Lent {
        Lent { kind: HmemIface::CUDA, ..self.0.lend() }
    }
}

#[test]
fn rule_10_memory_of_devices_is_refused() {
    with(MrCacheAttr::new(8), |cache, memory| {
        let (error, buf) = refused(cache.register(OfDevice(pages(memory, 3, 1))));
        assert_eq!((error, buf.0.addr()), (OpenError::DeviceMemory, memory.addr(3 * PAGE)));
    });
}

#[test]
fn a_list_of_buffers_is_refused() {
    with(MrCacheAttr::new(8), |cache, memory| {
        let several = [pages(memory, 0, 1), pages(memory, 1, 1)];
        let (error, buf) = refused(cache.register(several));
        assert_eq!((error, buf.len()), (OpenError::Access, 2));
        assert_eq!(cache.stats(), MrCacheStats::default());
    });
}

#[test]
fn impossible_attributes_are_refused() {
    let network = Network::new(NetworkAttr::DEFAULT).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let open = |attr| {
        // SAFETY: no memory is registered.
        let monitor = unsafe { Notified::new() };
        MrCache::open_in(&domain, attr, monitor, Global).map(drop).unwrap_err()
    };
    assert_eq!(open(MrCacheAttr::new(0)), OpenError::Size);
    assert_eq!(open(MrCacheAttr::new(u32::MAX)), OpenError::Size);
    for size in [0, 3, 4095] {
        // SAFETY: no memory is registered.
        assert_eq!(open(unsafe { MrCacheAttr::new(1).page_size(size) }), OpenError::Size);
    }
}

#[test]
fn absurd_page_sizes_are_refused_with_the_buffer() {
    for bits in [48, 63] {
        // SAFETY: no memory is unmapped.
        with(unsafe { MrCacheAttr::new(1).page_size(1 << bits) }, |cache, memory| {
            let refused = cache.register(pages(memory, 0, 1)).map(drop);
            assert!(refused.is_err() || cache.stats().registered_bytes == 1 << bits);
        });
    }
}
