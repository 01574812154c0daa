//! Buffers that count how often they are dropped.

use core::cell::RefCell;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU8;

use loom_core::buffer::{Buffer, Lent, SourceBuffer, TargetBuffer};

thread_local! {
    /// How often each buffer of this thread's ledger was dropped.
    static DROPS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// How often each buffer was dropped. A thread has one ledger at a time.
///
/// Outside of the buffers, so that they own nothing and dropping one twice is counted and corrupts nothing.
#[derive(Clone)]
pub(crate) struct Ledger(());

impl Ledger {
    pub(crate) fn new() -> Self {
        DROPS.take();
        Ledger(())
    }

    /// The next buffer, which lends `len` bytes.
    pub(crate) fn buffer(&self, len: usize) -> Counted {
        DROPS.with_borrow_mut(|drops| drops.push(0));
        Counted { id: self.made() - 1, len }
    }

    /// How many buffers there have been.
    pub(crate) fn made(&self) -> usize {
        DROPS.with_borrow(Vec::len)
    }

    pub(crate) fn drops(&self, id: usize) -> u32 {
        DROPS.with_borrow(|drops| drops[id])
    }

    /// Every buffer was dropped, and none twice.
    #[track_caller]
    pub(crate) fn assert_all_dropped_once(&self) {
        DROPS.with_borrow(|drops| assert!(drops.iter().all(|drops| *drops == 1), "drops of each buffer: {drops:?}"));
    }
}

/// A buffer that counts its drops, and lends a static.
pub(crate) struct Counted {
    pub(crate) id: usize,
    len: usize,
}

/// What all counted buffers lend: nobody reads or writes it here.
static ROOM: [AtomicU8; 64] = [const { AtomicU8::new(0) }; 64];

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "buffer {}", self.id)
    }
}

// SAFETY: a static is valid for ever, atomics may be written, and no test accesses the range.
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
