//! Stories of blocks: allocated, freed, grown and shrunk, beside a model of the source of each
//! block.
//!
//! Blocks are aligned and large enough, do not overlap, keep their contents, are zero where
//! requested, and are unchanged by a refusal. The model also predicts which requests succeed, and
//! their places.

#![allow(
    unreachable_pub,
    unsafe_code,
    clippy::unwrap_used,
    reason = "tests, also of the fuzz targets: blocks by hand, and they fail by panicking"
)]

mod arena;
mod pool;

use std::alloc::Layout;
use std::fmt::Debug;
use std::ptr::NonNull;

use arbitrary::{Arbitrary, Unstructured};
use loom_alloc::allocator_api2::alloc::Allocator;

pub use arena::arena;
pub use pool::pool;

pub trait Model {
    type Place: Copy + Debug + PartialEq;

    fn allocate(&mut self, layout: Layout) -> Option<Self::Place>;

    fn deallocate(&mut self, place: Self::Place, layout: Layout);

    /// Returns the new place of a block that grows. A refusal changes no state.
    fn grow(&mut self, place: Self::Place, old: Layout, new: Layout) -> Option<Self::Place>;

    fn shrink(&mut self, place: Self::Place, old: Layout, new: Layout) -> Option<Self::Place>;
}

/// Step. Its numbers select among the existing blocks.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Step {
    Allocate { size: Size, align: u8, zeroed: bool },
    Deallocate { nth: u8, all: bool },
    Grow { nth: u8, by: Size, align: u8, zeroed: bool, all: bool },
    Shrink { nth: u8, to: u16, align: u8, all: bool },
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Size {
    Small(u8),
    /// Size near a multiple of eight, like blocks of pools.
    About(u8, i8),
    Large(u16),
    Absurd(u8),
}

impl Size {
    fn bytes(self) -> usize {
        match self {
            Size::Small(size) => usize::from(size % 40),
            Size::About(eights, beside) => usize::from(eights % 17) * 8 + usize::from(beside.unsigned_abs() % 2),
            Size::Large(size) => usize::from(size % 1500),
            Size::Absurd(half) => isize::MAX as usize >> (half % 4),
        }
    }
}

/// Returns a layout with an alignment of 1 to 128, mostly a small one. Returns `None` for an
/// invalid layout.
fn layout(size: usize, align: u8) -> Option<Layout> {
    let shift = (align % 8).min(align / 8 % 8);
    Layout::from_size_align(size, 1 << shift).ok()
}

struct Live<P> {
    block: NonNull<u8>,
    layout: Layout,
    /// Length, which may exceed the request.
    room: usize,
    fill: u8,
    place: P,
}

impl<P> Live<P> {
    /// Returns the layout. All sizes from the requested one to the length are valid.
    fn layout(&self, all: bool) -> Layout {
        let size = if all { self.room } else { self.layout.size() };
        Layout::from_size_align(size, self.layout.align()).unwrap()
    }

    fn bytes(&self, len: usize) -> &[u8] {
        // SAFETY: allocated with at least this length, and filled.
        unsafe { NonNull::slice_from_raw_parts(self.block, len).as_ref() }
    }

    fn check(&self) {
        assert!(self.bytes(self.room).iter().all(|byte| *byte == self.fill), "somebody else wrote into the block");
    }

    fn fill(&mut self, fill: u8) {
        self.fill = fill;
        // SAFETY: allocated with this length.
        unsafe { self.block.write_bytes(fill, self.room) };
    }
}

pub struct World<'m, A, M: Model, W> {
    alloc: A,
    /// Place of a block of at least one byte, by its address.
    place: W,
    model: &'m mut M,
    live: Vec<Live<M::Place>>,
    fill: u8,
}

impl<'m, A: Allocator, M: Model, W: Fn(NonNull<u8>, Layout) -> M::Place> World<'m, A, M, W> {
    pub fn new(alloc: A, place: W, model: &'m mut M) -> Self {
        World { alloc, place, model, live: Vec::new(), fill: 0 }
    }

    /// Plays steps, with a check of everything after each. Returns their number.
    fn play(&mut self, bytes: &mut Unstructured<'_>, most: usize, check: impl Fn(&M)) -> usize {
        let mut played = 0;
        while played < most && !bytes.is_empty() {
            let Ok(step) = bytes.arbitrary::<Step>() else { break };
            self.step(step);
            self.check();
            check(self.model);
            played += 1;
        }
        played
    }

