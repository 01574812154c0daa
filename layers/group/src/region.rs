use core::ops::{Bound, RangeBounds};

use loom_core::RemoteRegion;

use crate::PeerIndex;

/// Memory region of a peer, or a part of it.
///
/// Posts beyond the stated range are [refused](loom_core::error::PostError::OutOfBounds).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerRegion {
    peer: PeerIndex,
    region: RemoteRegion,
}

impl PeerRegion {
    /// Region of a peer.
    #[must_use]
    pub const fn new(peer: PeerIndex, region: RemoteRegion) -> Self {
        PeerRegion { peer, region }
    }

    /// Peer.
    #[must_use]
    pub const fn peer(&self) -> PeerIndex {
        self.peer
    }

    /// Region for endpoint operations.
    #[must_use]
    pub const fn region(&self) -> &RemoteRegion {
        &self.region
    }

    /// Length in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a length of memory, not a collection")]
    pub const fn len(&self) -> u64 {
        self.region.len
    }

    /// Part of the region, in bytes from its start. `None` beyond its end.
    ///
    /// ```
    /// # use loom_core::RemoteRegion;
    /// # use loom_core::vocabulary::{Access, MemoryKey, RemoteAddr};
    /// # use loom_group::{PeerIndex, PeerRegion};
    /// let whole = PeerRegion::new(PeerIndex(3), RemoteRegion { base: RemoteAddr(4096), len: 100, key: MemoryKey(7), access: Access::REMOTE_READ });
    /// let part = whole.slice(10..30).expect("it lies within");
    /// assert_eq!((part.len(), part.region().base), (20, RemoteAddr(4106)));
    /// assert!(part.slice(..21).is_none());
    /// assert!(whole.slice(90..).is_some_and(|end| end.len() == 10));
    /// ```
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<u64>) -> Option<Self> {
        let begin = match range.start_bound() {
            Bound::Included(begin) => *begin,
            Bound::Excluded(before) => before.checked_add(1)?,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.checked_add(1)?,
            Bound::Excluded(end) => *end,
            Bound::Unbounded => self.len(),
        };
        if end > self.len() {
            return None;
        }
        let len = end.checked_sub(begin)?;
        let base = self.region.base.checked_add(begin)?;
        let region = RemoteRegion { base, len, key: self.region.key, access: self.region.access };
        Some(PeerRegion { peer: self.peer, region })
    }
}
