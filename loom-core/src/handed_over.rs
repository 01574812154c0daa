//! What one thread did before it told another, for tests under ThreadSanitizer: it reports an order that does not hand it over.

#![allow(unsafe_code, reason = "memory that is handed over by what is tested")]

use core::cell::UnsafeCell;
use core::hint::spin_loop;
use core::time::Duration;
use std::thread;
use std::time::Instant;

/// Memory that threads take turns at.
struct Turns(UnsafeCell<u64>);

// SAFETY: one thread writes before it tells the other, which looks at it afterwards.
unsafe impl Sync for Turns {}

/// A thread writes to memory and tells; another one hears that and reads.
pub(crate) fn is_seen_by_another_thread<T: Sync>(between: &T, tell: impl Fn(&T) + Send, hears: impl Fn(&T) -> bool) {
    let memory = &Turns(UnsafeCell::new(0));
    thread::scope(|scope| {
        let other = scope.spawn(move || {
            // SAFETY: the other side does not know of it yet.
            unsafe { *memory.0.get() = 42 };
            tell(between);
        });
        let deadline = Instant::now() + Duration::from_secs(60);
        while !hears(between) {
            assert!(Instant::now() < deadline, "the other thread tells within a minute");
            spin_loop();
        }
        // SAFETY: the other thread has written, and does no more.
        assert_eq!(unsafe { *memory.0.get() }, 42);
        other.join().expect("it has told");
    });
}
