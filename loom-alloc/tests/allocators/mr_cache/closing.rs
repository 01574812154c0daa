//! Rule 9, over a transport that fails to close regions. (The software transport never fails.)

use std::sync::MutexGuard;

use loom_alloc::mr_cache::{MrCache, MrCacheAttr, Notified};
use loom_core::allocator_api2::alloc::Global;
use loom_core::error::OpenError;
use loom_core::scope;
use loom_core::vocabulary::{Attributes, Errno};

use crate::mr_cache::world::memory::{Memory, PAGE, Part, Use};
use crate::scripted::{Regions, Script, Scripted};

type Cache<'d, 's> = MrCache<'d, Scripted<'s>, Notified, Global>;

fn regions(script: &Script) -> MutexGuard<'_, Regions> {
    script.regions.lock().unwrap()
}

/// Tests a cache of two regions, over a provider with `places` regions, and drops everything.
/// Returns `true` if the domain was closed.
fn with(places: usize, test: impl FnOnce(&Cache<'_, '_>, &Script, &mut Memory)) -> bool {
    let script = Script::new(Attributes::default());
    regions(&script).places = places;
    scope(|s| {
        let domain = s.open(&script.info()).unwrap();
        let mut memory = Memory::new(4);
        // SAFETY: the memory is mapped until the end.
        let monitor = unsafe { Notified::new() };
        let cache = MrCache::open_in(&domain, MrCacheAttr::new(2), monitor, Global).unwrap();
        test(&cache, &script, &mut memory);
    });
    script.closed_domains.get() == 1
}

fn page(memory: &mut Memory, number: usize) -> Part {
    memory.part(number * PAGE, PAGE, Use::Both)
}

#[test]
fn rule_9_a_region_that_is_not_closed_is_leaked_with_the_domain_and_counted() {
    let domain_closed = with(8, |cache, script, memory| {
        let used = cache.register(page(memory, 0)).unwrap();
        drop(cache.register(page(memory, 1)).unwrap());
        regions(script).failure = Some(Errno::EBUSY);
        // Evicted, invalidated, and released by its last user.
        drop(cache.register(page(memory, 2)).unwrap());
        assert_eq!((cache.stats().evictions, cache.stats().leaked), (1, 1));
        cache.flush();
        assert_eq!((cache.stats().invalidations, cache.stats().leaked), (2, 2));
        drop(used);
        let stats = cache.stats();
        assert_eq!((stats.leaked, stats.found, stats.in_use, stats.registered_bytes), (3, 0, 0, 0));
        assert_eq!(regions(script).closings, [2, 3, 1], "once each");
        // The cache reuses the places, and does not find the three regions.
        let bufs = [0, 1].map(|number| cache.register(page(memory, number)).unwrap());
        assert_eq!(bufs.each_ref().map(|buf| buf.descriptor().unwrap().raw()), [4, 5]);
        regions(script).failure = None;
    });
    assert!(!domain_closed);
}

#[test]
fn rule_9_a_buffer_comes_back_if_no_region_can_be_closed() {
    let domain_closed = with(2, |cache, script, memory| {
        for number in [0, 2] {
            drop(cache.register(page(memory, number)).unwrap());
        }
        regions(script).failure = Some(Errno::EBUSY);
        let refused = cache.register(page(memory, 3)).unwrap_err();
        assert_eq!(refused.error, OpenError::Errno(Errno::ENOMR));
        assert_eq!(refused.value.addr(), memory.addr(3 * PAGE));
        assert_eq!((cache.stats().leaked, cache.stats().registered_bytes), (2, 0), "each was tried");
    });
    assert!(!domain_closed);
}

#[test]
fn rule_9_a_dropped_cache_leaks_regions_that_do_not_close() {
    for (failure, closed) in [(None, true), (Some(Errno::EBUSY), false)] {
        let domain_closed = with(8, |cache, script, memory| {
            drop(cache.register(page(memory, 0)).unwrap());
            regions(script).failure = failure;
        });
        assert_eq!(domain_closed, closed);
    }
}
