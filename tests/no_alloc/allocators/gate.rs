//! Rust global allocator, which counts the calls of a thread while that thread is watched.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

struct Gate;

#[global_allocator]
static GATE: Gate = Gate;

thread_local! {
    /// Plain numbers, so that access does not allocate.
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static HELPS: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`, and counts this thread's calls of the global allocator meanwhile, also those that
/// free.
pub fn watch<R>(f: impl FnOnce() -> R) -> (R, u64) {
    let calls = || CALLS.get() + calls_of_helpers();
    let before = calls();
    WATCHED.set(true);
    let result = f();
    WATCHED.set(false);
    (result, calls() - before)
}

/// Number of calls of threads that work for a watched one.
static OF_HELPERS: AtomicU64 = AtomicU64::new(0);

/// Returns the number of calls of helping threads.
pub fn calls_of_helpers() -> u64 {
    OF_HELPERS.load(Ordering::Relaxed)
}

/// Counts this thread's calls until it ends.
pub fn watch_this_thread() {
    HELPS.set(true);
}

fn note() {
    // A thread that ends has lost these values.
    if WATCHED.try_with(Cell::get).unwrap_or(false) {
        CALLS.set(CALLS.get() + 1);
    }
    if HELPS.try_with(Cell::get).unwrap_or(false) {
        OF_HELPERS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: the system allocator does all the work.
unsafe impl GlobalAlloc for Gate {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note();
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(block, layout) }
    }
}
