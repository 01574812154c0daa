//! [`Arena`]: memory of the caller, handed out from its begin to its end.
//!
//! # Invariants
//!
//! 1. The `capacity` bytes from `base` on are borrowed exclusively for `'m`, and reached through the arena alone.
//! 2. `used <= capacity`. Every block that was handed out and not given back lies within the first `used` bytes, and no
//!    two of them overlap, but for empty ones.
//!
//! It follows that a block which ends at `used` is the last one, and that bytes beyond `used` belong to nobody.

#![allow(unsafe_code, reason = "hands out parts of the memory that it borrows")]

use core::alloc::Layout;
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::num::NonZero;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

/// Memory of the caller, handed out from its begin to its end.
///
/// `&Arena` is the allocator. Taking a block is a handful of instructions. The last block can grow and shrink in place,
/// and gives its room back; the room of any other block that is given back stays used as long as the arena. Objects of
/// loom are closed in the reverse order of opening, so their room does come back, except for what lies between blocks
/// to align them.
///
/// One thread uses it: it is not `Sync`.
///
/// ```
/// use core::alloc::Layout;
/// use core::mem::MaybeUninit;
///
/// use loom_alloc::Arena;
/// use loom_alloc::allocator_api2::alloc::Allocator;
///
/// let mut memory = [MaybeUninit::uninit(); 64];
/// let arena = Arena::new(&mut memory);
/// let allocator = &arena;
/// let block = allocator.allocate(Layout::new::<[u8; 48]>())?;
/// assert_eq!((block.len(), arena.used(), arena.remaining()), (48, 48, 16));
/// assert!(allocator.allocate(Layout::new::<[u8; 17]>()).is_err());
/// # Ok::<_, loom_alloc::allocator_api2::alloc::AllocError>(())
/// ```
pub struct Arena<'m> {
    base: NonNull<u8>,
    capacity: usize,
    used: Cell<usize>,
    high_water: Cell<usize>,
    memory: PhantomData<&'m mut [MaybeUninit<u8>]>,
}

// SAFETY: an arena is an exclusive borrow of bytes and two numbers. While blocks are out, their holders borrow the arena
// (they have `&Arena`, which is not `Send`), so it does not move to another thread.
unsafe impl Send for Arena<'_> {}

impl<'m> Arena<'m> {
    /// An arena over this memory.
    #[must_use]
    pub const fn new(memory: &'m mut [MaybeUninit<u8>]) -> Self {
        let capacity = memory.len();
        Arena {
            base: NonNull::from_mut(memory).cast(),
            capacity,
            used: Cell::new(0),
            high_water: Cell::new(0),
            memory: PhantomData,
        }
    }

    /// How many bytes there are in all.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many bytes are handed out, with what lies between them.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.used.get()
    }

    /// How many bytes are left; a block may need some of them for its alignment.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.capacity - self.used.get()
    }

    /// The most bytes that were ever used: how large the arena has to be for what the program did until now.
    #[must_use]
    pub const fn high_water(&self) -> usize {
        self.high_water.get()
    }

    /// `used <= self.capacity`, and every block beyond it is given back.
    fn set_used(&self, used: usize) {
        self.used.set(used);
        self.high_water.set(self.high_water.get().max(used));
    }

    /// Takes the next bytes that are aligned for the layout. The state is as before if there is no room.
    fn take(&self, layout: Layout) -> Option<NonNull<u8>> {
        let used = self.used.get();
        let free = self.base.addr().get().wrapping_add(used);
        let padding = free.wrapping_neg() & (layout.align() - 1);
        let start = used.checked_add(padding)?;
        let end = start.checked_add(layout.size()).filter(|end| *end <= self.capacity)?;
        self.set_used(end);
        // SAFETY: `start <= end <= capacity` (invariant 1).
        Some(unsafe { self.base.add(start) })
    }

    /// Where the block begins, if it is the last one.
    fn begin_of_last(&self, block: NonNull<u8>, size: usize) -> Option<usize> {
        let begin = block.addr().get().wrapping_sub(self.base.addr().get());
        // An empty block may be anywhere, and has no room to give.
        (size > 0 && begin.checked_add(size) == Some(self.used.get())).then_some(begin)
    }

    /// Moves the contents into a new block.
    ///
    /// # Safety
    /// `block` was handed out by this arena with the layout `old`.
    unsafe fn move_to(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let moved = self.allocate(new)?;
        let len = old.size().min(new.size());
        // SAFETY: the old block is not given back yet, so the new one does not overlap it; both have `len` bytes.
        unsafe { block.copy_to_nonoverlapping(moved.cast(), len) };
        // SAFETY: the caller's promise; the block is not used any more.
        unsafe { self.deallocate(block, old) };
        Ok(moved)
    }
}

