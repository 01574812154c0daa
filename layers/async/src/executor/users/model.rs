//! The thread that removes the last user sees the writes of others, and is alone.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::*;

struct Block {
    users: Users,
    used: [UnsafeCell<u32>; 2],
    freed: AtomicU32,
}

// SAFETY: each thread writes its own cell. The freeing thread reads both, which the checker
// verifies.
#[allow(unsafe_code, reason = "as said")]
unsafe impl Sync for Block {}

#[allow(unsafe_code, reason = "cells that the checker watches")]
fn use_and_drop(block: &Block, thread: usize, remove: fn(&Users) -> bool) {
    // SAFETY: this thread's own cell.
    block.used[thread].with_mut(|used| unsafe { *used = 1 });
    if remove(&block.users) {
        for used in &block.used {
            // SAFETY: the checker fails on a read that is not ordered after the write.
            assert_eq!(used.with(|used| unsafe { *used }), 1);
        }
        block.freed.fetch_add(1, Ordering::Relaxed);
    }
}

fn model(remove: fn(&Users) -> bool) {
    loom::model(move || {
        let used = [UnsafeCell::new(0), UnsafeCell::new(0)];
        let block = Arc::new(Block { users: Users::one(), used, freed: AtomicU32::new(0) });
        block.users.add();
        let other = thread::spawn({
            let block = block.clone();
            move || {
                block.users.add();
                assert!(!block.users.remove(), "there is another");
                use_and_drop(&block, 1, remove);
            }
        });
        use_and_drop(&block, 0, remove);
        assert!(other.join().is_ok());
        assert_eq!(block.freed.load(Ordering::Relaxed), 1, "it is freed once");
    });
}

#[test]
fn model_last_user_frees_alone_and_sees_writes_of_others() {
    model(Users::remove);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn model_control_a_count_without_release() {
    model(|users| users.0.fetch_sub(1, Ordering::Relaxed) == 1 && users.0.load(Ordering::Acquire) == 0);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn model_control_a_count_without_acquire() {
    model(|users| users.0.fetch_sub(1, Ordering::Release) == 1);
}
