//! Memory that a cache takes from its allocator, and the times of this.

use core::alloc::Layout;
use std::cell::Cell;
use std::ptr::NonNull;

use loom_alloc::mr_cache::{MrCache, MrCacheAttr, Notified};
use loom_core::allocator_api2::alloc::{AllocError, Allocator, Global};
use loom_core::domain::Domain;
use loom_core::error::OpenError;
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::transport::MemoryRegions;

use crate::mr_cache::world::memory::{Memory, PAGE, Use};

/// Allocator that counts its blocks and bytes, and has a limited number of blocks.
#[derive(Default)]
struct Counting {
    taken: Cell<usize>,
    blocks: Cell<usize>,
    left: Cell<usize>,
}

// SAFETY: the blocks of the global allocator.
unsafe impl Allocator for &Counting {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.left.set(self.left.get().checked_sub(1).ok_or(AllocError)?);
        self.blocks.set(self.blocks.get() + 1);
        self.taken.set(self.taken.get() + layout.size());
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
        self.taken.set(self.taken.get() - layout.size());
        // SAFETY: the caller keeps the contract of `deallocate`.
        unsafe { Global.deallocate(ptr, layout) };
    }
}

#[test]
fn rule_11_everything_is_taken_when_the_cache_is_opened_as_one_block_of_its_layout() {
    let network = Network::new(NetworkAttr::DEFAULT).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let alloc = Counting::default();
    for capacity in [1, 2, 3, 100, 10_000] {
        alloc.left.set(1);
        alloc.blocks.set(0);
        let attr = MrCacheAttr::new(capacity);
        // SAFETY: the memory is mapped until the end.
        let monitor = unsafe { Notified::new() };
        let mut memory = Memory::new(16);
        let cache = MrCache::open_in(&domain, attr, monitor, &alloc).unwrap();
        let layout = MrCache::<Soft<'_>, Notified, &Counting>::layout(&attr).unwrap();
        assert_eq!((alloc.blocks.get(), alloc.taken.get()), (1, layout.size()));
        // As documented.
        let (capacity, handle) = (capacity as usize, size_of::<<Soft<'_> as MemoryRegions>::Mr>());
        let memo = layout.size() - capacity * (100 + handle);
        assert!((16 * capacity..=32 * capacity).contains(&memo), "{memo} bytes for {capacity}");
        for round in 0..1000 {
            drop(cache.register(memory.part(round % 13 * PAGE, 2 * PAGE, Use::Both)).unwrap());
            cache.monitor().notices().give(memory.addr(round % 7 * PAGE), 1);
        }
        drop(cache);
        assert_eq!((alloc.blocks.get(), alloc.taken.get()), (1, 0));
    }
}

#[test]
fn a_cache_without_memory_is_not_opened() {
    let network = Network::new(NetworkAttr::DEFAULT).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let alloc = Counting::default();
    // SAFETY: no memory is registered.
    let monitor = unsafe { Notified::new() };
    let refused = MrCache::open_in(&domain, MrCacheAttr::new(8), &monitor, &alloc).map(drop);
    assert_eq!(refused.unwrap_err(), OpenError::OutOfMemory);
    let refused = MrCache::open_in(&domain, MrCacheAttr::new(u32::MAX - 1), &monitor, &alloc).map(drop);
    assert!(refused.is_err());
    assert_eq!(alloc.taken.get(), 0);
}
