//! The allocator that objects are opened with, which refuses while it is sealed.

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::NonNull;

use loom_core::allocator_api2::alloc::{AllocError, Allocator, Global};

/// While it is sealed, whatever it is asked is counted, and what it is asked for is refused.
#[derive(Debug)]
pub struct Seal {
    sealed: Cell<bool>,
    taken: Cell<u64>,
    late: Cell<u64>,
}

impl Seal {
    pub const fn new() -> Self {
        Seal { sealed: Cell::new(false), taken: Cell::new(0), late: Cell::new(0) }
    }

    /// Runs `f` while sealed, and counts how often it is asked.
    pub fn closed<R>(&self, f: impl FnOnce() -> R) -> (R, u64) {
        self.late.set(0);
        self.sealed.set(true);
        let result = f();
        self.sealed.set(false);
        (result, self.late.get())
    }

    /// How many blocks were taken while it was open.
    pub fn taken(&self) -> u64 {
        self.taken.get()
    }
}

// SAFETY: the blocks are the global allocator's.
unsafe impl Allocator for &Seal {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if self.sealed.get() {
            self.late.set(self.late.get() + 1);
            return Err(AllocError);
        }
        self.taken.set(self.taken.get() + 1);
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if self.sealed.get() {
            self.late.set(self.late.get() + 1);
        }
        // SAFETY: taken from the same allocator (the caller's promise).
        unsafe { Global.deallocate(block, layout) }
    }
}
