//! A ring of ranges and a version, which counts the notices given ([`NOTICE`]) and the running
//! calls of [`give_what`](Notices::give_what) ([`HAPPENING`]), and marks a range being written
//! ([`WRITING`]). Each cache stores the version that it has read.
//!
//! # Memory orders
//! A sequence lock protects the ring:
//! - A giver sets [`WRITING`], which excludes other givers for two stores, and writes the range
//!   behind a release fence. A reader of it therefore sees, behind an acquire fence, which ranges
//!   may be overwritten.
//! - A release operation turns [`WRITING`] into a notice: a reader that loads the version with
//!   acquire sees the range. Later changes are read-modify-writes, which continue the release
//!   sequence.
//! - `give_what` counts as [`HAPPENING`] from before its closure until its notice is given, and
//!   excludes no giver.
//! - A thread that gets the memory anew learns of it, perhaps indirectly, from the giver. So its
//!   look-up loads that version or a later one with any order.

#[cfg(not(loom_model))]
use core::hint::spin_loop;
#[cfg(not(loom_model))]
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

#[cfg(loom_model)]
use loom::hint::spin_loop;
#[cfg(loom_model)]
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

const RING: usize = if cfg!(loom_model) { 2 } else { 64 };

const WRITING: u64 = 1;
/// A running `give_what`. The bits up to [`NOTICE`] count 32767.
const HAPPENING: u64 = 2;
const NOTICE: u64 = 1 << 16;

/// Retries of a look-up while a notice is in progress.
const PATIENCE: u32 = if cfg!(loom_model) { 1 } else { 1000 };

#[derive(Debug)]
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
}

/// Notices of memory that goes away, for all caches of a [`MemoryMonitor`](super::MemoryMonitor).
///
/// A cache that is more than 64 behind forgets all regions.
#[derive(Debug)]
pub struct Notices {
    version: AtomicU64,
    ring: [Slot; RING],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    UpTo(u64),
    /// Too far behind: any memory may be gone.
    Lost(u64),
    /// A notice takes long.
    Busy,
}

impl Notices {
    /// Creates an empty ring.
    #[cfg(not(loom_model))]
    #[must_use]
    pub const fn new() -> Self {
        Notices {
            version: AtomicU64::new(0),
            ring: [const { Slot { start: AtomicUsize::new(0), end: AtomicUsize::new(0) } }; RING],
        }
    }

    #[cfg(loom_model)]
    fn new() -> Self {
        let ring = core::array::from_fn(|_| Slot { start: AtomicUsize::new(0), end: AtomicUsize::new(0) });
        Notices { version: AtomicU64::new(0), ring }
    }

    /// Gives notice that `len` bytes from `start` on go away.
    pub fn give(&self, start: usize, len: usize) {
        let slot = self.slot(self.begin());
        slot.start.store(start, Ordering::Relaxed);
        slot.end.store(start.saturating_add(len), Ordering::Relaxed);
        // Release: a reader of the version sees the range.
        self.version.fetch_add(NOTICE - WRITING, Ordering::Release);
    }

    /// Gives notice that all memory goes away.
    pub fn give_all(&self) {
        self.give(0, usize::MAX);
    }

    /// Gives notice of an event whose range is unknown before. `happen` triggers it and returns
    /// start and length, or `None` without an event. Look-ups meanwhile wait briefly, then find no
    /// region.
    pub fn give_what(&self, happen: impl FnOnce() -> Option<(usize, usize)>) {
        struct Happening<'n>(&'n AtomicU64);
        impl Drop for Happening<'_> {
            fn drop(&mut self) {
                // Release: the notice comes first.
                self.0.fetch_sub(HAPPENING, Ordering::Release);
            }
        }
        self.version.fetch_add(HAPPENING, Ordering::Relaxed);
        let _happening = Happening(&self.version);
        // SeqCst: counts before a system call that lets another thread continue.
        fence(Ordering::SeqCst);
        if let Some((start, len)) = happen() {
            self.give(start, len);
        }
    }

    /// Excludes other givers. Returns the number of notices.
    fn begin(&self) -> u64 {
        loop {
            let version = self.version.load(Ordering::Relaxed) & !WRITING;
            // Relaxed: the fence below also acquires.
            if self
                .version
                .compare_exchange_weak(version, version | WRITING, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
            {
                // Acquire: orders the previous giver's stores before these. Release: see the
                // module.
                fence(Ordering::SeqCst);
                return version / NOTICE;
            }
            spin_loop();
        }
    }

    pub(crate) fn now(&self) -> u64 {
        // Relaxed: no range is read.
        self.version.load(Ordering::Relaxed) / NOTICE * NOTICE
    }

    #[inline]
    pub(crate) fn is_at(&self, seen: u64) -> bool {
        // Relaxed: `read` loads the version again if it differs. A thread that learned of a notice
        // sees its version.
        self.version.load(Ordering::Relaxed) == seen
    }

    /// The ranges may be garbage if this returns `Read::Lost`.
    pub(crate) fn read(&self, seen: u64, mut each: impl FnMut(usize, usize)) -> Read {
        let mut patience = PATIENCE;
        let now = loop {
            let version = self.version.load(Ordering::Acquire);
            if version.is_multiple_of(NOTICE) {
                break version;
            }
            if patience == 0 {
                return Read::Busy;
            }
            patience -= 1;
            spin_loop();
        };
        let (first, end) = (seen / NOTICE, now / NOTICE);
        if end - first > RING as u64 {
            return Read::Lost(now);
        }
        for notice in first..end {
            let slot = self.slot(notice);
            each(slot.start.load(Ordering::Relaxed), slot.end.load(Ordering::Relaxed));
        }
        // Acquire: after an overwritten range, the load sees a later version.
        fence(Ordering::Acquire);
        let version = self.version.load(Ordering::Relaxed);
        let begun = version / NOTICE + version % HAPPENING;
        if begun - first > RING as u64 { Read::Lost(now) } else { Read::UpTo(now) }
    }

    fn slot(&self, notice: u64) -> &Slot {
        &self.ring[usize::try_from(notice).unwrap_or(0) % RING]
    }
}

