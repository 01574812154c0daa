//! [`Notices`]: which memory goes away, told by any thread to any number of caches.
//!
//! A ring of ranges and one number, the version: twice as many notices as there ever were, and one more while a notice is
//! being given. Each cache remembers the version that it has seen; that nothing has happened since is one load.
//!
//! # Memory orders
//!
//! It is a sequence lock whose data are a ring:
//!
//! - The giver of a notice makes the version odd (which keeps others out: they take turns), and then, behind a release fence, writes the
//!   range; a reader of a part of that range therefore sees, behind an acquire fence, that the version has moved on, and
//!   how far: ranges that may have been written over are known.
//! - The version is made even by a release store, so that a reader that loads it by acquire sees the range.
//! - A thread that gets memory anew learns of it from the thread that gave the notice, or from somebody who did; what it
//!   looks up then comes after the notice, so that its load of the version sees that one, or a later one, whatever its order.

#[cfg(not(loom_model))]
use core::hint::spin_loop;
#[cfg(not(loom_model))]
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

#[cfg(loom_model)]
use loom::hint::spin_loop;
#[cfg(loom_model)]
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// How many notices a cache can be behind; beyond that it forgets everything.
const RING: usize = if cfg!(loom_model) { 2 } else { 64 };

/// How often a look-up looks again while a notice is being given.
const PATIENCE: u32 = if cfg!(loom_model) { 1 } else { 1000 };

#[derive(Debug)]
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
}

/// Notices of memory that goes away, for all caches that look here ([`MemoryMonitor`](super::MemoryMonitor)).
///
/// Any thread gives notices, at any time; they take turns. A cache that is more than 64 of them behind forgets all of its
/// regions.
#[derive(Debug)]
pub struct Notices {
    version: AtomicU64,
    ring: [Slot; RING],
}

/// How far a cache has come with reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// It has seen everything up to this version.
    UpTo(u64),
    /// It was too far behind: everything may have gone away, before this version.
    Lost(u64),
    /// A notice is being given, and it takes long: memory may be gone of which the notice is still to come.
    Busy,
}

impl Notices {
    /// No notices.
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

    /// Says that `len` bytes of memory from `start` on go away.
    pub fn give(&self, start: usize, len: usize) {
        self.begin().give(start, len);
    }

    /// Says that all memory goes away.
    pub fn give_all(&self) {
        self.give(0, usize::MAX);
    }

    /// Gives a notice whose range is not known before it has happened: `happen` lets it happen, and returns begin and length, or nothing
    /// if there was nothing. Look-ups meanwhile wait a little, and then find nothing; those that come after what happens know of
    /// it. In `happen`, no notice is given here.
    pub fn give_what(&self, happen: impl FnOnce() -> Option<(usize, usize)>) {
        let giver = self.begin();
        if let Some((start, len)) = happen() {
            giver.give(start, len);
        }
    }

    fn begin(&self) -> Giver<'_> {
        loop {
            let version = self.version.load(Ordering::Relaxed);
            // Relaxed: the fence behind it is an acquire fence, too.
            if version.is_multiple_of(2)
                && self
                    .version
                    .compare_exchange_weak(version, version + 1, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                // Acquire: what the giver before has written comes before what this one writes. Release: see the module's
                // documentation. (Sequentially consistent, so that a kernel that is called next, and lets another thread go on,
                // comes after it.)
                fence(Ordering::SeqCst);
                return Giver { notices: self, version };
            }
            spin_loop();
        }
    }

    /// Where a cache without regions begins to read.
    pub(crate) fn now(&self) -> u64 {
        // Relaxed: no range is read that was given before.
        self.version.load(Ordering::Relaxed) & !1
    }

    /// Whether there was nothing after this version.
    #[inline]
    pub(crate) fn is_at(&self, seen: u64) -> bool {
        // Relaxed: if it is another one, `read` loads it again. A thread that has learned of a notice sees its version by whatever
        // it has learned that from.
        self.version.load(Ordering::Relaxed) == seen
    }

    /// The ranges of all notices after a version. If this says that the cache has lost some, what it was shown may be anything.
    pub(crate) fn read(&self, seen: u64, mut each: impl FnMut(usize, usize)) -> Read {
        let mut patience = PATIENCE;
        let now = loop {
            let version = self.version.load(Ordering::Acquire);
            if version.is_multiple_of(2) {
                break version;
            }
            if patience == 0 {
                return Read::Busy;
            }
            patience -= 1;
            spin_loop();
        };
        let (first, end) = (seen / 2, now / 2);
        if end - first > RING as u64 {
            return Read::Lost(now);
        }
        for notice in first..end {
            let slot = self.slot(notice);
            each(slot.start.load(Ordering::Relaxed), slot.end.load(Ordering::Relaxed));
        }
        // Acquire: if a range was written over, so is this version seen to have moved on.
        fence(Ordering::Acquire);
        let begun = self.version.load(Ordering::Relaxed).div_ceil(2);
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

/// Gives a notice, or none: also if what happens unwinds.
struct Giver<'n> {
    notices: &'n Notices,
    /// Before.
    version: u64,
}

impl Giver<'_> {
    fn give(mut self, start: usize, len: usize) {
        let slot = self.notices.slot(self.version / 2);
        slot.start.store(start, Ordering::Relaxed);
        slot.end.store(start.saturating_add(len), Ordering::Relaxed);
        self.version += 2;
    }
}

impl Drop for Giver<'_> {
    fn drop(&mut self) {
        // Release: a reader that sees the version sees the range. Without a range it is the one before.
        self.notices.version.store(self.version, Ordering::Release);
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
            assert_eq!(read(&notices, 0), (Read::UpTo(4), [(4096, 8192), (0, usize::MAX)].into()));
            assert_eq!(read(&notices, 2), (Read::UpTo(4), [(0, usize::MAX)].into()));
            assert_eq!(read(&notices, 4), (Read::UpTo(4), [].into()));
        }
        assert!(notices.is_at(4) && !notices.is_at(2));
    }

    #[test]
    fn a_reader_too_far_behind_is_told() {
        let notices = Notices::new();
        for at in 0..64 {
            notices.give(at, 1);
        }
        assert_eq!(read(&notices, 0).0, Read::UpTo(128));
        notices.give(64, 1);
        assert_eq!(read(&notices, 0), (Read::Lost(130), [].into()));
        assert_eq!(read(&notices, 2).1.len(), 64);
    }

    #[test]
    fn readers_are_told_that_a_notice_is_on_its_way() {
        let notices = Notices::new();
        notices.give_what(|| {
            assert!(!notices.is_at(0));
            assert_eq!(read(&notices, 0), (Read::Busy, [].into()));
            None
        });
        assert!(notices.is_at(0), "there was none");
        notices.give_what(|| Some((usize::MAX, 2)));
        assert_eq!(read(&notices, 0), (Read::UpTo(2), [(usize::MAX, usize::MAX)].into()));
    }

    /// Givers number their notices; a reader gets each giver's in order, whole, and all of them unless the version says otherwise.
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
                            assert_eq!(ranges.len() as u64, (version - seen) / 2);
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
            assert_eq!(seen, 4 * EACH as u64);
            assert!(got == 2 * EACH || lost > 0, "{got} notices and {lost} times lost");
        });
    }
}