fn is_aligned(block: NonNull<u8>, layout: Layout) -> bool {
    block.addr().get() & (layout.align() - 1) == 0
}

// SAFETY: blocks lie in memory that is borrowed for longer than the reference lives, wherever the reference is moved or
// copied, and do not overlap (invariants 1 and 2).
unsafe impl Allocator for &Arena<'_> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = if layout.size() == 0 {
            NonZero::new(layout.align()).map(NonNull::without_provenance)
        } else {
            self.take(layout)
        };
        block.map(|block| NonNull::slice_from_raw_parts(block, layout.size())).ok_or(AllocError)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if let Some(begin) = self.begin_of_last(block, layout.size()) {
            self.set_used(begin);
        }
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if is_aligned(block, new) {
            if new.size() == old.size() {
                return Ok(NonNull::slice_from_raw_parts(block, new.size()));
            }
            if let Some(begin) = self.begin_of_last(block, old.size()) {
                // Where it does not fit in place, it fits nowhere: all other room lies beyond.
                let end = begin.checked_add(new.size()).filter(|end| *end <= self.capacity).ok_or(AllocError)?;
                self.set_used(end);
                return Ok(NonNull::slice_from_raw_parts(block, new.size()));
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.move_to(block, old, new) }
    }

    unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise.
        let grown = unsafe { self.grow(block, old, new) }?;
        // SAFETY: the block has grown to no less than its old size.
        let added = unsafe { grown.cast::<u8>().add(old.size()) };
        // SAFETY: the rest of the block, which nobody has seen yet.
        unsafe { added.write_bytes(0, new.size() - old.size()) };
        Ok(grown)
    }

    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if !is_aligned(block, new) {
            // SAFETY: the caller's promise.
            return unsafe { self.move_to(block, old, new) };
        }
        if let Some(begin) = self.begin_of_last(block, old.size()) {
            self.set_used(begin + new.size());
        }
        Ok(NonNull::slice_from_raw_parts(block, new.size()))
    }
}

impl fmt::Debug for Arena<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena")
            .field("used", &self.used())
            .field("capacity", &self.capacity)
            .field("high_water", &self.high_water())
            .finish_non_exhaustive()
    }
}

