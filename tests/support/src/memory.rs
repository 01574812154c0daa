//! Allocator of the behaviours' objects: the global one, or another that a run has placed.

use std::cell::Cell;

use loom_core::allocator_api2::alloc::{Allocator, Global};

/// An allocator of any type, for any thread.
pub type Memory = &'static (dyn Allocator + Send + Sync);

thread_local! {
    static PLACED: Cell<Memory> = const { Cell::new(&Global) };
}

/// Allocator of this thread's objects.
pub fn allocator() -> Memory {
    PLACED.get()
}

/// Runs `f` with another allocator for this thread's objects.
pub fn place(memory: Memory, f: impl FnOnce()) {
    /// Guard that restores it, also when `f` panics.
    struct Back(Memory);
    impl Drop for Back {
        fn drop(&mut self) {
            PLACED.set(self.0);
        }
    }
    let _back = Back(PLACED.replace(memory));
    f();
}
