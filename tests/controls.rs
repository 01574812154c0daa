//! Controls of the sanitizers: each plants the fault that a sanitizer must see. `.ci/run` runs them with `--ignored` under
//! the sanitizer, and fails if nothing is reported. They are not run otherwise.

#![allow(unsafe_code, reason = "plants faults on purpose")]

use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};

/// For AddressSanitizer: memory is read after it was freed.
#[test]
#[ignore = "a planted use after free, for AddressSanitizer"]
fn plants_a_use_after_free() {
    let freed = Box::into_raw(Box::new([0u8; 64]));
    // SAFETY: made by `Box::into_raw`.
    drop(unsafe { Box::from_raw(freed) });
    // SAFETY: none. That is the point.
    black_box(unsafe { freed.cast::<u8>().read() });
}

struct Shared(UnsafeCell<u64>);
// SAFETY: none. That is the point.
unsafe impl Sync for Shared {}

/// For ThreadSanitizer: two threads write one word without any order.
#[test]
#[ignore = "a planted data race, for ThreadSanitizer"]
fn plants_a_data_race() {
    static WORD: Shared = Shared(UnsafeCell::new(0));
    // Relaxed: both are there, and nothing is ordered by it.
    static THERE: AtomicU32 = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                THERE.fetch_add(1, Ordering::Relaxed);
                while THERE.load(Ordering::Relaxed) < 2 {
                    std::thread::yield_now();
                }
                for round in 0..1_000_000 {
                    // SAFETY: none. That is the point.
                    unsafe { *black_box(WORD.0.get()) = round };
                }
            });
        }
    });
}
