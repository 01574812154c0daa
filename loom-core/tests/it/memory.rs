//! Buffers of posted operations. Each must be returned and dropped once.

use std::cell::RefCell;

use loom_core::buffer::{Buffer, IoVecs, Lent, Prefixed, SourceBuffer, TargetBuffer};

thread_local! {
    /// Number of drops of each buffer.
    static DROPS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// Room for a prefix, as large as the software transport requires.
pub const ROOM: usize = 40;

/// A buffer that counts its drops. Operations with several buffers get it cut in two.
#[derive(Debug)]
pub struct Memory {
    pub id: usize,
    whole: Prefixed<Box<[u8]>>,
    cut: usize,
}

impl Memory {
    pub fn new(bytes: &[u8]) -> Self {
        Self::in_two(bytes, bytes.len())
    }

    /// Creates a buffer in two pieces, cut at `cut`.
    pub fn in_two(bytes: &[u8], cut: usize) -> Self {
        assert!(cut <= bytes.len());
        let whole = Prefixed { buf: [&[0; ROOM], bytes].concat().into(), room: ROOM };
        DROPS.with_borrow_mut(|drops| {
            drops.push(0);
            Memory { id: drops.len() - 1, whole, cut }
        })
    }

    /// Returns the message.
    pub fn bytes(&self) -> &[u8] {
        self.whole.bytes()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        DROPS.with_borrow_mut(|drops| drops[self.id] += 1);
    }
}

// SAFETY: lends the memory of the inner buffer, which does not change, or the same in two pieces.
unsafe impl Buffer for Memory {
    fn lend(&mut self) -> Lent {
        self.whole.lend()
    }

    fn lend_pieces(&mut self, pieces: &mut IoVecs) {
        let whole = self.whole.lend();
        if self.cut == whole.len {
            return pieces.push(whole);
        }
        // SAFETY: the room before it belongs to the buffer.
        let first = unsafe { whole.ptr.sub(ROOM) };
        // SAFETY: within the memory that the buffer lends.
        let second = unsafe { whole.ptr.add(self.cut) };
        pieces.push(Lent::both(first, ROOM + self.cut).with_headroom(ROOM));
        pieces.push(Lent::both(second, whole.len - self.cut));
    }
}
impl SourceBuffer for Memory {}
impl TargetBuffer for Memory {}

/// Forgets the buffers of the previous story.
pub fn begin() {
    DROPS.take();
}

/// Number of drops of a buffer.
pub fn drops(id: usize) -> u32 {
    DROPS.with_borrow(|drops| drops[id])
}

/// Checks that each buffer of the story was dropped once.
pub fn assert_dropped_once() {
    DROPS.with_borrow(|drops| assert!(drops.iter().all(|drops| *drops == 1), "drops of each buffer: {drops:?}"));
}