impl Default for Notices {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, loom_model))]
#[path = "model.rs"]
mod model;

#[cfg(all(test, not(loom_model)))]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use core::sync::atomic::AtomicBool;
    use std::thread;
    use std::vec::Vec;

    use super::*;

    fn read(notices: &Notices, seen: u64) -> (Read, Vec<(usize, usize)>) {
        let mut ranges = Vec::new();
        let read = notices.read(seen, |start, end| ranges.push((start, end)));
        (read, ranges)
    }

    #[test]
    fn every_reader_reads_each_notice_once() {
        let notices = Notices::new();
        assert!(notices.is_at(0));
        notices.give(4096, 4096);
        notices.give_all();
        for _ in 0..2 {
            let two = Read::UpTo(2 * NOTICE);
            assert_eq!(read(&notices, 0), (two, [(4096, 8192), (0, usize::MAX)].into()));
            assert_eq!(read(&notices, NOTICE), (two, [(0, usize::MAX)].into()));
            assert_eq!(read(&notices, 2 * NOTICE), (two, [].into()));
        }
        assert!(notices.is_at(2 * NOTICE) && !notices.is_at(NOTICE));
    }

    #[test]
    fn a_read_too_far_behind_returns_lost() {
        let notices = Notices::new();
        for at in 0..64 {
            notices.give(at, 1);
        }
        assert_eq!(read(&notices, 0).0, Read::UpTo(64 * NOTICE));
        notices.give(64, 1);
        assert_eq!(read(&notices, 0), (Read::Lost(65 * NOTICE), [].into()));
        assert_eq!(read(&notices, NOTICE).1.len(), 64);
    }

    #[test]
    fn read_returns_busy_while_a_notice_is_in_progress() {
        let notices = Notices::new();
        notices.give_what(|| {
            assert!(!notices.is_at(0));
            assert_eq!(read(&notices, 0), (Read::Busy, [].into()));
            None
        });
        assert!(notices.is_at(0), "there was none");
        notices.give_what(|| Some((usize::MAX, 2)));
        assert_eq!(read(&notices, 0), (Read::UpTo(NOTICE), [(usize::MAX, usize::MAX)].into()));
    }

    #[test]
    fn notices_are_given_while_another_one_happens() {
        let notices = Notices::new();
        notices.give_what(|| {
            notices.give(1, 10);
            notices.give_what(|| {
                thread::scope(|threads| threads.spawn(|| notices.give(2, 10)).join()).unwrap();
                assert_eq!(read(&notices, 0), (Read::Busy, [].into()));
                Some((3, 10))
            });
            assert_eq!(read(&notices, 0), (Read::Busy, [].into()));
            Some((4, 10))
        });
        assert_eq!(read(&notices, 0), (Read::UpTo(4 * NOTICE), [(1, 11), (2, 12), (3, 13), (4, 14)].into()));
        let unwinds =
            std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| notices.give_what(|| panic!("happens"))));
        assert!(unwinds.is_err() && notices.is_at(4 * NOTICE));
    }

    #[test]
    fn notices_of_many_threads_arrive_whole() {
        const EACH: usize = 20_000;
        let (notices, over) = (Notices::new(), AtomicBool::new(false));
        thread::scope(|threads| {
            let reader = threads.spawn(|| {
                let (mut seen, mut next, mut got, mut lost) = (0, [0; 2], 0, 0);
                loop {
                    let last = over.load(Ordering::Acquire);
                    let mut ranges = Vec::new();
                    match notices.read(seen, |start, end| ranges.push((start, end))) {
                        Read::UpTo(version) => {
                            assert_eq!(ranges.len() as u64, (version - seen) / NOTICE);
                            for (start, end) in ranges {
                                assert_eq!(end, start + 7, "a range is that of one notice");
                                let (giver, number) = (start % 2, start / 2);
                                assert!(number >= next[giver], "in order");
                                next[giver] = number + 1;
                                got += 1;
                            }
                            seen = version;
                        }
                        Read::Lost(version) => {
                            lost += 1;
                            seen = version;
                        }
                        Read::Busy => {}
                    }
                    if last && notices.is_at(seen) {
                        return (seen, got, lost);
                    }
                }
            });
            let givers = [0, 1].map(|giver| {
                let notices = &notices;
                threads.spawn(move || (0..EACH).for_each(|number| notices.give(2 * number + giver, 7)))
            });
            for giver in givers {
                giver.join().unwrap();
            }
            over.store(true, Ordering::Release);
            let (seen, got, lost) = reader.join().unwrap();
            assert_eq!(seen, 2 * EACH as u64 * NOTICE);
            assert!(got == 2 * EACH || lost > 0, "{got} notices and {lost} times lost");
        });
    }
}
