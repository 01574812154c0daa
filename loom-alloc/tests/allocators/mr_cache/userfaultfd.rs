//! Monitor over Linux's `userfaultfd`. Where the system does not permit it, the tests report this
//! and end.

use std::num::NonZero;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use loom_alloc::mr_cache::{MrCache, MrCacheAttr, MrCacheStats, Userfaultfd};
use loom_core::allocator_api2::alloc::Global;
use loom_core::buffer::{Buffer, Lent};
use loom_core::domain::Domain;
use loom_core::soft::{Network, NetworkAttr, RequiredModes, Soft};
use loom_core::vocabulary::Errno;

const PAGE: usize = 4096;

type Cache<'c, 'd, 'n> = MrCache<'d, Soft<'n>, &'c Userfaultfd, Global>;

/// Sets the flag at the end of a test, also after a panic.
struct AtEnd<'f>(&'f AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Opens a monitor. Returns `None` where the system does not permit it.
fn open() -> Option<Userfaultfd> {
    // SAFETY: only the thread of each test maps and unmaps memory of its cache. In exceptions,
    // stale regions are not used.
    match unsafe { Userfaultfd::open() } {
        Ok(monitor) => Some(monitor),
        Err(errno @ (Errno::EPERM | Errno::ENOSYS | Errno::EINVAL)) => {
            println!("skipped: userfaultfd: {errno}");
            None
        }
        Err(errno) => panic!("{errno}"),
    }
}

/// Runs a test with a cache on this thread, and a second thread that reads the kernel's events.
fn watched(test: impl FnOnce(&Cache<'_, '_, '_>)) {
    let Some(monitor) = open() else { return };
    let network = Network::new(NetworkAttr::DEFAULT).unwrap();
    let domain = Domain::open(&network.info_requiring(RequiredModes::LOCAL_REGISTRATION)).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|threads| {
        threads.spawn(|| {
            while !over.load(Ordering::Acquire) {
                monitor.poll(Duration::from_millis(20)).unwrap();
            }
        });
        let _at_end = AtEnd(&over);
        let cache = MrCache::open_in(&domain, MrCacheAttr::new(8), &monitor, Global).unwrap();
        test(&cache);
    });
}

struct Pages {
    ptr: NonNull<u8>,
    len: usize,
}

impl Pages {
    /// Maps pages at an address if that is free, or anywhere.
    fn map(at: Option<NonZero<usize>>, count: usize) -> Option<Self> {
        let (len, fixed) = (count * PAGE, if at.is_some() { libc::MAP_FIXED_NOREPLACE } else { 0 });
        let at = at.map_or(std::ptr::null_mut(), |at| std::ptr::without_provenance_mut(at.get()));
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed);
        // SAFETY: new memory in an unmapped range.
        let ptr = unsafe { libc::mmap(at, len, access, flags, -1, 0) };
        (ptr != libc::MAP_FAILED).then(|| Pages { ptr: NonNull::new(ptr.cast()).unwrap(), len })
    }

    fn addr(&self) -> NonZero<usize> {
        self.ptr.addr()
    }

    fn buf(&self) -> Buf {
        Buf(self.ptr, 100)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped, and its buffers are no longer used.
        assert_eq!(unsafe { libc::munmap(self.ptr.as_ptr().cast(), self.len) }, 0);
    }
}

/// Part of pages that stay mapped during its use.
struct Buf(NonNull<u8>, usize);

// SAFETY: mapped memory without other users.
unsafe impl Buffer for Buf {
    fn lend(&mut self) -> Lent {
        Lent::both(self.0, self.1)
    }
}

/// Returns `true` if a look-up of a buffer finds a region, after all notices have been processed.
fn is_found(cache: &Cache<'_, '_, '_>, pages: &Pages) -> bool {
    for _ in 0..1_000_000 {
        let before = cache.stats();
        drop(cache.register(pages.buf()).unwrap());
        let after = cache.stats();
        if after.uncached == before.uncached {
            return after.hits > before.hits;
        }
        thread::yield_now();
    }
    panic!("a notice is being given, and never ends");
}

#[test]
fn memory_that_is_unmapped_and_mapped_anew_is_not_found() {
    watched(|cache| {
        let mut pages = Pages::map(None, 2).unwrap();
        let mut anew = 0;
        for _ in 0..2000 {
            let hits = cache.stats().hits;
            drop(cache.register(pages.buf()).unwrap());
            assert_eq!(cache.stats().hits, hits, "stale, when it was mapped for the {anew}th time");
            let addr = pages.addr();
            drop(pages);
            // Another thread of the tests may have mapped the place.
            pages = match Pages::map(Some(addr), 2) {
                Some(pages) => {
                    anew += 1;
                    pages
                }
                None => {
                    cache.flush();
                    Pages::map(None, 2).unwrap()
                }
            };
        }
        assert!(anew > 0, "the same place was never mapped again");
        let MrCacheStats { misses, uncached, invalidations, .. } = cache.stats();
        // The last removal may be detected only by the next look-up.
        assert!(invalidations + uncached + 1 >= misses, "{invalidations} invalidated, {uncached} never found");
    });
}

