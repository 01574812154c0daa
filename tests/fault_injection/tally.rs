//! Allocations of this thread that are not freed, which reveal a lost buffer.

#![allow(unsafe_code, reason = "a global allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

pub(crate) struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

/// Number of this thread's allocations that are not freed.
pub(crate) fn live() -> isize {
    LIVE.get()
}

fn count(by: isize) {
    // The thread may be ending.
    let _ = LIVE.try_with(|live| live.set(live.get() + by));
}

// SAFETY: the system's allocator. The counter does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count(-1);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { System.realloc(ptr, layout, size) }
    }
}
