//! [`Fallback`]: one allocator, and another one where the first has no room.

#![allow(unsafe_code, reason = "allocation through `Allocator`")]

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use crate::block::{empty, move_to, zero_from};
use crate::owns::Owns;

/// An arena or pool, and another allocator for what the first one has no room for, or no block large enough.
///
/// `&Fallback` is the allocator. A block goes back to where it comes from. One that grows or shrinks does so there if it can, and
/// else moves to wherever a new block would come from.
///
/// The first one is held by value, not by a reference: what it hands out goes through the pair alone. Were it shared, the second
/// allocator could be one that was made in a block of the first one, and the blocks of both would look like the first one's.
///
/// ```
/// use core::alloc::Layout;
///
/// use loom_alloc::{Budget, Fallback, Pool, PoolAttr};
/// use loom_alloc::allocator_api2::alloc::System;
/// use loom_alloc::allocator_api2::vec::Vec;
///
/// let beyond = Budget::new(System, usize::MAX);
/// let messages = Pool::new_in(PoolAttr { block: Layout::new::<[u8; 256]>(), count: 2 }, System)?;
/// let memory = Fallback::new(messages, &beyond);
/// let mut message = Vec::new_in(&memory);
/// message.extend(0..200_u8);
/// assert_eq!((memory.first().taken(), beyond.blocks()), (1, 0));
/// message.extend(0..200_u8);
/// assert_eq!((memory.first().taken(), beyond.blocks()), (0, 1), "too long for a block: it has moved");
/// assert!(message.into_iter().eq((0..200).chain(0..200)));
/// assert_eq!(beyond.blocks(), 0);
/// # Ok::<_, loom_core::error::OpenError>(())
/// ```
///
/// Pairs of three: `Fallback<Pool<_>, &Fallback<Pool<_>, _>>`.
#[derive(Debug)]
pub struct Fallback<P, S> {
    first: P,
    second: S,
}

impl<P: Owns, S: Allocator> Fallback<P, S> {
    /// First `first`, then `second`.
    #[must_use]
    pub const fn new(first: P, second: S) -> Self {
        Fallback { first, second }
    }

    /// The arena or pool that comes first.
    #[must_use]
    pub const fn first(&self) -> &P {
        &self.first
    }

    /// The allocator that comes second.
    #[must_use]
    pub const fn second(&self) -> &S {
        &self.second
    }
}

/// A block of no bytes has no owner: it comes from neither, and goes back to neither.
impl<P: Owns, S: Allocator> Fallback<P, S> {
    /// The second one's block, if it is to be told from the first one's.
    ///
    /// It always is, but for an allocator that takes memory from this very pair once it is in it. For that it would have to
    /// change where its memory comes from, as none here does.
    fn taken_from_second(
        &self,
        layout: Layout,
        taken: Result<NonNull<[u8]>, AllocError>,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let block = taken?;
        if self.first.owns(block.cast(), layout) {
            // SAFETY: taken just now, with this layout.
            unsafe { self.second.deallocate(block.cast(), layout) };
            return Err(AllocError);
        }
        Ok(block)
    }

    /// Moves a block into one of another layout, wherever there is one.
    ///
    /// # Safety
    /// The block was handed out with the layout `old`, of at least one byte.
    unsafe fn move_block(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let moved = self.allocate(new)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { move_to(moved, block, old, self) })
    }

    /// What the second one made of one of its blocks. (See `taken_from_second`. The old block is gone, and there may be no other.)
    fn changed_by_second(
        &self,
        layout: Layout,
        changed: Result<NonNull<[u8]>, AllocError>,
    ) -> Result<NonNull<[u8]>, AllocError> {
        /// Unwinding out of this function is not possible, so the panic ends the process.
        extern "C" fn abort() -> ! {
            panic!("an allocator takes its memory from the pair that it is the second one of")
        }
        if changed.is_ok_and(|block| self.first.owns(block.cast(), layout)) {
            abort();
        }
        changed
    }
}

