//! Allocator of loom's objects, which refuses requests while it is sealed.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use loom_core::allocator_api2::alloc::{AllocError, Allocator, Global};

/// Allocator that counts all calls and refuses requests while it is sealed.
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

    /// Runs `f` while sealed, and counts the calls.
    pub fn closed<R>(&self, f: impl FnOnce() -> R) -> (R, u64) {
        self.late.store(0, Ordering::Relaxed);
        self.sealed.store(true, Ordering::Relaxed);
        let result = f();
        self.sealed.store(false, Ordering::Relaxed);
        (result, self.late.load(Ordering::Relaxed))
    }

    /// Number of blocks that were allocated while it was open.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

// SAFETY: the blocks come from the global allocator.
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
        // SAFETY: the caller passes a block of the same allocator.
        unsafe { Global.deallocate(block, layout) }
    }
}