    fn nth(&self, nth: u8) -> Option<usize> {
        usize::from(nth).checked_rem(self.live.len())
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Allocate { size, align, zeroed } => {
                let Some(layout) = layout(size.bytes(), align) else { return };
                let got = if zeroed { self.alloc.allocate_zeroed(layout) } else { self.alloc.allocate(layout) };
                let place = self.model.allocate(layout);
                assert_eq!(got.is_ok(), place.is_some(), "{layout:?}, of {place:?}");
                if let (Ok(block), Some(place)) = (got, place) {
                    let zero = if zeroed { Some(0) } else { None };
                    self.take(block, layout, place, zero);
                }
            }
            Step::Deallocate { nth, all } => {
                let Some(nth) = self.nth(nth) else { return };
                let live = self.live.swap_remove(nth);
                // SAFETY: allocated, and this layout fits it.
                unsafe { self.alloc.deallocate(live.block, live.layout(all)) };
                self.model.deallocate(live.place, live.layout);
            }
            Step::Grow { nth, by, align, zeroed, all } => {
                let Some(nth) = self.nth(nth) else { return };
                let (block, place, old) = (self.live[nth].block, self.live[nth].place, self.live[nth].layout(all));
                let Some(new) = old.size().checked_add(by.bytes()).and_then(|size| layout(size, align)) else { return };
                let grown = if zeroed {
                    // SAFETY: allocated, this layout fits it, and the new one is not smaller.
                    unsafe { self.alloc.grow_zeroed(block, old, new) }
                } else {
                    // SAFETY: as above.
                    unsafe { self.alloc.grow(block, old, new) }
                };
                let to = self.model.grow(place, old, new);
                assert_eq!(grown.is_ok(), to.is_some(), "{old:?} grows to {new:?}, from {place:?} to {to:?}");
                if let (Ok(grown), Some(to)) = (grown, to) {
                    let before = self.live.swap_remove(nth);
                    self.take(grown, new, to, if zeroed { Some(old.size()) } else { None });
                    self.kept(&before, old.size());
                }
            }
            Step::Shrink { nth, to, align, all } => {
                let Some(nth) = self.nth(nth) else { return };
                let (block, place, old) = (self.live[nth].block, self.live[nth].place, self.live[nth].layout(all));
                let Some(new) = layout(usize::from(to) % (old.size() + 1), align) else { return };
                // SAFETY: allocated, this layout fits it, and the new one is not larger.
                let shrunk = unsafe { self.alloc.shrink(block, old, new) };
                let to = self.model.shrink(place, old, new);
                assert_eq!(shrunk.is_ok(), to.is_some(), "{old:?} shrinks to {new:?}, from {place:?} to {to:?}");
                if let (Ok(shrunk), Some(to)) = (shrunk, to) {
                    let before = self.live.swap_remove(nth);
                    self.take(shrunk, new, to, None);
                    self.kept(&before, new.size());
                }
            }
        }
        if let Some(newest) = self.live.last_mut() {
            self.fill = self.fill.wrapping_add(1);
            newest.fill(self.fill);
        }
    }

    /// Checks a new block, which is zero from an offset on, and stores it.
    fn take(&mut self, block: NonNull<[u8]>, layout: Layout, place: M::Place, zero: Option<usize>) {
        assert!(block.len() >= layout.size(), "{} bytes for {layout:?}", block.len());
        let live = Live { block: block.cast(), layout, room: block.len(), fill: 0, place };
        assert_eq!(live.block.addr().get() % layout.align(), 0, "{layout:?}");
        if layout.size() > 0 {
            assert_eq!((self.place)(live.block, layout), place, "{layout:?}");
        }
        if let Some(from) = zero {
            // SAFETY: all of it is initialised: the earlier content was copied, and the rest is
            // zero.
            let bytes = unsafe { NonNull::slice_from_raw_parts(live.block, layout.size()).as_ref() };
            assert!(bytes[from..].iter().all(|byte| *byte == 0), "not zero from {from} on: {layout:?}");
        }
        self.live.push(live);
    }

    /// Checks that the newest block keeps the first bytes of its earlier content.
    fn kept(&self, before: &Live<M::Place>, len: usize) {
        let newest = self.live.last().unwrap();
        assert!(newest.bytes(len).iter().all(|byte| *byte == before.fill), "the contents are lost");
    }

    fn check(&self) {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for live in &self.live {
            live.check();
            let begin = live.block.addr().get();
            if live.room > 0 {
                ranges.push((begin, begin + live.room));
            }
        }
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "blocks overlap: {ranges:x?}");
    }

    /// Frees all blocks. (If the story ends before, they are forgotten.)
    fn end(&mut self) {
        while let Some(live) = self.live.pop() {
            // SAFETY: allocated with this layout.
            unsafe { self.alloc.deallocate(live.block, live.layout) };
            self.model.deallocate(live.place, live.layout);
        }
    }
}
