use crate::vocabulary::{Access, MemoryKey, RemoteAddr};

/// Address, length, key and access of a memory region: plain data that its owner sends to peers.
///
/// The base is an offset or a virtual address (`FI_MR_VIRT_ADDR`), as the owner's domain requires.
///
/// A post that needs more access is refused
/// ([`PostError::RemoteAccess`](crate::error::PostError::RemoteAccess)), because some providers do
/// not report such failures:
///
/// | operation | needs |
/// |---|---|
/// | RMA read, atomic read | `REMOTE_READ` |
/// | RMA write, atomic without a result | `REMOTE_WRITE` |
/// | other fetching and comparing atomics | both |
///
/// ```
/// use loom_core::{Access, RemoteRegion, vocabulary::{MemoryKey, RemoteAddr}};
///
/// let (base, key) = (RemoteAddr(0), MemoryKey(7));
/// let region = RemoteRegion { base, len: 4096, key, access: Access::REMOTE_READ };
/// // To the peer, by any way: 32 bytes.
/// let told = region.to_bytes();
/// assert_eq!(RemoteRegion::from_bytes(&told), region);
/// assert!(region.part(4000, 96).is_some_and(|part| part.base == RemoteAddr(4000)));
/// assert!(region.part(4000, 97).is_none(), "that is behind its end");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(remote = "Self", deny_unknown_fields)
)]
#[doc(alias = "fi_rma_iov")]
pub struct RemoteRegion {
    /// Address of the region's first byte in the peer's domain.
    pub base: RemoteAddr,
    /// Length in bytes.
    pub len: u64,
    /// Key of the region.
    pub key: MemoryKey,
    /// Access that the region grants to peers.
    pub access: Access,
}

impl RemoteRegion {
    /// Length of the array that [`to_bytes`](Self::to_bytes) returns.
    pub const WIRE_LEN: usize = 32;

    #[inline]
    pub(crate) fn range(&self, offset: u64, len: u64) -> Option<RemoteAddr> {
        let last = self.len.checked_sub(len)?;
        if offset > last {
            return None;
        }
        self.base.checked_add(offset)
    }

    /// Part of the region from byte `offset`, with the region's key and access. Returns `None` if
    /// it is not within the region.
    #[must_use]
    pub fn part(&self, offset: u64, len: usize) -> Option<Self> {
        let len = u64::try_from(len).ok()?;
        Some(RemoteRegion { base: self.range(offset, len)?, len, ..*self })
    }

    /// Base, length, key and access, each as eight little-endian bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::WIRE_LEN] {
        let mut out = [0; Self::WIRE_LEN];
        let words = [self.base.0, self.len, self.key.0, self.access.bits()];
        for (chunk, word) in out.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// Decodes the form of [`to_bytes`](Self::to_bytes). Any bytes are valid.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::WIRE_LEN]) -> Self {
        let mut words = [0; 4];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            let mut le = [0; 8];
            le.copy_from_slice(chunk);
            *word = u64::from_le_bytes(le);
        }
        let [base, len, key, access] = words;
        RemoteRegion { base: RemoteAddr(base), len, key: MemoryKey(key), access: Access::from_bits_retain(access) }
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for RemoteRegion {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            RemoteRegion::serialize(self, serializer)
        } else {
            serializer.serialize_bytes(&self.to_bytes())
        }
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for RemoteRegion {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return RemoteRegion::deserialize(deserializer);
        }
        let expected = "the 32 bytes of a region";
        let (bytes, len) = crate::util::serial::bytes::<{ Self::WIRE_LEN }, D>(deserializer, expected)?;
        if len == Self::WIRE_LEN {
            Ok(Self::from_bytes(&bytes))
        } else {
            Err(serde::de::Error::invalid_length(len, &expected))
        }
    }
}
