#![allow(unsafe_code, reason = "allocation through `Allocator`")]

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use crate::block::{empty, move_to, zero_from};
use crate::ownership::Owns;

/// Arena or pool, and a second allocator for blocks beyond it.
///
/// `&Fallback` is the allocator. A block grows and shrinks at its origin if possible, else moves.
///
/// The pair owns its first allocator: the second could live in a block of a borrowed one.
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
/// Pairs nest: `Fallback<Pool<_>, &Fallback<Pool<_>, _>>`.
#[derive(Debug)]
pub struct Fallback<P, S> {
    first: P,
    second: S,
}

impl<P: Owns, S: Allocator> Fallback<P, S> {
    /// Pairs `first` with a fallback.
    #[must_use]
    pub const fn new(first: P, second: S) -> Self {
        Fallback { first, second }
    }

    /// First allocator.
    #[must_use]
    pub const fn first(&self) -> &P {
        &self.first
    }

    /// Second allocator.
    #[must_use]
    pub const fn second(&self) -> &S {
        &self.second
    }
}

impl<P: Owns, S: Allocator> Fallback<P, S> {
    /// Fails if the first also claims the block: the second now takes its memory from this pair,
    /// unlike allocators of this crate.
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

    /// # Safety
    /// The block was handed out with the layout `old`, of at least one byte.
    unsafe fn move_block(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let moved = self.allocate(new)?;
        // SAFETY: the caller guarantees the layout `old`.
        Ok(unsafe { move_to(moved, block, old, self) })
    }

    /// Aborts if `first` claims a block that `second` has changed: the old block is freed.
    fn changed_by_second(
        &self,
        layout: Layout,
        changed: Result<NonNull<[u8]>, AllocError>,
    ) -> Result<NonNull<[u8]>, AllocError> {
        /// Panics, which ends the process here.
        extern "C" fn abort() -> ! {
            panic!("an allocator takes its memory from the pair that it is the second one of")
        }
        if changed.is_ok_and(|block| self.first.owns(block.cast(), layout)) {
            abort();
        }
        changed
    }
}

// SAFETY: the two allocators live as long as the pair. Each block returns to its own: `first`
// identifies its blocks. `second` had no memory of `first` when the pair was made, because blocks
// of `first` are gone when it moves (`Owns`). Later blocks are checked.
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
            // SAFETY: the caller upholds `Allocator::deallocate`. `first` owns the block.
            unsafe { self.first.allocator().deallocate(block, layout) }
        } else {
            // SAFETY: the caller upholds `Allocator::deallocate`. `second` owns the block.
            unsafe { self.second.deallocate(block, layout) }
        }
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if old.size() == 0 {
            return self.allocate(new);
        }
        let grown = if self.first.owns(block, old) {
            // SAFETY: the caller upholds `Allocator::grow`. `first` owns the block.
            unsafe { self.first.allocator().grow(block, old, new) }
        } else {
            // SAFETY: the caller upholds `Allocator::grow`. `second` owns the block.
            self.changed_by_second(new, unsafe { self.second.grow(block, old, new) })
        };
        // SAFETY: the failed call left the layout `old`.
        grown.or_else(|_| unsafe { self.move_block(block, old, new) })
    }

    unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds `Allocator::grow_zeroed`.
        let grown = unsafe { self.grow(block, old, new) }?;
        // SAFETY: the block grew from `old.size()` bytes just now.
        Ok(unsafe { zero_from(grown, old.size()) })
    }

    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if new.size() == 0 {
            let none = empty(new)?;
            // SAFETY: the caller upholds `Allocator::shrink`.
            unsafe { self.deallocate(block, old) };
            return Ok(none);
        }
        let shrunk = if self.first.owns(block, old) {
            // SAFETY: the caller upholds `Allocator::shrink`. `first` owns the block.
            unsafe { self.first.allocator().shrink(block, old, new) }
        } else {
            // SAFETY: the caller upholds `Allocator::shrink`. `second` owns the block.
            self.changed_by_second(new, unsafe { self.second.shrink(block, old, new) })
        };
        // SAFETY: the failed call left the layout `old`.
        shrunk.or_else(|_| unsafe { self.move_block(block, old, new) })
    }
}

