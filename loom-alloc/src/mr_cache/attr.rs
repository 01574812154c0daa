//! How a cache is opened, and what it has counted.

#![allow(unsafe_code, reason = "what a cache cannot know of the system is promised")]

/// How a [`MrCache`](super::MrCache) is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MrCacheAttr {
    pub(super) capacity: u32,
    pub(super) bytes: usize,
    pub(super) merged: usize,
    pub(super) page_size: usize,
}

impl MrCacheAttr {
    /// A cache of at most this number of regions, which may be of any size together.
    #[must_use]
    pub const fn new(capacity: u32) -> Self {
        MrCacheAttr { capacity, bytes: usize::MAX, merged: usize::MAX, page_size: 4096 }
    }

    /// At most this number of bytes is registered at a time, in whole pages.
    #[must_use]
    pub const fn bytes(mut self, limit: usize) -> Self {
        self.bytes = limit;
        self
    }

    /// Regions that overlap become one of at most this number of bytes (rule 5). Zero: none do.
    #[must_use]
    pub const fn merged(mut self, limit: usize) -> Self {
        self.merged = limit;
        self
    }

    /// Regions begin and end at multiples of this number of bytes, a power of two; of 4096, if nothing is said.
    ///
    /// # Safety
    /// The system's pages, where buffers are, are no smaller: memory is mapped and unmapped in such steps alone. (No system that
    /// loom runs on has smaller pages than 4096 bytes.)
    #[must_use]
    pub const unsafe fn page_size(mut self, bytes: usize) -> Self {
        self.page_size = bytes;
        self
    }
}

/// What a [`MrCache`](super::MrCache) has counted since it was opened, and what it has now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MrCacheStats {
    /// Buffers that were found registered.
    pub hits: u64,
    /// Buffers that were not, and were registered or refused.
    pub misses: u64,
    /// Misses that replaced regions which they overlapped.
    pub merges: u64,
    /// Regions that were closed to make room.
    pub evictions: u64,
    /// Regions that are not found any more because of a notice, [`invalidate`](super::MrCache::invalidate) or
    /// [`flush`](super::MrCache::flush).
    pub invalidations: u64,
    /// Regions that served one buffer, because its memory cannot be watched, or a notice was being given.
    pub uncached: u64,
    /// Regions that the provider failed to close. They are leaked, and the domain.
    pub leaked: u64,
    /// Regions that can be found.
    pub found: u32,
    /// Regions with users, also those that cannot be found any more.
    pub in_use: u32,
    /// Bytes of all open regions.
    pub registered_bytes: usize,
}
