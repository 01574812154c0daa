//! The global allocator, which counts what the runtime's thread asks of it after the start.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Heap;

#[global_allocator]
static HEAP: Heap = Heap;

thread_local! {
    /// How many calls there were since this thread is watched. Reaching a plain number allocates nothing.
    static CALLS: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Runs `f`, and counts how often this thread asks for memory or gives some back meanwhile.
pub(crate) fn watched<R>(f: impl FnOnce() -> R) -> (R, u64) {
    CALLS.set(Some(0));
    let result = f();
    (result, CALLS.take().unwrap_or(0))
}

fn note() {
    // A thread that ends has no such number any more.
    let _ = CALLS.try_with(|calls| calls.set(calls.get().map(|calls| calls + 1)));
}

// SAFETY: everything is the system allocator's.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note();
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allocated_is_counted() {
        let (_, calls) = watched(|| drop(Box::new([1_u8; 100])));
        assert!(calls == 2 || cfg!(not(debug_assertions)), "taken and given back");
        assert_eq!(watched(|| 1 + 1), (2, 0));
    }
}
