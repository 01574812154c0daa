use loom_core::vocabulary::{MemoryKey, RemoteAddr};
use loom_core::{Access, Error, RemoteRegion};

/// Maximum number of rails of an engine.
pub const MAX_RAILS: usize = 16;

/// Registered memory of a peer: plain data that its owner sends to peers
/// ([`Engine::remote`](crate::Engine::remote)).
///
/// ```
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_core::{Access, Domain};
/// use loom_transfer::{Block, Engine, EngineAttr, RemoteMemory};
///
/// # fixture::domain!(network, domain);
/// let mut engine = Engine::<_, _, Block, _>::open_in(&[domain], EngineAttr::default(), Global)?;
/// let memory = engine.register(vec![0; 4096], Access::REMOTE_WRITE)?;
/// let record = engine.remote(memory)?.to_bytes();
/// assert_eq!(RemoteMemory::from_bytes(&record)?.len(), 4096);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteMemory {
    base: u64,
    len: u64,
    access: Access,
    piece: u64,
    rails: u16,
    keys: [u64; MAX_RAILS],
}

/// First word of a record: its name and version.
const VERSION: u64 = u64::from_le_bytes(*b"loomRM\x01\0");
const WORDS: usize = 6 + MAX_RAILS;

impl RemoteMemory {
    /// Length of the array that [`to_bytes`](Self::to_bytes) returns.
    pub const WIRE_LEN: usize = 8 * WORDS;

    /// Describes regions of one memory, one for each rail. Returns `None` if they are not.
    pub(crate) fn of(piece: u64, mut regions: impl Iterator<Item = RemoteRegion>) -> Option<Self> {
        let first = regions.next()?;
        let mut keys = [0; MAX_RAILS];
        keys[0] = first.key.0;
        let mut rails = 1;
        for region in regions {
            if (region.base, region.len, region.access) != (first.base, first.len, first.access) {
                return None;
            }
            *keys.get_mut(usize::from(rails))? = region.key.0;
            rails += 1;
        }
        Some(RemoteMemory { base: first.base.0, len: first.len, access: first.access, piece, rails, keys })
    }

    /// Length in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a length of memory, not a collection")]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Access that the owner grants.
    #[must_use]
    pub const fn access(&self) -> Access {
        self.access
    }

    /// Maximum length of a write in bytes, by which the owner counts them
    /// ([`EngineAttr::piece`](crate::EngineAttr::piece)).
    #[must_use]
    pub const fn piece(&self) -> u64 {
        self.piece
    }

    /// Number of rails.
    #[must_use]
    pub const fn rails(&self) -> usize {
        self.rails as usize
    }

    /// Region by the key of the rail that this rail of the initiator writes to.
    #[inline]
    pub(crate) fn on(&self, rail: usize) -> RemoteRegion {
        let rails = self.rails();
        let key = self.keys.get(if rail < rails { rail } else { rail % rails.max(1) }).copied().unwrap_or(0);
        RemoteRegion { base: RemoteAddr(self.base), len: self.len, key: MemoryKey(key), access: self.access }
    }

    /// Returns the record: name and version, base, length, access, piece, number of rails, and 16
    /// keys, each as eight little-endian bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::WIRE_LEN] {
        let mut out = [0; Self::WIRE_LEN];
        let head = [VERSION, self.base, self.len, self.access.bits(), self.piece, self.rails.into()];
        for (chunk, word) in out.chunks_exact_mut(8).zip(head.into_iter().chain(self.keys)) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another version or length, no rail or more than [`MAX_RAILS`], or a
    /// piece of 0 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let mut words = [0; WORDS];
        if bytes.len() != Self::WIRE_LEN {
            return Err(Error::Invalid(
                "not a record of remote memory, because of its length: pass all bytes of `to_bytes`",
            ));
        }
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            let mut le = [0; 8];
            le.copy_from_slice(chunk);
            *word = u64::from_le_bytes(le);
        }
        let [version, base, len, access, piece, rails, keys @ ..] = words;
        if version != VERSION {
            return Err(Error::Invalid(
                "not a record of remote memory of this version of loom: run one version on both sides",
            ));
        }
        let rails = u16::try_from(rails).ok().filter(|rails| (1..=MAX_RAILS).contains(&usize::from(*rails)));
        let rails = rails.ok_or(Error::Invalid(
            "a record of remote memory has no rails, or too many: pass the bytes of `to_bytes`",
        ))?;
        if piece == 0 {
            return Err(Error::Invalid(
                "a record of remote memory has pieces of 0 bytes: pass the bytes of `to_bytes`",
            ));
        }
        Ok(RemoteMemory { base, len, access: Access::from_bits_retain(access), piece, rails, keys })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_kept_in_its_place() {
        let keys = [0, u64::MAX, 0, 1 << 32, u64::MAX - 1];
        let (base, access) = (RemoteAddr(0), Access::REMOTE_WRITE);
        let regions = keys.map(|key| RemoteRegion { base, len: 8, key: MemoryKey(key), access });
        let memory = RemoteMemory::of(1, regions.into_iter()).expect("regions of one memory");
        let read = RemoteMemory::from_bytes(&memory.to_bytes()).expect("a record");
        assert_eq!(read, memory);
        for rail in 0..2 * keys.len() {
            assert_eq!(read.on(rail), regions[rail % keys.len()]);
        }
    }
}
