//! The lock-free parts under the model checker `loom`: every interleaving, and every value that a load may see.
//!
//! ```text
//! RUSTFLAGS="--cfg loom_model" cargo test -p loom-fabric-core --lib model --release
//! ```
//!
//! What the atomics protect (cells' contents, senders' buffers, regions' memory) is plain memory that the checker does
//! not see. Each model therefore has shadows of it: `Plain` values which are read and written where the transport reads
//! and writes the real thing, and which fail the model if two threads are at one of them without an order between them.
//!
//! Each file ends with controls: the same models with an order or a step taken away. Each must fail, or the models prove
//! nothing.

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

use super::list::{Inbox, NIL};
use crate::sync::{AtomicU32, Ordering};

/// Plain memory, whose accesses are checked for an order between them.
struct Plain(UnsafeCell<u32>);

// SAFETY: it is what the models are about, and the checker fails on two accesses without order.
unsafe impl Sync for Plain {}
// SAFETY: as above.
unsafe impl Send for Plain {}

impl Plain {
    fn new(value: u32) -> Self {
        Plain(UnsafeCell::new(value))
    }

    fn read(&self) -> u32 {
        // SAFETY: the checker fails the model if somebody writes.
        self.0.with(|value| unsafe { *value })
    }

    fn write(&self, new: u32) {
        // SAFETY: the checker fails the model if somebody else is there.
        self.0.with_mut(|value| unsafe { *value = new });
    }
}

/// Links of cells, and what the cells carry.
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

    /// The cells of a list that was taken, in its order.
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

/// An inbox that is open for its first endpoint.
fn open_inbox() -> (Inbox, u32) {
    let inbox = Inbox::new();
    let generation = inbox.open();
    (inbox, generation)
}
