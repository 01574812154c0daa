use core::fmt;

use super::place;

const PREFIX: usize = 4;

/// One slot for each rank, in the caller's memory. Each holds up to [`limit`](Self::limit) bytes.
///
/// ```
/// use loom_group::bootstrap::Slots;
///
/// let mut memory = [0; Slots::memory_len(4, 100)];
/// let slots = Slots::new(&mut memory, 4);
/// assert_eq!((slots.count(), slots.limit()), (4, 100));
/// assert_eq!(slots.get(0), Some(&[][..]));
/// assert_eq!(slots.get(4), None);
/// ```
pub struct Slots<'m> {
    memory: &'m mut [u8],
    count: u32,
    /// Length of a slot with its prefix.
    stride: usize,
}

impl<'m> Slots<'m> {
    /// Bytes of memory for `count` slots.
    #[must_use]
    pub const fn memory_len(count: usize, limit: usize) -> usize {
        count.saturating_mul(limit.saturating_add(PREFIX))
    }

    /// Divides `memory` into equal empty slots, of zero bytes if it is too short for their
    /// prefixes.
    #[must_use]
    pub fn new(memory: &'m mut [u8], count: u32) -> Self {
        let stride = memory.len().checked_div(place(count)).unwrap_or(0);
        let mut slots = Slots { memory, count, stride };
        slots.clear();
        slots
    }

    /// Number of slots.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Maximum number of bytes in a slot.
    #[must_use]
    pub const fn limit(&self) -> usize {
        let limit = self.stride.saturating_sub(PREFIX);
        if limit > u32::MAX as usize { u32::MAX as usize } else { limit }
    }

    /// Bytes of a rank, or `None` if the slot does not exist.
    #[must_use]
    pub fn get(&self, rank: u32) -> Option<&[u8]> {
        if rank >= self.count {
            return None;
        }
        let start = place(rank).checked_mul(self.stride)?;
        let slot = self.memory.get(start..)?.get(..self.stride)?;
        let Some((len, bytes)) = slot.split_first_chunk::<PREFIX>() else { return Some(&[]) };
        bytes.get(..usize::try_from(u32::from_le_bytes(*len)).ok()?)
    }

    /// Bytes of each rank, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.count).map(|rank| self.get(rank).unwrap_or_default())
    }

    pub(super) fn clear(&mut self) {
        if self.stride >= PREFIX {
            for slot in self.memory.chunks_exact_mut(self.stride) {
                slot.iter_mut().take(PREFIX).for_each(|byte| *byte = 0);
            }
        }
    }

    /// Returns `false` without room or slot.
    pub(super) fn put(&mut self, rank: u32, bytes: &[u8]) -> bool {
        let slot = place(rank).checked_mul(self.stride).filter(|_| rank < self.count);
        let slot = slot.and_then(|start| self.memory.get_mut(start..)?.get_mut(..self.stride));
        let Some((prefix, room)) = slot.and_then(|slot| slot.split_first_chunk_mut::<PREFIX>()) else {
            return bytes.is_empty() && rank < self.count;
        };
        let (Ok(len), Some(room)) = (u32::try_from(bytes.len()), room.get_mut(..bytes.len())) else { return false };
        *prefix = len.to_le_bytes();
        room.copy_from_slice(bytes);
        true
    }
}

impl fmt::Debug for Slots<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots").field("count", &self.count).field("limit", &self.limit()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_stored_up_to_the_limit() {
        let mut memory = [0xff; Slots::memory_len(3, 5) + 2];
        let mut slots = Slots::new(&mut memory, 3);
        assert_eq!(slots.limit(), 5);
        assert!(slots.put(1, b"hello") && slots.put(2, b"x"));
        assert!(!slots.put(0, b"longer") && !slots.put(3, b""));
        assert_eq!(slots.iter().collect::<std::vec::Vec<_>>(), [&b""[..], b"hello", b"x"]);
        assert_eq!(slots.get(3), None);
        slots.clear();
        assert!(slots.iter().all(<[u8]>::is_empty));
    }

    #[test]
    fn slots_without_memory_take_no_bytes() {
        let mut slots = Slots::new(&mut [], 2);
        assert_eq!((slots.limit(), slots.get(1)), (0, Some(&[][..])));
        assert!(slots.put(1, b"") && !slots.put(1, b"x"));
        assert_eq!((Slots::new(&mut [0; 9], 0).limit(), Slots::new(&mut [0; 9], 0).get(0)), (0, None));
    }
}