/// A pool with an allocator in it cannot move into a pair:
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

    macro_rules! pair {
        ($beyond:ident, $memory:ident) => {
            let mut memory = Box::new_in([0_u64; 8], System);
            // SAFETY: any bytes are valid `MaybeUninit<u8>`.
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
            // SAFETY: allocated with this layout.
            unsafe { (&memory).deallocate(block.cast(), layout(size, 8)) };
        }
        assert_eq!((memory.first().used(), beyond.used(), beyond.blocks()), (0, 0, 0));
    }

    #[test]
    fn empty_blocks_come_from_neither() {
        pair!(beyond, memory);
        let empty = (&memory).allocate_zeroed(layout(0, 4096)).unwrap();
        assert_eq!((empty.len(), empty.cast::<u8>().addr().get() % 4096), (0, 0));
        // SAFETY: allocated with this layout.
        let block = unsafe { (&memory).grow(empty.cast(), layout(0, 4096), layout(100, 8)) };
        assert!(block.is_err(), "too large for both");
        // SAFETY: `empty` is a block of no bytes.
        let block = unsafe { (&memory).grow_zeroed(empty.cast(), layout(0, 4096), layout(64, 8)) }.unwrap();
        assert_eq!((memory.first().used(), beyond.blocks()), (64, 0));
        // SAFETY: allocated with this layout.
        let empty = unsafe { (&memory).shrink(block.cast(), layout(64, 8), layout(0, 8)) }.unwrap();
        assert_eq!((empty.len(), memory.first().used(), beyond.blocks()), (0, 0, 0));
        // SAFETY: allocated with this layout.
        unsafe { (&memory).deallocate(empty.cast(), layout(0, 8)) };
    }

    #[test]
    fn a_block_that_cannot_grow_where_it_is_moves() {
        pair!(beyond, memory);
        let first = (&memory).allocate(layout(32, 8)).unwrap();
        // SAFETY: the block has 32 bytes.
        unsafe { first.cast::<u8>().write_bytes(7, 32) };
        let in_the_way = (&memory).allocate(layout(32, 8)).unwrap();
        // SAFETY: allocated with this layout.
        let moved = unsafe { (&memory).grow_zeroed(first.cast(), layout(32, 8), layout(40, 8)) }.unwrap();
        // SAFETY: initialised, by copy or zeroing.
        assert_eq!(unsafe { moved.as_ref() }[24..], [[7; 8], [0; 8]].concat());
        assert_eq!((beyond.used(), beyond.blocks()), (40, 1));
        // The freed block was the arena's last, so the block moves there.
        // SAFETY: allocated with this layout.
        unsafe { (&memory).deallocate(in_the_way.cast(), layout(32, 8)) };
        // SAFETY: allocated with this layout.
        assert!(unsafe { (&memory).grow(moved.cast(), layout(40, 8), layout(65, 8)) }.is_err());
        // SAFETY: the failed call left this layout.
        let grown = unsafe { (&memory).grow(moved.cast(), layout(40, 8), layout(64, 8)) }.unwrap();
        assert_eq!((memory.first().used(), beyond.used()), (32, 64));
        // SAFETY: allocated with this layout.
        let shrunk = unsafe { (&memory).shrink(grown.cast(), layout(64, 8), layout(8, 8)) }.unwrap();
        // SAFETY: initialised by the copy.
        assert_eq!((beyond.used(), unsafe { shrunk.as_ref() }), (8, &[7; 8][..]));
        // SAFETY: allocated with this layout.
        unsafe { (&memory).deallocate(shrunk.cast(), layout(8, 8)) };
        assert_eq!(beyond.blocks(), 0);
    }

    struct Turncoat(Cell<Option<&'static dyn Allocator>>);

    // SAFETY: blocks come from `'static` allocators and are never freed.
    unsafe impl Allocator for Turncoat {
        fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
            self.0.get().ok_or(AllocError)?.allocate(layout)
        }

        unsafe fn deallocate(&self, _: NonNull<u8>, _: Layout) {}
    }

    type Owned = OwnedArena<&'static Arena<'static>>;

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
                // SAFETY: allocated with this layout.
                let _ = unsafe { memory.grow(block, layout(8, 1), layout(16, 1)) };
            } else {
                // SAFETY: allocated with this layout.
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
