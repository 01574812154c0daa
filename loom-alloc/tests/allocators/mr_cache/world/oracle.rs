//! Rules of the cache, on a list of ranges.

use std::ops::Range;

use loom_alloc::mr_cache::MrCacheStats;

use super::memory::PAGE;

/// Limits of a cache and its provider.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) capacity: u32,
    pub(crate) bytes: usize,
    pub(crate) merged: usize,
    /// Number of regions of the provider.
    pub(crate) regions: usize,
}

#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) id: usize,
    pages: Range<usize>,
    read: bool,
    write: bool,
    users: u32,
    found: bool,
    /// Time of the last user's release.
    left: u64,
}

impl Region {
    fn overlaps(&self, range: &Range<usize>) -> bool {
        !range.is_empty() && self.found && self.pages.start < range.end && range.start < self.pages.end
    }
}

/// Outcome for a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Passes without a region.
    Passes,
    /// Uses the region of this number.
    Region(usize),
    InUse,
    TooLong,
}

/// Buffer, as the rules see it.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) bytes: Range<usize>,
    pub(crate) read: bool,
    pub(crate) write: bool,
    /// The memory can be watched, and no notice is in progress.
    pub(crate) watched: bool,
}

#[derive(Debug)]
pub(crate) struct Oracle {
    limits: Limits,
    regions: Vec<Region>,
    ever: usize,
    time: u64,
    pub(crate) counted: MrCacheStats,
}

impl Oracle {
    pub(crate) fn new(limits: Limits) -> Self {
        Oracle { limits, regions: Vec::new(), ever: 0, time: 0, counted: MrCacheStats::default() }
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    pub(crate) fn register(&mut self, wanted: &Wanted, certain: bool) -> Outcome {
        if wanted.bytes.is_empty() {
            return Outcome::Passes;
        }
        let hit = self.regions.iter_mut().find(|region| {
            certain
                && region.found
                && region.pages.start <= wanted.bytes.start
                && wanted.bytes.end <= region.pages.end
                && (region.read || !wanted.read)
                && (region.write || !wanted.write)
        });
        if let Some(region) = hit {
            region.users += 1;
            self.counted.hits += 1;
            return Outcome::Region(region.id);
        }
        self.counted.misses += 1;
        let pages = wanted.bytes.start / PAGE * PAGE..wanted.bytes.end.next_multiple_of(PAGE);
        if !certain || !wanted.watched {
            let outcome = self.open(pages, (wanted.read, wanted.write), false);
            self.counted.uncached += u64::from(matches!(outcome, Outcome::Region(_)));
            return outcome;
        }
        let (mut union, mut access, mut overlapping) = (pages.clone(), (wanted.read, wanted.write), false);
        for region in self.regions.iter().filter(|region| region.overlaps(&pages)) {
            union = union.start.min(region.pages.start)..union.end.max(region.pages.end);
            access = (access.0 || region.read, access.1 || region.write);
            overlapping = true;
        }
        if overlapping {
            self.counted.merges += 1;
            self.hide(&pages);
            let range = if union.len() <= self.limits.merged { union } else { pages.clone() };
            let outcome = self.open(range, access, true);
            if matches!(outcome, Outcome::Region(_)) {
                return outcome;
            }
        }
        self.open(pages, (wanted.read, wanted.write), true)
    }

    fn open(&mut self, pages: Range<usize>, (read, write): (bool, bool), found: bool) -> Outcome {
        if pages.len() > self.limits.bytes {
            return Outcome::TooLong;
        }
        let registered = |regions: &[Region]| regions.iter().map(|region| region.pages.len()).sum::<usize>();
        let used: Vec<_> =
            self.regions.iter().filter(|region| region.users > 0).map(|region| region.pages.len()).collect();
        if used.iter().sum::<usize>() + pages.len() > self.limits.bytes {
            return Outcome::InUse;
        }
        while self.regions.len() >= self.limits.regions.min(self.limits.capacity as usize)
            || registered(&self.regions) + pages.len() > self.limits.bytes
        {
            let oldest = self.regions.iter().filter(|region| region.users == 0).min_by_key(|region| region.left);
            let Some(oldest) = oldest.map(|region| region.id) else { return Outcome::InUse };
            self.regions.retain(|region| region.id != oldest);
            self.counted.evictions += 1;
        }
        self.ever += 1;
        self.regions.push(Region { id: self.ever, pages, read, write, users: 1, found, left: 0 });
        Outcome::Region(self.ever)
    }

    pub(crate) fn leave(&mut self, id: usize) {
        let region = self.regions.iter_mut().find(|region| region.id == id).expect("a region with users is open");
        region.users -= 1;
        self.time += 1;
        region.left = self.time;
        self.close();
    }

    fn close(&mut self) {
        self.regions.retain(|region| region.found || region.users > 0);
    }

    fn hide(&mut self, range: &Range<usize>) -> u64 {
        let mut count = 0;
        for region in self.regions.iter_mut() {
            if region.overlaps(range) {
                region.found = false;
                count += 1;
            }
        }
        self.close();
        count
    }

    pub(crate) fn invalidate(&mut self, range: &Range<usize>) {
        self.counted.invalidations += self.hide(range);
    }

    pub(crate) fn stats(&self) -> MrCacheStats {
        let count = |counted: fn(&Region) -> bool| {
            u32::try_from(self.regions.iter().filter(|region| counted(region)).count()).expect("a few")
        };
        MrCacheStats {
            found: count(|region| region.found),
            in_use: count(|region| region.users > 0),
            registered_bytes: self.regions.iter().map(|region| region.pages.len()).sum(),
            ..self.counted
        }
    }

    /// Number of open regions.
    pub(crate) fn open_regions(&self) -> usize {
        self.regions.len()
    }
}
