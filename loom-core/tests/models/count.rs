//! Handle counts under the model checker: the thread that gives up the last handle of an object
//! ends it alone, and sees all earlier accesses.
//!
//! The count protects plain memory that the checker watches ([`UnsafeCell`]). Controls stand at the
//! end.

#![allow(unsafe_code, clippy::unwrap_used, reason = "tests: they use `std`, and fail by panicking")]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::SharedCount;
use crate::util::sync::{AtomicU32, Ordering};

struct Object {
    handles: SharedCount,
    done: [UnsafeCell<u32>; 2],
    ended: AtomicU32,
}

// SAFETY: each thread writes its own cell. Only the thread that ends the object reads both, which
// is the property under test.
unsafe impl Sync for Object {}
// SAFETY: each thread writes its own cell. Only the thread that ends the object reads both, which
// is the property under test.
unsafe impl Send for Object {}

impl Object {
    fn new() -> Arc<Self> {
        let done = [UnsafeCell::new(0), UnsafeCell::new(0)];
        Arc::new(Object { handles: SharedCount::one(), done, ended: AtomicU32::new(0) })
    }

    fn use_and_drop(&self, thread: usize, remove: fn(&SharedCount) -> bool) {
        // SAFETY: only thread `thread` writes this cell.
        self.done[thread].with_mut(|done| unsafe { *done = 1 });
        if remove(&self.handles) {
            for done in &self.done {
                // SAFETY: the checker fails if this read is not ordered after the write.
                let done = done.with(|done| unsafe { *done });
                assert_eq!(done, 1);
            }
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn model(add: fn(&SharedCount), remove: fn(&SharedCount) -> bool) {
    loom::model(move || {
        let object = Object::new();
        add(&object.handles);
        let other = thread::spawn({
            let object = object.clone();
            move || object.use_and_drop(1, remove)
        });
        object.use_and_drop(0, remove);
        other.join().unwrap();
        assert_eq!(object.ended.load(Ordering::Relaxed), 1, "it ends once");
    });
}

fn add(count: &SharedCount) {
    count.add(false);
}

fn remove(count: &SharedCount) -> bool {
    count.remove(false)
}

#[test]
fn the_last_handle_ends_its_object_alone() {
    model(add, remove);
}

#[test]
fn handles_are_made_of_others_while_these_go() {
    loom::model(|| {
        let object = Object::new();
        add(&object.handles);
        let other = thread::spawn({
            let object = object.clone();
            move || {
                add(&object.handles);
                assert!(!remove(&object.handles), "there is another");
                object.use_and_drop(1, remove);
            }
        });
        object.use_and_drop(0, remove);
        other.join().unwrap();
        assert_eq!(object.ended.load(Ordering::Relaxed), 1, "it ends once");
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn control_a_count_without_release() {
    model(add, |count| {
        let last = count.0.fetch_sub(1, Ordering::Relaxed) == 1;
        last && count.0.load(Ordering::Acquire) == 0
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn control_a_count_without_acquire() {
    model(add, |count| {
        let last = count.0.fetch_sub(1, Ordering::Release) == 1;
        last && count.0.load(Ordering::Relaxed) == 0
    });
}

#[test]
#[should_panic(expected = "it ends once")]
fn control_a_count_that_is_not_atomic() {
    model(add, |count| count.remove(true));
}
