//! Arenas, with a predicted place for each block.

use std::alloc::Layout;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use arbitrary::Unstructured;
use loom_alloc::allocator_api2::alloc::{Allocator, System};
use loom_alloc::{Arena, Budget, BumpArena, OwnedArena, Owns};

use super::{Model, World};

/// Begin of a block. Empty blocks have no place.
type Place = Option<usize>;

/// Consecutive blocks from the begin of the memory, which may be unaligned.
struct Bump {
    base: usize,
    capacity: usize,
    used: usize,
    high_water: usize,
}

impl Bump {
    /// Returns `true` for the block that ends where the free rest begins.
    fn is_last(&self, place: Place, layout: Layout) -> bool {
        layout.size() > 0 && place.is_some_and(|begin| begin + layout.size() == self.used)
    }

    fn used(&mut self, used: usize) {
        self.used = used;
        self.high_water = self.high_water.max(used);
    }

    fn is_aligned(&self, place: Place, layout: Layout) -> bool {
        // An empty block has an arbitrary aligned address, and moves unless that is aligned enough.
        place.is_none_or(|begin| (self.base + begin).is_multiple_of(layout.align()))
    }

    fn moved(&mut self, place: Place, old: Layout, new: Layout) -> Option<Place> {
        let to = self.allocate(new)?;
        self.deallocate(place, old);
        Some(to)
    }
}

impl Model for Bump {
    type Place = Place;

    fn allocate(&mut self, layout: Layout) -> Option<Place> {
        if layout.size() == 0 {
            return Some(None);
        }
        let begin = (self.base + self.used).next_multiple_of(layout.align()) - self.base;
        let end = begin.checked_add(layout.size()).filter(|end| *end <= self.capacity)?;
        self.used(end);
        Some(Some(begin))
    }

    fn deallocate(&mut self, place: Place, layout: Layout) {
        if self.is_last(place, layout) {
            self.used(place.unwrap());
        }
    }

    fn grow(&mut self, place: Place, old: Layout, new: Layout) -> Option<Place> {
        if new.size() == 0 {
            return Some(place);
        }
        if old.size() > 0 && self.is_aligned(place, new) {
            if new.size() == old.size() {
                return Some(place);
            }
            if self.is_last(place, old) {
                let end = place.unwrap().checked_add(new.size()).filter(|end| *end <= self.capacity)?;
                self.used(end);
                return Some(place);
            }
        }
        self.moved(place, old, new)
    }

    fn shrink(&mut self, place: Place, old: Layout, new: Layout) -> Option<Place> {
        if old.size() == 0 {
            return Some(place);
        }
        if !self.is_aligned(place, new) {
            return self.moved(place, old, new);
        }
        if self.is_last(place, old) {
            self.used(place.unwrap() + new.size());
        }
        Some(if new.size() == 0 { None } else { place })
    }
}

/// Plays two stories on an arena that begins at `base`. A reset follows each, with or without
/// forgotten blocks.
fn play<M>(arena: &mut BumpArena<M>, base: usize, bytes: &mut Unstructured<'_>, forget: bool) -> usize {
    let mut model = Bump { base, capacity: arena.capacity(), used: arena.used(), high_water: arena.high_water() };
    let mut played = 0;
    for _ in 0..2 {
        let place = |block: NonNull<u8>, _| Some(block.addr().get() - base);
        let mut world = World::new(arena.allocator(), place, &mut model);
        played += world.play(bytes, MOST, |model| {
            assert_eq!((arena.used(), arena.high_water()), (model.used, model.high_water));
            assert_eq!((arena.capacity(), arena.remaining()), (model.capacity, model.capacity - model.used));
        });
        if !forget {
            world.end();
        }
        drop(world);
        arena.reset();
        model.used = 0;
        assert_eq!((arena.used(), arena.high_water()), (0, model.high_water));
    }
    played
}

/// Limit of steps. Longer stories add no states.
const MOST: usize = 48;

/// Plays blocks of an arena over the caller's memory, or over another allocator's.
pub fn arena(data: &[u8]) -> usize {
    let mut bytes = Unstructured::new(data);
    let Ok((owned, capacity, offset, forget)) = bytes.arbitrary::<(bool, u16, u8, bool)>() else { return 0 };
    let (capacity, offset) = (usize::from(capacity % 2048), usize::from(offset % 64));
    if !owned {
        let mut memory = vec![MaybeUninit::uninit(); 64 + capacity];
        let memory = &mut memory[offset..offset + capacity];
        let base = memory.as_ptr().addr();
        return play(&mut Arena::new(memory), base, &mut bytes, forget);
    }
    let budget = Budget::new(System, 1 << 20);
    let mut arena = OwnedArena::new_in(capacity, &budget).unwrap();
    // The first block begins at the begin of the memory.
    let first = (&arena).allocate(Layout::new::<u8>());
    assert_eq!(first.is_ok(), capacity > 0);
    let base = first.map_or(64, |block| block.cast::<u8>().addr().get());
    assert_eq!(base % 64, 0);
    arena.reset();
    let played = play(&mut arena, base, &mut bytes, forget);
    assert_eq!((budget.blocks(), budget.used()), (usize::from(capacity > 0), capacity), "one block for all of them");
    drop(arena);
    assert_eq!((budget.blocks(), budget.used()), (0, 0), "and it has gone back");
    played
}
