//! Global allocator that counts the calls of a watched thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Heap;

#[global_allocator]
static HEAP: Heap = Heap;

thread_local! {
    static CALLS: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Returns the result of `f`, and its calls of the allocator on this thread.
pub(crate) fn watched<R>(f: impl FnOnce() -> R) -> (R, u64) {
    CALLS.set(Some(0));
    let result = f();
    (result, CALLS.take().unwrap_or(0))
}

fn count() {
    // The cell is gone while the thread ends.
    let _ = CALLS.try_with(|calls| calls.set(calls.get().map(|calls| calls + 1)));
}

// SAFETY: the memory is that of the system's allocator.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.dealloc(block, layout) }
    }
}
