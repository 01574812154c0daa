//! [`Piece`]: a message in the buffer of a multi-receive.

#![allow(unsafe_code, reason = "keeps the queue whose table a piece refers to")]

use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;

use super::Cq;
use crate::buffer::Buffer;
use crate::engine::op_table::{self, OpKey};
use crate::handle::{Erased, Head};
use crate::transport::Transport;

/// A message in the buffer of a multi-receive.
///
/// It has a [key](op_table::Piece::key), [bytes](op_table::Piece::bytes), and [what became of it](op_table::Piece::result). The buffer comes
/// back when the provider has released it and every piece of it was dropped.
///
/// It is a handle of its queue. Forgetting one is safe: the buffer then stays in its queue, which stays open.
#[must_use = "it holds a message"]
pub struct Piece<'m, B> {
    piece: ManuallyDrop<op_table::Piece<'m, B>>,
    queue: ManuallyDrop<Erased>,
}

impl<B> Drop for Piece<'_, B> {
    // Always, and with what it takes by value: where a completion is never a piece its address is then not map_refusal, and most of it
    // never written to memory.
    #[inline(always)]
    fn drop(&mut self) {
        /// # Safety
        /// The piece is one of the table, in the queue of which the handle is given up.
        #[cold]
        #[inline(never)]
        unsafe fn give_back<B>((table, key): (NonNull<op_table::OpTable<B>>, OpKey), queue: NonNull<Head>) {
            // SAFETY: the caller's promise.
            let queue = unsafe { Erased::from_raw(queue) };
            // SAFETY: in the queue's block.
            unsafe { table.as_ref() }.give_back(key);
            drop(queue);
        }
        // SAFETY: its own, and neither is used after this.
        unsafe { give_back(self.piece.place(), self.queue.as_raw()) };
    }
}

impl<'m, T: Transport, B: Buffer> Cq<'m, T, B> {
    /// A piece with the queue that it is of.
    #[cold]
    #[inline(never)]
    pub(super) fn piece(&self, piece: op_table::Piece<'_, B>) -> Piece<'m, B> {
        // SAFETY: its table is the queue's, which is open as long as there is a handle.
        let piece = unsafe { piece.extended() };
        Piece { piece: ManuallyDrop::new(piece), queue: ManuallyDrop::new(self.body.erased()) }
    }
}

impl<'m, B> Deref for Piece<'m, B> {
    type Target = op_table::Piece<'m, B>;

    fn deref(&self) -> &Self::Target {
        &self.piece
    }
}

impl<B> fmt::Debug for Piece<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
