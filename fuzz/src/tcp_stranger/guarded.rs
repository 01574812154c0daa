//! Memory between guards, which peers and the transport must not change.

use core::ptr::NonNull;

use loom_core::buffer::{Buffer, IoVecs, Lent, SourceBuffer, TargetBuffer};

/// Bytes of a guard: more than the transport receives in one system call beyond a payload.
const GUARD: usize = 4500;

/// Value of all bytes.
pub const UNTOUCHED: u8 = 0xa5;

/// Buffer or region. Operations of several pieces get it in two pieces.
#[derive(Debug)]
pub struct Guarded {
    whole: Box<[u8]>,
    cut: usize,
}

impl Guarded {
    pub fn room(len: usize, cut: usize) -> Self {
        Guarded { whole: vec![UNTOUCHED; len + 2 * GUARD].into(), cut: cut.min(len) }
    }

    pub fn holding(bytes: impl ExactSizeIterator<Item = u8>, cut: usize) -> Self {
        let mut made = Self::room(bytes.len(), cut);
        made.whole[GUARD..].iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        made
    }

    pub fn len(&self) -> usize {
        self.whole.len() - 2 * GUARD
    }

    /// Returns the bytes, if the guards are unchanged.
    pub fn bytes(&self) -> &[u8] {
        let (before, rest) = self.whole.split_at(GUARD);
        let (bytes, behind) = rest.split_at(rest.len() - GUARD);
        let guards = before.iter().chain(behind);
        assert!(guards.copied().all(|byte| byte == UNTOUCHED), "bytes beside {} bytes were changed", bytes.len());
        bytes
    }
}

// SAFETY: always the same part of the box, which the value owns, in one piece or two.
unsafe impl Buffer for Guarded {
    fn lend(&mut self) -> Lent {
        let len = self.len();
        Lent::both(NonNull::from_mut(&mut self.whole[GUARD..GUARD + len]).cast(), len)
    }

    fn lend_pieces(&mut self, pieces: &mut IoVecs) {
        let whole = self.lend();
        if self.cut == whole.len {
            return pieces.push(whole);
        }
        // SAFETY: within the lent range.
        let second = unsafe { whole.ptr.add(self.cut) };
        pieces.push(Lent::both(whole.ptr, self.cut));
        pieces.push(Lent::both(second, whole.len - self.cut));
    }
}
impl SourceBuffer for Guarded {}
impl TargetBuffer for Guarded {}