#[test]
fn memory_that_stays_is_found_whatever_else_is_unmapped() {
    watched(|cache| {
        let (pages, other) = (Pages::map(None, 1).unwrap(), Pages::map(None, 1).unwrap());
        assert!(!is_found(cache, &pages) && !is_found(cache, &other));
        assert!(is_found(cache, &pages) && is_found(cache, &other));
        drop(other);
        assert!(is_found(cache, &pages));
    });
}

#[test]
fn pages_that_are_given_back_to_the_system_are_not_found() {
    watched(|cache| {
        let pages = Pages::map(None, 1).unwrap();
        for advice in [libc::MADV_DONTNEED, libc::MADV_FREE] {
            is_found(cache, &pages);
            assert!(is_found(cache, &pages));
            // SAFETY: mapped, and not used.
            assert_eq!(unsafe { libc::madvise(pages.ptr.as_ptr().cast(), PAGE, advice) }, 0);
            assert!(!is_found(cache, &pages), "{advice}");
        }
    });
}

#[test]
fn memory_that_is_moved_is_found_at_neither_place() {
    watched(|cache| {
        let (mut from, to) = (Pages::map(None, 1).unwrap(), Pages::map(None, 1).unwrap());
        is_found(cache, &from);
        is_found(cache, &to);
        let (place, flags) = (to.ptr, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED);
        std::mem::forget(to);
        // SAFETY: mapped and unused, and both places belong to this test.
        let moved = unsafe { libc::mremap(from.ptr.as_ptr().cast(), PAGE, PAGE, flags, place.as_ptr()) };
        assert_eq!(moved, place.as_ptr().cast());
        let old = from.addr();
        from.ptr = place;
        assert!(!is_found(cache, &from));
        if let Some(anew) = Pages::map(Some(old), 1) {
            assert!(!is_found(cache, &anew));
        }
    });
}

#[test]
fn memory_that_cannot_be_watched_is_registered_for_each_buffer() {
    /// Page in the program's file.
    #[repr(align(4096))]
    struct Page([u8; PAGE]);
    static INITIALISED: Page = Page([1; PAGE]);
    watched(|cache| {
        for round in 1..=3 {
            let buf = cache.register(&INITIALISED.0[..]).unwrap();
            assert!(buf.descriptor().is_some());
            assert_eq!((cache.stats().uncached, cache.stats().in_use, cache.stats().found), (round, 1, 0));
        }
        assert_eq!(cache.stats().registered_bytes, 0);
    });
}

/// Unmaps memory on its own thread, which waits until the event is read or the monitor is dropped.
fn unmap(pages: Pages) -> thread::JoinHandle<()> {
    let (addr, len) = (pages.addr().get(), pages.len);
    std::mem::forget(pages);
    thread::spawn(move || {
        // SAFETY: mapped, and not used.
        assert_eq!(unsafe { libc::munmap(std::ptr::without_provenance_mut(addr), len) }, 0);
    })
}

/// Reason for the caller's promise to open a monitor. If this test fails, Linux has fixed it.
#[test]
fn addresses_are_free_before_the_notice_of_their_unmapping() {
    let Some(monitor) = open() else { return };
    let network = Network::new(NetworkAttr::DEFAULT).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let cache = MrCache::open_in(&domain, MrCacheAttr::new(8), &monitor, Global).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    let told = || {
        while Instant::now() < deadline {
            if monitor.poll(Duration::from_millis(100)).unwrap() > 0 {
                return;
            }
        }
        panic!("an unmapping is not told");
    };
    let pages = Pages::map(None, 1).unwrap();
    let addr = pages.addr();
    drop(cache.register(pages.buf()).unwrap());
    let unmapping = unmap(pages);
    let mut anew = None;
    while anew.is_none() && Instant::now() < deadline {
        anew = Pages::map(Some(addr), 1);
    }
    // Otherwise another thread of the tests was faster.
    let Some(anew) = anew else { return told() };
    drop(cache.register(anew.buf()).unwrap());
    assert_eq!(cache.stats().hits, 1, "mapped and looked up, before anybody was told");
    told();
    unmapping.join().unwrap();
    assert!(!is_found(&cache, &anew), "and not afterwards");
    let unmapping = unmap(anew);
    told();
    unmapping.join().unwrap();
}