/// `Send` and not `Sync`, as the documentation says:
///
/// ```
/// fn sends<T: Send>() {}
/// sends::<loom_alloc::Arena<'static>>();
/// ```
///
/// ```compile_fail,E0277
/// fn shares<T: Sync>() {}
/// shares::<loom_alloc::Arena<'static>>();
/// ```
#[cfg(doctest)]
struct Threads;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::std_instead_of_alloc, reason = "tests fail by panicking, and have std")]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    fn address(block: NonNull<[u8]>) -> usize {
        block.cast::<u8>().addr().get()
    }

    /// Memory that begins at a multiple of 64.
    #[repr(align(64))]
    struct Memory<const N: usize>([MaybeUninit<u8>; N]);

    impl<const N: usize> Memory<N> {
        fn new() -> Self {
            Memory([MaybeUninit::uninit(); N])
        }
    }

    #[test]
    fn blocks_are_aligned_wherever_the_memory_begins() {
        for offset in 0..16 {
            let mut memory = Memory::<1024>::new();
            let arena = Arena::new(&mut memory.0[offset..]);
            for align in [1, 2, 4, 8, 64, 16, 32, 1, 128] {
                let block = (&arena).allocate(layout(3, align)).unwrap();
                assert_eq!((address(block) % align, block.len()), (0, 3));
            }
            assert_eq!(arena.used() + arena.remaining(), arena.capacity());
        }
    }

    #[test]
    fn exhaustion_is_an_error_and_changes_nothing() {
        let mut memory = Memory::<64>::new();
        let arena = Arena::new(&mut memory.0);
        let allocator = &arena;
        let first = allocator.allocate(layout(60, 4)).unwrap();
        for wrong in [layout(5, 1), layout(1, 64), layout(isize::MAX as usize - 1, 2), layout(1, 1 << 62)] {
            assert!(allocator.allocate(wrong).is_err(), "{wrong:?}");
            assert_eq!(arena.used(), 60);
        }
        // SAFETY: handed out above with this layout.
        assert!(unsafe { allocator.grow(first.cast(), layout(60, 4), layout(65, 4)) }.is_err());
        assert_eq!(arena.used(), 60);
        assert!(allocator.allocate(layout(4, 4)).is_ok());
        assert_eq!(arena.remaining(), 0);
        assert!(allocator.allocate(layout(1, 1)).is_err());
        assert!((&Arena::new(&mut [])).allocate(layout(1, 1)).is_err());
    }

    #[test]
    fn empty_blocks_take_nothing() {
        let mut memory = Memory::<64>::new();
        let arena = Arena::new(&mut memory.0);
        let allocator = &arena;
        for align in [1, 8, 4096, 1 << 62] {
            let block = allocator.allocate(layout(0, align)).unwrap();
            assert_eq!((address(block) % align, block.len(), arena.used()), (0, 0, 0));
            // SAFETY: handed out above with this layout.
            unsafe { allocator.deallocate(block.cast(), layout(0, align)) };
        }
        let block = allocator.allocate(layout(0, 1)).unwrap();
        // SAFETY: handed out above with this layout.
        let block = unsafe { allocator.grow(block.cast(), layout(0, 1), layout(8, 8)) }.unwrap();
        assert_eq!((block.len(), arena.used()), (8, 8));
        // SAFETY: as above.
        let block = unsafe { allocator.shrink(block.cast(), layout(8, 8), layout(0, 8)) }.unwrap();
        assert_eq!((block.len(), arena.used()), (0, 0));
        // SAFETY: as above.
        unsafe { allocator.deallocate(block.cast(), layout(0, 8)) };
        assert!(allocator.allocate(layout(64, 64)).is_ok());
    }

    #[test]
    fn the_last_block_gives_its_room_back() {
        let mut memory = Memory::<64>::new();
        let arena = Arena::new(&mut memory.0);
        let allocator = &arena;
        let first = allocator.allocate(layout(16, 16)).unwrap();
        let second = allocator.allocate(layout(16, 16)).unwrap();
        // SAFETY: handed out above with this layout.
        unsafe { allocator.deallocate(first.cast(), layout(16, 16)) };
        assert_eq!(arena.used(), 32, "it was not the last");
        // SAFETY: as above.
        unsafe { allocator.deallocate(second.cast(), layout(16, 16)) };
        assert_eq!((arena.used(), arena.high_water()), (16, 32));
        assert_eq!(address(allocator.allocate(layout(48, 16)).unwrap()), address(second));
        assert_eq!((arena.used(), arena.high_water()), (64, 64));
    }

    #[test]
    fn the_last_block_grows_and_shrinks_in_place_and_others_move() {
        let mut memory = Memory::<256>::new();
        let arena = Arena::new(&mut memory.0);
        let allocator = &arena;
        let first = allocator.allocate_zeroed(layout(8, 8)).unwrap();
        // SAFETY: handed out above with this layout.
        let grown = unsafe { allocator.grow_zeroed(first.cast(), layout(8, 8), layout(32, 8)) }.unwrap();
        assert_eq!((address(grown), grown.len(), arena.used()), (address(first), 32, 32));
        // SAFETY: all of it is zeroed.
        assert_eq!(unsafe { grown.as_ref() }, [0; 32]);
        // SAFETY: as above.
        let shrunk = unsafe { allocator.shrink(grown.cast(), layout(32, 8), layout(16, 8)) }.unwrap();
        assert_eq!((address(shrunk), shrunk.len(), arena.used()), (address(first), 16, 16));

        let second = allocator.allocate(layout(1, 1)).unwrap();
        // SAFETY: as above.
        let moved = unsafe { allocator.grow(shrunk.cast(), layout(16, 8), layout(24, 8)) }.unwrap();
        assert!(address(moved) > address(second));
        // SAFETY: the first 16 bytes are copied, and zero.
        assert_eq!(unsafe { &moved.as_ref()[..16] }, [0; 16]);
        // SAFETY: as above.
        let stricter = unsafe { allocator.shrink(moved.cast(), layout(24, 8), layout(8, 64)) }.unwrap();
        assert_eq!(address(stricter) % 64, 0);
    }

    struct Live {
        block: NonNull<u8>,
        layout: Layout,
        fill: u8,
    }

    impl Live {
        fn check(&self) {
            // SAFETY: handed out, and filled by `fill`.
            let bytes = unsafe { NonNull::slice_from_raw_parts(self.block, self.layout.size()).as_ref() };
            assert!(bytes.iter().all(|byte| *byte == self.fill), "somebody else wrote into the block");
        }

        fn fill(&mut self, fill: u8) {
            // SAFETY: handed out with this size.
            unsafe { self.block.write_bytes(fill, self.layout.size()) };
            self.fill = fill;
        }
    }

    /// A xorshift generator: the same numbers in every run.
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 >> 33).unwrap() % limit
        }
    }

    #[test]
    fn blocks_never_overlap_and_keep_their_contents() {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let (mut taken, mut full) = (0, 0);
        for _ in 0..200 {
            let mut memory = Memory::<2048>::new();
            let begin = random.below(64);
            let arena = Arena::new(&mut memory.0[begin..]);
            let (from, to) = (arena.base.addr().get(), arena.base.addr().get() + arena.capacity());
            let allocator = &arena;
            let mut live: Vec<Live> = Vec::new();
            for step in 0..200 {
                let wanted = layout(random.below(128), 1 << random.below(7));
                let chosen = (!live.is_empty()).then(|| random.below(live.len()));
                let before = arena.used();
                match (random.below(8), chosen) {
                    (0..=2, _) | (_, None) => match allocator.allocate(wanted) {
                        Ok(block) => live.push(Live { block: block.cast(), layout: wanted, fill: 0 }),
                        Err(_) => full += 1,
                    },
                    (3 | 4, Some(at)) => {
                        // The last one more often than not.
                        let at = if step % 2 == 0 { live.len() - 1 } else { at };
                        let Live { block, layout, .. } = live.remove(at);
                        // SAFETY: handed out with this layout.
                        unsafe { allocator.deallocate(block, layout) };
                    }
                    (5 | 6, Some(at)) => {
                        let old = live[at].layout;
                        let new = layout(old.size() + wanted.size(), wanted.align());
                        // SAFETY: handed out with this layout.
                        let Ok(block) = (unsafe { allocator.grow(live[at].block, old, new) }) else {
                            assert_eq!(arena.used(), before);
                            full += 1;
                            continue;
                        };
                        let kept = Live { block: block.cast(), layout: old, ..live[at] };
                        kept.check();
                        live[at] = Live { layout: new, ..kept };
                    }
                    (_, Some(at)) => {
                        let old = live[at].layout;
                        let new = layout(random.below(old.size() + 1), wanted.align());
                        // SAFETY: handed out with this layout.
                        let Ok(block) = (unsafe { allocator.shrink(live[at].block, old, new) }) else {
                            assert_eq!(arena.used(), before);
                            full += 1;
                            continue;
                        };
                        live[at] = Live { block: block.cast(), layout: new, ..live[at] };
                    }
                }
                let fill = u8::try_from(step).unwrap();
                if let Some(newest) = chosen.filter(|at| *at < live.len()).or(live.len().checked_sub(1)) {
                    live[newest].fill(fill);
                }
                if let Some(last) = live.last_mut() {
                    last.fill(fill.wrapping_add(1));
                }
                taken += 1;
                for block in &live {
                    let begin = block.block.addr().get();
                    assert_eq!(begin % block.layout.align(), 0);
                    assert!(block.layout.size() == 0 || begin >= from && begin + block.layout.size() <= to);
                    block.check();
                }
                let mut ranges: Vec<_> = live
                    .iter()
                    .filter(|block| block.layout.size() > 0)
                    .map(|block| (block.block.addr().get(), block.block.addr().get() + block.layout.size()))
                    .collect();
                ranges.sort_unstable();
                assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{ranges:?}");
                assert!(arena.used() <= arena.high_water() && arena.high_water() <= arena.capacity());
            }
        }
        assert!(taken > 10_000 && full > 100, "{taken} steps, {full} times full: the test tests nothing");
    }
}
