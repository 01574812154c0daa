//! The allocator that objects are opened with, which refuses while it is sealed.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use loom_core::allocator_api2::alloc::{AllocError, Allocator, Global};

/// While it is sealed, whatever it is asked is counted, and what it is asked for is refused.
#[derive(Debug)]
pub struct Seal {
    sealed: AtomicBool,
    taken: AtomicU64,
    late: AtomicU64,
}

impl Seal {
    pub const fn new() -> Self {
        Seal { sealed: AtomicBool::new(false), taken: AtomicU64::new(0), late: AtomicU64::new(0) }
    }

    /// Runs `f` while sealed, and counts how often it is asked.
    pub fn closed<R>(&self, f: impl FnOnce() -> R) -> (R, u64) {
        self.late.store(0, Ordering::Relaxed);
        self.sealed.store(true, Ordering::Relaxed);
        let result = f();
        self.sealed.store(false, Ordering::Relaxed);
        (result, self.late.load(Ordering::Relaxed))
    }

    /// How many blocks were taken while it was open.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

// SAFETY: the blocks are the global allocator's.
unsafe impl Allocator for &Seal {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if self.sealed.load(Ordering::Relaxed) {
            self.late.fetch_add(1, Ordering::Relaxed);
            return Err(AllocError);
        }
        self.taken.fetch_add(1, Ordering::Relaxed);
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if self.sealed.load(Ordering::Relaxed) {
            self.late.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: taken from the same allocator (the caller's promise).
        unsafe { Global.deallocate(block, layout) }
    }
}