// SAFETY: blocks are those of the two allocators, which are there as long as the pair is. Each goes back to its own: the
// first one knows its blocks, and the second one's are not among them. Its memory is not the first one's when the pair is made:
// it would have been taken through a reference, and what was is gone when the first one is moved (`Owns`). Later ones are looked at.
unsafe impl<P: Owns, S: Allocator> Allocator for &Fallback<P, S> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return empty(layout);
        }
        self.first
            .allocator()
            .allocate(layout)
            .or_else(|_| self.taken_from_second(layout, self.second.allocate(layout)))
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return empty(layout);
        }
        self.first
            .allocator()
            .allocate_zeroed(layout)
            .or_else(|_| self.taken_from_second(layout, self.second.allocate_zeroed(layout)))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() == 0 {
            return;
        }
        if self.first.owns(block, layout) {
            // SAFETY: the caller's promise, and it is the first one's.
            unsafe { self.first.allocator().deallocate(block, layout) }
        } else {
            // SAFETY: the caller's promise, and it is the second one's.
            unsafe { self.second.deallocate(block, layout) }
        }
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if old.size() == 0 {
            return self.allocate(new);
        }
        let grown = if self.first.owns(block, old) {
            // SAFETY: the caller's promise, and it is the first one's.
            unsafe { self.first.allocator().grow(block, old, new) }
        } else {
            // SAFETY: the caller's promise, and it is the second one's.
            self.changed_by_second(new, unsafe { self.second.grow(block, old, new) })
        };
        // SAFETY: the caller's promise; a block that could not grow is as it was.
        grown.or_else(|_| unsafe { self.move_block(block, old, new) })
    }

    unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise.
        let grown = unsafe { self.grow(block, old, new) }?;
        // SAFETY: it had `old.size()` bytes, and is handed out anew.
        Ok(unsafe { zero_from(grown, old.size()) })
    }

    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if new.size() == 0 {
            let none = empty(new)?;
            // SAFETY: the caller's promise.
            unsafe { self.deallocate(block, old) };
            return Ok(none);
        }
        let shrunk = if self.first.owns(block, old) {
            // SAFETY: the caller's promise, and it is the first one's.
            unsafe { self.first.allocator().shrink(block, old, new) }
        } else {
            // SAFETY: the caller's promise, and it is the second one's.
            self.changed_by_second(new, unsafe { self.second.shrink(block, old, new) })
        };
        // SAFETY: the caller's promise; a block that could not shrink is as it was.
        shrunk.or_else(|_| unsafe { self.move_block(block, old, new) })
    }
}

/// What the types refuse: a pool that another allocator is made in cannot be moved into a pair with it.
///
/// ```compile_fail,E0505
/// use core::alloc::Layout;
///
/// use loom_alloc::{Fallback, Pool, PoolAttr};
/// use loom_alloc::allocator_api2::alloc::{Allocator, System};
///
/// let large = Pool::new_in(PoolAttr { block: Layout::new::<[u8; 4096]>(), count: 4 }, System).unwrap();
/// let small = Pool::new_in(PoolAttr { block: Layout::new::<[u8; 64]>(), count: 8 }, &large).unwrap();
/// let memory = Fallback::new(large, &small);
/// let block = (&memory).allocate(Layout::new::<u8>());
/// ```
#[cfg(doctest)]
struct Apart;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::std_instead_of_alloc, reason = "tests fail by panicking, and have std")]
mod tests {
    use core::cell::Cell;
    use std::process::Command;
    use std::vec::Vec;

    use allocator_api2::alloc::System;
    use allocator_api2::boxed::Box;

