//! The buffers that are posted: each has to come back, and be dropped, once.

use std::cell::RefCell;

use loom_core::buffer::{Buffer, Lent, Prefixed, SourceBuffer, TargetBuffer};

thread_local! {
    /// How often each buffer was dropped.
    static DROPS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// Room for a prefix: what the software transport asks for, if it does.
const ROOM: usize = 40;

/// A buffer that counts its drops.
#[derive(Debug)]
pub struct Memory {
    pub id: usize,
    whole: Prefixed<Box<[u8]>>,
}

impl Memory {
    pub fn new(bytes: &[u8]) -> Self {
        let whole = Prefixed::new([&[0; ROOM], bytes].concat().into(), ROOM);
        DROPS.with_borrow_mut(|drops| {
            drops.push(0);
            Memory { id: drops.len() - 1, whole }
        })
    }

    /// The message.
    pub fn bytes(&self) -> &[u8] {
        self.whole.bytes()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        DROPS.with_borrow_mut(|drops| drops[self.id] += 1);
    }
}

// SAFETY: what the inner buffer lends, which does not change.
unsafe impl Buffer for Memory {
    fn lend(&mut self) -> Lent {
        self.whole.lend()
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
