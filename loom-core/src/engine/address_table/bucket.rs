use super::NIL;

pub(super) const SLOTS: usize = 12;

/// Places with eight bits of each hash, and the root of a tree for those without room: one cache
/// line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Bucket {
    tags: [u8; SLOTS],
    pub(super) root: u32,
    places: [u32; SLOTS],
}

const _: () = assert!(size_of::<Bucket>() == 64);

/// Tag of a free slot. No hash has it.
const FREE: u8 = 0;

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "some of the bits")]
const fn tag(hash: u64) -> u8 {
    if hash as u8 == FREE { 1 } else { hash as u8 }
}

impl Bucket {
    pub(super) const EMPTY: Bucket = Bucket { tags: [FREE; SLOTS], root: NIL, places: [NIL; SLOTS] };

    /// After a true match, false ones may follow.
    #[inline]
    fn tagged(&self, tag: u8) -> impl Iterator<Item = usize> {
        const LOW: u128 = u128::from_le_bytes([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]);
        let [a, b, c, d, e, f, g, h, i, j, k, l] = self.tags;
        let tags = u128::from_le_bytes([a, b, c, d, e, f, g, h, i, j, k, l, 0, 0, 0, 0]);
        // A byte is 0 where the tag matches.
        let differs = tags ^ (LOW * u128::from(tag));
        let mut zeros = differs.wrapping_sub(LOW) & !differs & (LOW << 7);
        core::iter::from_fn(move || {
            let slot = (zeros != 0).then(|| zeros.trailing_zeros() as usize / 8)?;
            zeros &= zeros - 1;
            Some(slot)
        })
    }

    #[inline]
    pub(super) fn places(&self, hash: u64) -> impl Iterator<Item = u32> {
        self.tagged(tag(hash)).filter_map(|slot| self.places.get(slot).copied())
    }

    pub(super) fn add(&mut self, hash: u64, place: u32) -> bool {
        let slot = self.tagged(FREE).next();
        slot.is_some_and(|slot| self.set(slot, tag(hash), place))
    }

    pub(super) fn remove(&mut self, place: u32) -> bool {
        let slot = self.places.iter().position(|other| *other == place);
        slot.is_some_and(|slot| self.set(slot, FREE, NIL))
    }

    fn set(&mut self, slot: usize, tag: u8, place: u32) -> bool {
        let (Some(tags), Some(places)) = (self.tags.get_mut(slot), self.places.get_mut(slot)) else { return false };
        (*tags, *places) = (tag, place);
        true
    }
}

#[cfg(test)]
impl Bucket {
    pub(super) fn places_taken(&self) -> usize {
        self.places.iter().filter(|place| **place != NIL).count()
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn slots_are_found_by_their_tag_whatever_the_others_have() {
        for tag in 0..=u8::MAX {
            for other in [tag.wrapping_sub(1), tag.wrapping_add(1), tag ^ 0x80, !tag] {
                for having in 0_u32..1 << SLOTS {
                    let tags = core::array::from_fn(|slot| if having >> slot & 1 == 1 { tag } else { other });
                    let bucket = Bucket { tags, ..Bucket::EMPTY };
                    let found = bucket.tagged(tag).fold(0, |found, slot| found | 1 << slot);
                    assert_eq!(found & having, having, "all that have it");
                    assert_eq!(found & found.wrapping_neg(), having & having.wrapping_neg(), "the first one has it");
                    assert_eq!(found >> SLOTS, 0);
                }
            }
        }
    }

    #[test]
    fn bucket_takes_as_many_places_as_it_has_slots() {
        let mut bucket = Bucket::EMPTY;
        for place in 0..12 {
            assert!(bucket.add(u64::from(place % 3) << 8 | u64::from(place % 2), place));
        }
        assert!(!bucket.add(7, 12), "full");
        for hash in [0, 1] {
            assert_eq!(bucket.places(hash).collect::<Vec<_>>(), (0..12).collect::<Vec<_>>());
        }
        assert!(bucket.remove(5) && !bucket.remove(5) && !bucket.remove(12));
        assert!(bucket.add(9, 12) && !bucket.add(9, 13));
        assert_eq!(bucket.places(9).next(), Some(12));
        for place in (0..5).chain(6..13) {
            assert!(bucket.remove(place));
        }
        assert!([0, 1, 9].iter().all(|hash| bucket.places(*hash).count() == 0));
    }
}
