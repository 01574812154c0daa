#![allow(unsafe_code, reason = "what a cache cannot know of the system is promised")]

/// Attributes of a [`MrCache`](super::MrCache).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MrCacheAttr {
    pub(super) capacity: u32,
    pub(super) bytes: usize,
    pub(super) merged: usize,
    pub(super) page_size: usize,
}

impl MrCacheAttr {
    /// Attributes of a cache of at most `capacity` regions.
    #[must_use]
    pub const fn new(capacity: u32) -> Self {
        MrCacheAttr { capacity, bytes: usize::MAX, merged: usize::MAX, page_size: 4096 }
    }

    /// Limits the registered bytes, in whole pages.
    #[must_use]
    pub const fn bytes(mut self, limit: usize) -> Self {
        self.bytes = limit;
        self
    }

    /// Limits the bytes of a merged region (rule 5), or disables merging with zero.
    #[must_use]
    pub const fn merged(mut self, limit: usize) -> Self {
        self.merged = limit;
        self
    }

    /// Sets the granularity of regions in bytes, a power of two. Default: 4096.
    ///
    /// # Safety
    /// Pages with buffers are no smaller, so that memory is mapped and unmapped in such steps.
    #[must_use]
    pub const unsafe fn page_size(mut self, bytes: usize) -> Self {
        self.page_size = bytes;
        self
    }
}

/// Counters of a [`MrCache`](super::MrCache), and its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MrCacheStats {
    /// Buffers found.
    pub hits: u64,
    /// Buffers not found, then registered or refused.
    pub misses: u64,
    /// Misses that replaced overlapping regions.
    pub merges: u64,
    /// Regions closed to make room.
    pub evictions: u64,
    /// Regions hidden by a notice, [`invalidate`](super::MrCache::invalidate) or
    /// [`flush`](super::MrCache::flush).
    pub invalidations: u64,
    /// Regions for one buffer, without a watch or during a notice.
    pub uncached: u64,
    /// Regions that failed to close, leaked with the domain.
    pub leaked: u64,
    /// Regions that can be found.
    pub found: u32,
    /// Regions with users, including hidden ones.
    pub in_use: u32,
    /// Bytes of all open regions.
    pub registered_bytes: usize,
}
