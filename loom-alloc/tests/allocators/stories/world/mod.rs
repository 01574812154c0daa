//! Stories of blocks: taken, given back, grown and shrunk, beside a model of who gives which block.
//!
//! Blocks are aligned and large enough, lie apart, keep their contents, are zero where requested, and stay as they were when refused. The
//! model says besides which requests are served, and from where.

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

    /// Where a block is that grows; if it cannot, nothing has changed.
    fn grow(&mut self, place: Self::Place, old: Layout, new: Layout) -> Option<Self::Place>;

    fn shrink(&mut self, place: Self::Place, old: Layout, new: Layout) -> Option<Self::Place>;
}

/// A step, of which each number means something among what there is.
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
    /// About a multiple of eight, as the blocks of pools are.
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

/// One of 1 to 128, most of them small; and of none at all where it is no layout.
fn layout(size: usize, align: u8) -> Option<Layout> {
    let shift = (align % 8).min(align / 8 % 8);
    Layout::from_size_align(size, 1 << shift).ok()
}

struct Live<P> {
    block: NonNull<u8>,
    layout: Layout,
    /// How long it is, which may be more.
    room: usize,
    fill: u8,
    place: P,
}

impl<P> Live<P> {
    /// With any size from the one that was asked for to the one that was had, it is the same block.
    fn layout(&self, all: bool) -> Layout {
        let size = if all { self.room } else { self.layout.size() };
        Layout::from_size_align(size, self.layout.align()).unwrap()
    }

    fn bytes(&self, len: usize) -> &[u8] {
        // SAFETY: handed out with this length or more, and filled.
        unsafe { NonNull::slice_from_raw_parts(self.block, len).as_ref() }
    }

    fn check(&self) {
        assert!(self.bytes(self.room).iter().all(|byte| *byte == self.fill), "somebody else wrote into the block");
    }

    fn fill(&mut self, fill: u8) {
        self.fill = fill;
        // SAFETY: handed out with this length.
        unsafe { self.block.write_bytes(fill, self.room) };
    }
}

pub struct World<'m, A, M: Model, W> {
    alloc: A,
    /// Where a block of at least one byte is, by its address.
    place: W,
    model: &'m mut M,
    live: Vec<Live<M::Place>>,
    fill: u8,
}

impl<'m, A: Allocator, M: Model, W: Fn(NonNull<u8>, Layout) -> M::Place> World<'m, A, M, W> {
    pub fn new(alloc: A, place: W, model: &'m mut M) -> Self {
        World { alloc, place, model, live: Vec::new(), fill: 0 }
    }

    /// Plays steps, with a look at everything after each; returns how many.
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
                // SAFETY: handed out, and this layout fits it.
                unsafe { self.alloc.deallocate(live.block, live.layout(all)) };
                self.model.deallocate(live.place, live.layout);
            }
            Step::Grow { nth, by, align, zeroed, all } => {
                let Some(nth) = self.nth(nth) else { return };
                let (block, place, old) = (self.live[nth].block, self.live[nth].place, self.live[nth].layout(all));
                let Some(new) = old.size().checked_add(by.bytes()).and_then(|size| layout(size, align)) else { return };
                let grown = if zeroed {
                    // SAFETY: handed out, this layout fits it, and the new one is no smaller.
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
                // SAFETY: handed out, this layout fits it, and the new one is no larger.
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

    /// A block that was handed out, and is zero from somewhere on.
    fn take(&mut self, block: NonNull<[u8]>, layout: Layout, place: M::Place, zero: Option<usize>) {
        assert!(block.len() >= layout.size(), "{} bytes for {layout:?}", block.len());
        let live = Live { block: block.cast(), layout, room: block.len(), fill: 0, place };
        assert_eq!(live.block.addr().get() % layout.align(), 0, "{layout:?}");
        if layout.size() > 0 {
            assert_eq!((self.place)(live.block, layout), place, "{layout:?}");
        }
        if let Some(from) = zero {
            // SAFETY: all of it is initialised: what was there before is copied, the rest is zero.
            let bytes = unsafe { NonNull::slice_from_raw_parts(live.block, layout.size()).as_ref() };
            assert!(bytes[from..].iter().all(|byte| *byte == 0), "not zero from {from} on: {layout:?}");
        }
        self.live.push(live);
    }

    /// The newest block has the first bytes of what it was before.
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

    /// Everything goes back. (If the story ends without it, the blocks are forgotten.)
    fn end(&mut self) {
        while let Some(live) = self.live.pop() {
            // SAFETY: handed out with this layout.
            unsafe { self.alloc.deallocate(live.block, live.layout) };
            self.model.deallocate(live.place, live.layout);
        }
    }
}
