//! The Rust global allocator, which counts what a thread asks of it while that thread is watched.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Gate;

#[global_allocator]
static GATE: Gate = Gate;

thread_local! {
    /// Plain numbers: reaching them allocates nothing.
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// Runs `f`, and counts how often this thread asks the global allocator for anything meanwhile; freeing counts too.
pub fn watch<R>(f: impl FnOnce() -> R) -> (R, u64) {
    let before = CALLS.get();
    WATCHED.set(true);
    let result = f();
    WATCHED.set(false);
    (result, CALLS.get() - before)
}

fn note() {
    // A thread that ends has no such values any more; it is not watched then.
    if WATCHED.try_with(Cell::get).unwrap_or(false) {
        CALLS.set(CALLS.get() + 1);
    }
}

// SAFETY: everything is the system allocator's.
unsafe impl GlobalAlloc for Gate {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note();
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
}
