//! Models of the lock-free parts for the model checker `loom`: every interleaving, and every value
//! that a load may return.
//!
//! ```text
//! RUSTFLAGS="--cfg loom_model" cargo test -p loom-fabric-core --lib model --release
//! ```
//!
//! The checker does not see the memory that the atomics protect (cells' contents, senders' buffers,
//! regions' memory). Each model has shadows of it: `Plain` values that are read and written with
//! the real memory. The model fails on unordered accesses of two threads.

#![allow(unsafe_code, clippy::unwrap_used, reason = "tests: they use `std`, and fail by panicking")]

mod cell;
mod group;
mod lane;
mod list;
mod peer_counts;
mod region;
mod revocations;
mod sleeper;

use std::vec;
use std::vec::Vec;

use loom::cell::UnsafeCell;

use super::shared::list::{Inbox, NIL};
use crate::util::sync::{AtomicU32, Ordering};

struct Plain(UnsafeCell<u32>);

// SAFETY: the models test these accesses, and the checker fails on two accesses without order.
unsafe impl Sync for Plain {}
// SAFETY: the models test these accesses, and the checker fails on two accesses without order.
unsafe impl Send for Plain {}

impl Plain {
    fn new(value: u32) -> Self {
        Plain(UnsafeCell::new(value))
    }

    fn read(&self) -> u32 {
        // SAFETY: the checker fails the model on a concurrent write.
        self.0.with(|value| unsafe { *value })
    }

    fn write(&self, new: u32) {
        // SAFETY: the checker fails the model on a concurrent access.
        self.0.with_mut(|value| unsafe { *value = new });
    }
}

struct Cells {
    links: Vec<AtomicU32>,
    carried: Vec<Plain>,
}

impl Cells {
    fn new(count: u32) -> Self {
        Cells {
            links: (0..count).map(|_| AtomicU32::new(0)).collect(),
            carried: (0..count).map(|_| Plain::new(0)).collect(),
        }
    }

    fn carried(&self, cell: u32) -> &Plain {
        &self.carried[cell as usize]
    }

    fn follow(&self, mut cell: u32) -> Vec<u32> {
        let mut cells = vec![];
        while cell != NIL {
            cells.push(cell);
            assert!(cells.len() <= self.links.len(), "a list without end");
            cell = self.link(cell).load(Ordering::Relaxed);
        }
        cells
    }

    fn link(&self, cell: u32) -> &AtomicU32 {
        &self.links[cell as usize]
    }
}

fn open_inbox() -> (Inbox, u32) {
    let inbox = Inbox::new();
    let generation = inbox.open();
    (inbox, generation)
}
