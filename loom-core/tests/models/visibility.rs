//! Visibility of one thread's writes to a notified thread, for tests under ThreadSanitizer.

#![allow(unsafe_code, reason = "memory that is handed over by what is tested")]

use core::cell::UnsafeCell;
use core::hint::spin_loop;
use core::time::Duration;
use std::thread;
use std::time::Instant;

struct Turns(UnsafeCell<u64>);

// SAFETY: one thread writes before it notifies the other, which reads afterwards.
unsafe impl Sync for Turns {}

pub(crate) fn is_seen_by_another_thread<T: Sync>(between: &T, write: impl Fn(&T) + Send, sees: impl Fn(&T) -> bool) {
    let memory = &Turns(UnsafeCell::new(0));
    thread::scope(|scope| {
        let other = scope.spawn(move || {
            // SAFETY: the other thread accesses the memory only after it is notified.
            unsafe { *memory.0.get() = 42 };
            write(between);
        });
        let deadline = Instant::now() + Duration::from_secs(60);
        while !sees(between) {
            assert!(Instant::now() < deadline, "the other thread writes within a minute");
            spin_loop();
        }
        // SAFETY: the other thread has written, and does not write again.
        assert_eq!(unsafe { *memory.0.get() }, 42);
        other.join().expect("it has written");
    });
}