    use super::*;
    use crate::arena::{Arena, OwnedArena};
    use crate::budget::Budget;
    use crate::static_arena::StaticArena;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    /// 64 bytes of an arena, and 64 of the system.
    macro_rules! pair {
        ($beyond:ident, $memory:ident) => {
            let mut memory = Box::new_in([0_u64; 8], System);
            // SAFETY: numbers are bytes, of which anything may be made.
            let bytes = unsafe { &mut *core::ptr::from_mut(&mut *memory).cast::<[core::mem::MaybeUninit<u8>; 64]>() };
            let $beyond = Budget::new(System, 64);
            let $memory = Fallback::new(Arena::new(bytes), &$beyond);
        };
    }

    #[test]
    fn blocks_go_back_to_where_they_come_from() {
        pair!(beyond, memory);
        let blocks: Vec<_> = [40, 32, 24, 32].map(|size| (&memory).allocate(layout(size, 8)).unwrap()).to_vec();
        assert_eq!((memory.first().used(), beyond.used()), (64, 64));
        assert!((&memory).allocate(layout(1, 1)).is_err());
        for (block, size) in blocks.into_iter().zip([40, 32, 24, 32]).rev() {
            // SAFETY: handed out above with this layout.
            unsafe { (&memory).deallocate(block.cast(), layout(size, 8)) };
        }
        assert_eq!((memory.first().used(), beyond.used(), beyond.blocks()), (0, 0, 0));
    }

    #[test]
    fn empty_blocks_come_from_neither() {
        pair!(beyond, memory);
        let empty = (&memory).allocate_zeroed(layout(0, 4096)).unwrap();
        assert_eq!((empty.len(), empty.cast::<u8>().addr().get() % 4096), (0, 0));
        // SAFETY: handed out above, here and below.
        let block = unsafe { (&memory).grow(empty.cast(), layout(0, 4096), layout(100, 8)) };
        assert!(block.is_err(), "too large for both");
        // SAFETY: as above.
        let block = unsafe { (&memory).grow_zeroed(empty.cast(), layout(0, 4096), layout(64, 8)) }.unwrap();
        assert_eq!((memory.first().used(), beyond.blocks()), (64, 0));
        // SAFETY: as above.
        let empty = unsafe { (&memory).shrink(block.cast(), layout(64, 8), layout(0, 8)) }.unwrap();
        assert_eq!((empty.len(), memory.first().used(), beyond.blocks()), (0, 0, 0));
        // SAFETY: as above.
        unsafe { (&memory).deallocate(empty.cast(), layout(0, 8)) };
    }

    #[test]
    fn a_block_that_cannot_grow_where_it_is_moves() {
        pair!(beyond, memory);
        let first = (&memory).allocate(layout(32, 8)).unwrap();
        // SAFETY: handed out with this length.
        unsafe { first.cast::<u8>().write_bytes(7, 32) };
        let in_the_way = (&memory).allocate(layout(32, 8)).unwrap();
        // SAFETY: handed out above, here and below.
        let moved = unsafe { (&memory).grow_zeroed(first.cast(), layout(32, 8), layout(40, 8)) }.unwrap();
        // SAFETY: copied, and zero.
        assert_eq!(unsafe { moved.as_ref() }[24..], [[7; 8], [0; 8]].concat());
        assert_eq!((beyond.used(), beyond.blocks()), (40, 1));
        // The other one is the last in the arena, gives its room back, and more comes there.
        // SAFETY: as above.
        unsafe { (&memory).deallocate(in_the_way.cast(), layout(32, 8)) };
        // SAFETY: as above.
        assert!(unsafe { (&memory).grow(moved.cast(), layout(40, 8), layout(65, 8)) }.is_err());
        // SAFETY: as above.
        let grown = unsafe { (&memory).grow(moved.cast(), layout(40, 8), layout(64, 8)) }.unwrap();
        assert_eq!((memory.first().used(), beyond.used()), (32, 64));
        // SAFETY: as above.
        let shrunk = unsafe { (&memory).shrink(grown.cast(), layout(64, 8), layout(8, 8)) }.unwrap();
        // SAFETY: copied.
        assert_eq!((beyond.used(), unsafe { shrunk.as_ref() }), (8, &[7; 8][..]));
        // SAFETY: as above.
        unsafe { (&memory).deallocate(shrunk.cast(), layout(8, 8)) };
        assert_eq!(beyond.blocks(), 0);
    }

