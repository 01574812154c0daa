//! The buffers that are posted: each has to come back, and be dropped, once.

use core::ptr::NonNull;
use std::cell::RefCell;

use loom_core::buffer::{Buffer, Lent, SourceBuffer, TargetBuffer};

thread_local! {
    /// How often each buffer was dropped.
    static DROPS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// A buffer that counts its drops.
#[derive(Debug)]
pub struct Memory {
    pub id: usize,
    pub bytes: Box<[u8]>,
}

impl Memory {
    pub fn new(bytes: Vec<u8>) -> Self {
        DROPS.with_borrow_mut(|drops| {
            drops.push(0);
            Memory { id: drops.len() - 1, bytes: bytes.into() }
        })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        DROPS.with_borrow_mut(|drops| drops[self.id] += 1);
    }
}

// SAFETY: the box owns its bytes, and their address does not depend on where the value is.
unsafe impl Buffer for Memory {
    fn lend(&mut self) -> Lent {
        Lent::both(NonNull::from_mut(&mut *self.bytes).cast(), self.bytes.len())
    }
}
impl SourceBuffer for Memory {}
impl TargetBuffer for Memory {}

/// Forgets the buffers of the story before.
pub fn begin() {
    DROPS.take();
}

/// Every buffer of the story has been dropped, and only once.
pub fn assert_dropped_once() {
    DROPS.with_borrow(|drops| assert!(drops.iter().all(|drops| *drops == 1), "drops of each buffer: {drops:?}"));
}
