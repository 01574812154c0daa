//! Memory at a fixed address, and buffers anywhere in it.

use std::ptr::NonNull;

use loom_core::buffer::{Buffer, Lent, SourceBuffer, TargetBuffer};

pub(crate) const PAGE: usize = 4096;

/// Pages of bytes.
pub(crate) struct Memory {
    bytes: Vec<u8>,
    first: usize,
    pages: usize,
}

impl Memory {
    pub(crate) fn new(pages: usize) -> Self {
        let bytes = vec![0; (pages + 1) * PAGE];
        let first = bytes.as_ptr().addr().next_multiple_of(PAGE) - bytes.as_ptr().addr();
        Memory { bytes, first, pages }
    }

    pub(crate) fn len(&self) -> usize {
        self.pages * PAGE
    }

    /// Address of a byte.
    pub(crate) fn addr(&self, at: usize) -> usize {
        self.bytes.as_ptr().addr() + self.first + at
    }

    /// Returns a buffer. Buffers may overlap while only one is used at a time.
    pub(crate) fn part(&mut self, at: usize, len: usize, use_: Use) -> Part {
        assert!(at + len <= self.len(), "within the memory");
        let ptr = NonNull::new(self.bytes.as_mut_ptr().wrapping_add(self.first + at)).unwrap();
        Part { ptr, len, headroom: 0, use_ }
    }
}

/// Access that a buffer lends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Write,
    Both,
}

/// Part of the memory.
#[derive(Debug)]
pub(crate) struct Part {
    ptr: NonNull<u8>,
    len: usize,
    headroom: usize,
    use_: Use,
}

impl Part {
    /// Reserves the first bytes for a prefix.
    pub(crate) fn with_headroom(mut self, bytes: usize) -> Self {
        self.headroom = bytes;
        self
    }

    pub(crate) fn addr(&self) -> usize {
        self.ptr.addr().get()
    }

    /// Bytes of the message.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let lent = Part { ptr: self.ptr, len: self.len, headroom: self.headroom, use_: self.use_ }.lend();
        // SAFETY: initialised memory, and no buffer is in use.
        unsafe { NonNull::slice_from_raw_parts(lent.ptr, lent.len).as_ref() }.to_vec()
    }

    pub(crate) fn fill(&self, byte: u8) {
        // SAFETY: as above.
        unsafe { self.ptr.write_bytes(byte, self.len) };
    }
}

// SAFETY: the memory outlives the world. One buffer is posted at a time, and its bytes are not
// accessed meanwhile.
unsafe impl Buffer for Part {
    fn lend(&mut self) -> Lent {
        let lent = match self.use_ {
            Use::Read => Lent::source(self.ptr, self.len),
            Use::Write => Lent::target(self.ptr, self.len),
            Use::Both => Lent::both(self.ptr, self.len),
        };
        lent.with_headroom(self.headroom)
    }
}
impl SourceBuffer for Part {}
impl TargetBuffer for Part {}