    /// An allocator that takes its memory from where the test says, and gives none back.
    struct Turncoat(Cell<Option<&'static dyn Allocator>>);

    // SAFETY: blocks are those of allocators that are there for ever, and stay taken.
    unsafe impl Allocator for Turncoat {
        fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
            self.0.get().ok_or(AllocError)?.allocate(layout)
        }

        unsafe fn deallocate(&self, _: NonNull<u8>, _: Layout) {}
    }

    type Owned = OwnedArena<&'static Arena<'static>>;

    /// A pair whose first one has 128 bytes left, and an arena in a block of the first one.
    fn pair_with_a_turncoat(
        arena: &'static Arena<'static>,
    ) -> (&'static Fallback<Owned, Turncoat>, &'static dyn Allocator) {
        let first = OwnedArena::new_in(256, arena).unwrap();
        let pair = Fallback::new(first, Turncoat(Cell::new(None)));
        let pair = &*Box::leak(Box::try_new_in(pair, arena).unwrap());
        let inner = OwnedArena::new_in(128, pair.first()).unwrap();
        let inner = &*Box::leak(Box::try_new_in(inner, arena).unwrap());
        (pair, Box::leak(Box::try_new_in(inner, arena).unwrap()))
    }

    #[test]
    fn a_second_one_that_takes_its_memory_from_the_pair_later_is_passed_over() {
        static MEMORY: StaticArena<4096> = StaticArena::new();
        let (memory, inner) = pair_with_a_turncoat(MEMORY.take().unwrap());
        memory.second().0.set(Some(inner));
        assert!(memory.allocate(layout(128, 1)).is_ok(), "the first one has this much yet");
        assert!(memory.second().allocate(layout(1, 1)).is_ok(), "and the second one has some, too");
        assert!(memory.allocate(layout(1, 1)).is_err());
    }

    /// Where it makes one of its blocks another, there is nothing left to pass over to, and the process ends: this test runs itself
    /// in others.
    #[test]
    fn a_second_one_that_moves_its_block_into_the_pair_ends_the_process() {
        const CHANGE: &str = "LOOM_TEST_FALLBACK_CHANGE";
        if let Ok(change) = std::env::var(CHANGE) {
            static MEMORY: StaticArena<4096> = StaticArena::new();
            let arena = MEMORY.take().unwrap();
            let (memory, inner) = pair_with_a_turncoat(arena);
            memory.second().0.set(Some(Box::leak(Box::try_new_in(arena, arena).unwrap())));
            memory.allocate(layout(128, 1)).unwrap();
            let block = memory.allocate(layout(8, 1)).unwrap().cast();
            if !change.starts_with("faithful") {
                memory.second().0.set(Some(inner));
            }
            if change.ends_with("grow") {
                // SAFETY: handed out with this layout, here and below.
                let _ = unsafe { memory.grow(block, layout(8, 1), layout(16, 1)) };
            } else {
                // SAFETY: as above.
                let _ = unsafe { memory.shrink(block, layout(8, 1), layout(4, 1)) };
            }
            return;
        }
        let run = |change: &str| {
            let mut this = Command::new(std::env::current_exe().unwrap());
            let name = "fallback::tests::a_second_one_that_moves_its_block_into_the_pair_ends_the_process";
            let output = this.args(["--exact", name, "--nocapture"]).env(CHANGE, change).output().unwrap();
            let said = std::string::String::from_utf8_lossy(&output.stderr).contains("takes its memory from the pair");
            (output.status.success(), said)
        };
        for change in ["grow", "shrink"] {
            assert_eq!(run(change), (false, true), "{change}");
            assert_eq!(run(&std::format!("faithful {change}")), (true, false), "{change}");
        }
    }
}
