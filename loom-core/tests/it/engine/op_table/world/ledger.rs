//! Buffers that count their drops.

use core::cell::RefCell;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU8;

use loom_core::buffer::{Buffer, Lent, SourceBuffer, TargetBuffer};

thread_local! {
    /// Number of drops of each buffer of this thread's ledger.
    static DROPS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// Number of drops of each buffer. A thread has one ledger at a time.
///
/// The counts lie outside of the buffers. A second drop is then counted and does not corrupt
/// memory.
#[derive(Clone)]
pub(crate) struct Ledger(());

impl Ledger {
    pub(crate) fn new() -> Self {
        DROPS.take();
        Ledger(())
    }

    /// Returns the next buffer, which lends `len` bytes.
    pub(crate) fn buffer(&self, len: usize) -> Counted {
        DROPS.with_borrow_mut(|drops| drops.push(0));
        Counted { id: self.made() - 1, len }
    }

    /// Number of buffers made.
    pub(crate) fn made(&self) -> usize {
        DROPS.with_borrow(Vec::len)
    }

    pub(crate) fn drops(&self, id: usize) -> u32 {
        DROPS.with_borrow(|drops| drops[id])
    }

    /// Checks that each buffer was dropped once.
    #[track_caller]
    pub(crate) fn assert_all_dropped_once(&self) {
        DROPS.with_borrow(|drops| assert!(drops.iter().all(|drops| *drops == 1), "drops of each buffer: {drops:?}"));
    }
}

/// A buffer that counts its drops and lends a static.
pub(crate) struct Counted {
    pub(crate) id: usize,
    len: usize,
}

/// Memory lent by all counted buffers. Tests do not access it.
static ROOM: [AtomicU8; 64] = [const { AtomicU8::new(0) }; 64];

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "buffer {}", self.id)
    }
}

// SAFETY: a static is always valid, atomics can be written, and no test accesses the range.
unsafe impl Buffer for Counted {
    fn lend(&mut self) -> Lent {
        assert!(self.len <= ROOM.len());
        Lent::both(NonNull::from_ref(&ROOM).cast(), self.len)
    }
}
impl SourceBuffer for Counted {}
impl TargetBuffer for Counted {}

impl Drop for Counted {
    fn drop(&mut self) {
        DROPS.with_borrow_mut(|drops| drops[self.id] += 1);
    }
}
