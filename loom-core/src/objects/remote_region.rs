//! [`RemoteRegion`]: what peers need for a region.

use crate::transport::RemotePart;
use crate::vocabulary::{MemoryKey, RemoteAddr};

/// What a peer needs to reach a region: plain data, to be sent to it.
///
/// Whether the provider counts from the region's begin or by virtual address (`FI_MR_VIRT_ADDR`) is settled here.
///
/// ```
/// use loom_core::RemoteRegion;
/// use loom_core::vocabulary::{MemoryKey, RemoteAddr};
///
/// let region = RemoteRegion::new(RemoteAddr(0), 4096, MemoryKey(7));
/// // To the peer, by any way: 24 bytes.
/// let told = region.to_bytes();
/// assert_eq!(RemoteRegion::from_bytes(&told), region);
/// assert!(region.part(4000, 96).is_some());
/// assert!(region.part(4000, 97).is_none(), "that is behind its end");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "fi_rma_iov")]
pub struct RemoteRegion {
    base: RemoteAddr,
    len: u64,
    key: MemoryKey,
}

impl RemoteRegion {
    /// How many bytes [`to_bytes`](Self::to_bytes) makes.
    pub const WIRE_LEN: usize = 24;

    /// From the parts that a peer told in another way.
    #[must_use]
    pub const fn new(base: RemoteAddr, len: u64, key: MemoryKey) -> Self {
        RemoteRegion { base, len, key }
    }

    /// The address of the region's first byte, as the peer's domain counts.
    #[must_use]
    pub const fn base(&self) -> RemoteAddr {
        self.base
    }

    /// Length in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a length of memory, not a collection")]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// The region's key.
    #[must_use]
    pub const fn key(&self) -> MemoryKey {
        self.key
    }

    /// The remote address of a range, if it lies within the region.
    #[inline]
    pub(crate) fn range(&self, offset: u64, len: usize) -> Option<RemoteAddr> {
        let end = offset.checked_add(u64::try_from(len).ok()?)?;
        if end > self.len {
            return None;
        }
        self.base.checked_add(offset)
    }

    /// A part of the region, for operations that take several; `None` if it does not lie within.
    #[must_use]
    pub fn part(&self, offset: u64, len: usize) -> Option<RemotePart> {
        Some(RemotePart { addr: self.range(offset, len)?, len, key: self.key })
    }

    /// Base, length and key, each as eight little-endian bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::WIRE_LEN] {
        let mut out = [0; Self::WIRE_LEN];
        let words = [self.base.0, self.len, self.key.0];
        for (chunk, word) in out.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// What [`to_bytes`](Self::to_bytes) made. Any bytes are a region; whether it exists, its owner decides.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::WIRE_LEN]) -> Self {
        let mut words = [0; 3];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            let mut le = [0; 8];
            le.copy_from_slice(chunk);
            *word = u64::from_le_bytes(le);
        }
        let [base, len, key] = words;
        RemoteRegion { base: RemoteAddr(base), len, key: MemoryKey(key) }
    }
}

/// The parts by name in formats that people read, else the bytes of [`to_bytes`](RemoteRegion::to_bytes).
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(rename = "RemoteRegion", deny_unknown_fields)]
struct Parts {
    base: RemoteAddr,
    len: u64,
    key: MemoryKey,
}

#[cfg(feature = "serde")]
impl serde::Serialize for RemoteRegion {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            let RemoteRegion { base, len, key } = *self;
            Parts { base, len, key }.serialize(serializer)
        } else {
            serializer.serialize_bytes(&self.to_bytes())
        }
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for RemoteRegion {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let Parts { base, len, key } = Parts::deserialize(deserializer)?;
            return Ok(RemoteRegion { base, len, key });
        }
        let expected = "the 24 bytes of a region";
        let (bytes, len) = crate::serial::bytes::<{ Self::WIRE_LEN }, D>(deserializer, expected)?;
        if len == Self::WIRE_LEN {
            Ok(Self::from_bytes(&bytes))
        } else {
            Err(serde::de::Error::invalid_length(len, &expected))
        }
    }
}
