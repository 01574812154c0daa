//! Defects of an earlier cache of this kind, one test each.

use loom_alloc::mr_cache::{MrCache, MrCacheAttr, Notified};
use loom_core::allocator_api2::alloc::Global;
use loom_core::domain::Domain;
use loom_core::soft::{Network, NetworkAttr, RequiredModes};

use crate::mr_cache::world::memory::{PAGE, Use};
use crate::mr_cache::world::oracle::Limits;
use crate::mr_cache::world::{Action, play};

const LIMITS: Limits = Limits { capacity: 8, bytes: usize::MAX, merged: usize::MAX, regions: 8 };

fn register(at: usize, len: usize, use_: Use) -> Action {
    Action::Register { at, len, headroom: 0, use_ }
}

/// The new region was not stored, and was freed while its buffer used it.
#[test]
fn a_longer_buffer_or_more_access_at_the_begin_of_a_region_has_a_region_that_is_open() {
    let stories = [
        [register(0, 10, Use::Both), register(0, 2 * PAGE, Use::Both), Action::Use { nth: 1 }, Action::Use { nth: 0 }],
        [register(0, 10, Use::Read), register(0, 10, Use::Write), Action::Use { nth: 1 }, Action::Use { nth: 0 }],
    ];
    for story in stories {
        assert_eq!(play(LIMITS, story), 4);
    }
}

/// The cache never evicted a region.
#[test]
fn a_cache_never_has_more_regions_than_its_capacity() {
    let story = (0..1000).flat_map(|n| [register(n % 11 * PAGE, 1, Use::Both), Action::Release { nth: 0 }]);
    assert_eq!(play(Limits { capacity: 3, regions: 3, ..LIMITS }, story), 2000);
}

/// The search for the region of an address went back by one region, which could be a smaller one.
#[test]
fn a_region_is_found_also_where_a_smaller_one_was_registered_in_it() {
    let story = [
        register(2 * PAGE, 1, Use::Both),
        register(0, 8 * PAGE, Use::Both),
        register(2 * PAGE, 1, Use::Both),
        register(3 * PAGE, 1, Use::Both),
        register(7 * PAGE, 1, Use::Both),
        Action::Use { nth: 4 },
    ];
    assert_eq!(play(LIMITS, story), 6);
}

/// Invalidated regions could be found while they had users.
#[test]
fn an_invalidated_region_with_users_is_not_found() {
    let story = [
        register(0, 1, Use::Both),
        Action::Invalidate { at: 0, len: PAGE },
        register(0, 1, Use::Both),
        Action::Release { nth: 0 },
        Action::Use { nth: 0 },
    ];
    assert_eq!(play(LIMITS, story), 5);
}

/// All regions requested key 0, which is granted once by a domain where the application selects
/// keys.
#[test]
fn regions_have_keys_of_their_own() {
    let network = Network::new(NetworkAttr::DEFAULT).unwrap();
    let domain = Domain::open(&network.info_requiring(RequiredModes::LOCAL_REGISTRATION)).unwrap();
    // SAFETY: no memory is unmapped.
    let monitor = unsafe { Notified::new() };
    let caches = [(); 2].map(|()| MrCache::open_in(&domain, MrCacheAttr::new(4), &monitor, Global).unwrap());
    let bytes = [vec![0; 10 * PAGE], vec![0; 10 * PAGE]];
    let bufs = caches.each_ref().map(|cache| bytes.each_ref().map(|bytes| cache.register(&bytes[..]).unwrap()));
    let mut descriptors: Vec<_> = bufs.iter().flatten().map(|buf| buf.descriptor().unwrap().raw()).collect();
    descriptors.sort_unstable();
    descriptors.dedup();
    assert_eq!(descriptors.len(), 4);
}
