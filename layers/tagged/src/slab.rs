//! [`Slab`], with keys that become invalid when their value is removed; [`List`], an order of its
//! values; [`Ring`].

use core::alloc::Layout;

use allocator_api2::alloc::Allocator;
use loom_core::error::OpenError;
use loom_core::storage::Array;

const NONE: u32 = u32::MAX;

pub(crate) fn array<V>(count: usize) -> Result<Layout, OpenError> {
    Layout::array::<V>(count).map_err(|_| OpenError::Size)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    pub(crate) const NONE: Key = Key { index: NONE, generation: 0 };

    pub(crate) const fn index(self) -> usize {
        self.index as usize
    }

    pub(crate) fn to_word(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// The key may have no value.
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    pub(crate) const fn from_word(word: u64) -> Self {
        Key { index: word as u32, generation: (word >> 32) as u32 }
    }

    pub(crate) const fn generation(self) -> u32 {
        self.generation
    }
}

#[derive(Debug)]
struct SlabSlot<V> {
    generation: u32,
    /// In a free slot, `next` is the next free one.
    next: u32,
    prev: u32,
    value: Option<V>,
}

#[derive(Debug)]
pub(crate) struct Slab<V, A: Allocator> {
    places: Array<SlabSlot<V>, A>,
    free: u32,
    taken: usize,
}

impl<V, A: Allocator> Slab<V, A> {
    pub(crate) fn layout(places: u32) -> Result<Layout, OpenError> {
        array::<SlabSlot<V>>(places as usize)
    }

    pub(crate) fn new_in(places: u32, alloc: A) -> Result<Self, OpenError> {
        if places == 0 || places == NONE {
            return Err(OpenError::Size);
        }
        let place = |next: u32| {
            let next = if next == places { NONE } else { next };
            SlabSlot { generation: 0, next, prev: NONE, value: None }
        };
        let mut numbers = 1..;
        let places = Array::new_in(places as usize, alloc, |_| place(numbers.next().unwrap_or(NONE)))?;
        Ok(Slab { places, free: 0, taken: 0 })
    }

    pub(crate) fn len(&self) -> usize {
        self.taken
    }

    pub(crate) fn insert(&mut self, value: V) -> Result<Key, V> {
        let index = self.free;
        let Some(place) = self.places.get_mut(index as usize) else { return Err(value) };
        self.free = place.next;
        self.taken += 1;
        place.generation = place.generation.wrapping_add(1);
        place.next = NONE;
        place.value = Some(value);
        Ok(Key { index, generation: place.generation })
    }

    fn place(&mut self, key: Key) -> Option<&mut SlabSlot<V>> {
        self.places.get_mut(key.index()).filter(|place| place.generation == key.generation)
    }

    pub(crate) fn get(&self, key: Key) -> Option<&V> {
        self.places.get(key.index()).filter(|place| place.generation == key.generation)?.value.as_ref()
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut V> {
        self.place(key)?.value.as_mut()
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<V> {
        let free = self.free;
        let place = self.place(key)?;
        let value = place.value.take()?;
        place.next = free;
        self.free = key.index;
        self.taken -= 1;
        Some(value)
    }

    pub(crate) fn at(&self, index: usize) -> Option<(Key, &V)> {
        let place = self.places.get(index)?;
        let key = Key { index: u32::try_from(index).ok()?, generation: place.generation };
        Some((key, place.value.as_ref()?))
    }

    pub(crate) fn capacity(&self) -> usize {
        self.places.len()
    }
}

/// A value is in at most one list.
#[derive(Debug)]
pub(crate) struct List {
    first: u32,
    last: u32,
}

impl List {
    pub(crate) const fn new() -> Self {
        List { first: NONE, last: NONE }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.first == NONE
    }

    pub(crate) fn first<V, A: Allocator>(&self, slab: &Slab<V, A>) -> Option<Key> {
        let generation = slab.places.get(self.first as usize)?.generation;
        Some(Key { index: self.first, generation })
    }

    pub(crate) fn find<V, A: Allocator>(&self, slab: &Slab<V, A>, mut is_it: impl FnMut(&V) -> bool) -> Option<Key> {
        let mut index = self.first;
        loop {
            let SlabSlot { generation, next, value, .. } = slab.places.get(index as usize)?;
            if value.as_ref().is_some_and(&mut is_it) {
                return Some(Key { index, generation: *generation });
            }
            index = *next;
        }
    }

    pub(crate) fn append<V, A: Allocator>(&mut self, slab: &mut Slab<V, A>, key: Key) {
        let last = self.last;
        let Some(place) = slab.place(key) else { return };
        (place.next, place.prev) = (NONE, last);
        self.last = key.index;
        match slab.places.get_mut(last as usize) {
            Some(before) => before.next = key.index,
            None => self.first = key.index,
        }
    }

    /// The value is in this list.
    pub(crate) fn remove<V, A: Allocator>(&mut self, slab: &mut Slab<V, A>, key: Key) {
        let Some(place) = slab.place(key) else { return };
        let (next, prev) = (place.next, place.prev);
        (place.next, place.prev) = (NONE, NONE);
        match slab.places.get_mut(prev as usize) {
            Some(before) => before.next = next,
            None => self.first = next,
        }
        match slab.places.get_mut(next as usize) {
            Some(after) => after.prev = prev,
            None => self.last = prev,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Ring<V, A: Allocator> {
    places: Array<Option<V>, A>,
    head: usize,
    len: usize,
}

impl<V, A: Allocator> Ring<V, A> {
    pub(crate) fn layout(places: usize) -> Result<Layout, OpenError> {
        array::<Option<V>>(places)
    }

    pub(crate) fn new_in(places: usize, alloc: A) -> Result<Self, OpenError> {
        Ok(Ring { places: Array::new_in(places, alloc, |_| None)?, head: 0, len: 0 })
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push(&mut self, value: V) -> Result<(), V> {
        let room = self.places.len();
        match self.places.get_mut((self.head + self.len) % room.max(1)) {
            Some(place @ None) => {
                *place = Some(value);
                self.len += 1;
                Ok(())
            }
            _ => Err(value),
        }
    }

    pub(crate) fn first(&self) -> Option<&V> {
        self.places.get(self.head)?.as_ref()
    }

    pub(crate) fn pop(&mut self) -> Option<V> {
        let value = self.places.get_mut(self.head)?.take()?;
        self.head = (self.head + 1) % self.places.len();
        self.len -= 1;
        Some(value)
    }
}

#[cfg(all(test, feature = "std"))]
#[allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use allocator_api2::alloc::Global;

    use super::*;

    #[test]
    fn keys_of_removed_entries_find_no_entry() {
        let mut slab = Slab::new_in(2, Global).unwrap();
        let (a, b) = (slab.insert('a').unwrap(), slab.insert('b').unwrap());
        assert_eq!(slab.insert('c'), Err('c'));
        assert_eq!((slab.remove(a), slab.remove(a), slab.get(a)), (Some('a'), None, None));
        let c = slab.insert('c').unwrap();
        assert_eq!((c.index(), slab.get(a), slab.get(c), slab.get(b)), (a.index(), None, Some(&'c'), Some(&'b')));
        assert_eq!(Key::from_word(c.to_word()), c);
        assert_eq!((a.index(), c.generation()), (c.index(), a.generation() + 1), "its place was used again");
        assert_eq!(slab.get(Key::NONE), None);
        assert_eq!(slab.get(Key::from_word(0)), None);
    }

    #[test]
    fn a_list_keeps_its_order_whatever_is_taken_out() {
        let mut slab = Slab::new_in(3, Global).unwrap();
        let keys = [0, 1, 2].map(|number| slab.insert(number).unwrap());
        for [out, rest @ ..] in [[0, 1, 2], [1, 0, 2], [2, 0, 1]] {
            let mut list = List::new();
            for key in keys {
                list.append(&mut slab, key);
            }
            list.remove(&mut slab, keys[out]);
            let found = [0, 1, 2].map(|wanted| list.find(&slab, |number| *number == wanted));
            assert_eq!(found, [0, 1, 2].map(|number| (number != out).then_some(keys[number])));
            for number in rest {
                assert_eq!(list.first(&slab), Some(keys[number]));
                list.remove(&mut slab, keys[number]);
            }
            assert!(list.is_empty() && list.first(&slab).is_none());
        }
    }

    #[test]
    fn a_ring_goes_round_and_is_full() {
        let mut ring = Ring::new_in(2, Global).unwrap();
        for number in 0..5 {
            assert_eq!((ring.push(number), ring.push(number + 10), ring.push(7)), (Ok(()), Ok(()), Err(7)));
            assert_eq!((ring.first(), ring.len()), (Some(&number), 2));
            assert_eq!((ring.pop(), ring.pop(), ring.pop()), (Some(number), Some(number + 10), None));
        }
    }
}
