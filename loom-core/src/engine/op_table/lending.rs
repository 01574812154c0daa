#![allow(unsafe_code, reason = "buffers in slots: rules 1, 2 and 5")]

use super::{ContextKind, Kind, OpKey, OpTable, Phase, Slot};
use crate::buffer::{Buffer, IoVecs, Lent};
use crate::error::{PostError, Rejected};
use crate::transport::Context;
use crate::util::on_drop::OnDrop;

/// Buffer lent from its slot. If its submission is refused, [take it back](OpTable::take_back).
#[must_use]
pub(crate) struct Lending<'t, B, L = Lent> {
    pub(crate) lent: L,
    pub(crate) context: Context,
    pub(crate) slot: &'t Slot<B>,
}

impl<B: Buffer> OpTable<B> {
    /// Moves `buf` into a slot, lends it, and passes the lent memory to `submit`.
    ///
    /// # Errors
    /// [`PostError::Full`] or [`PostError::Kept`] if no slot is free, or the error of `submit`,
    /// with the buffer.
    pub fn post(
        &self,
        endpoint: u16,
        kind: Kind,
        buf: B,
        submit: impl FnOnce(&Lent, Context) -> Result<(), PostError>,
    ) -> Result<OpKey, Rejected<B>> {
        let Lending { lent, context, slot } = self.lend(endpoint, kind, buf)?;
        match submit(&lent, context) {
            Ok(()) => Ok(slot.key()),
            Err(error) => Err(Rejected { value: self.take_back(slot), error }),
        }
    }

    #[inline(always)]
    pub(crate) fn lend(&self, endpoint: u16, kind: Kind, buf: B) -> Result<Lending<'_, B>, Rejected<B>> {
        let lending = self.fill_slot(endpoint, kind, buf, B::lend)?;
        let Lending { lent, slot, .. } = &lending;
        slot.lent.set(lent.len);
        if kind == Kind::MultiReceive {
            slot.begin_filling(lent.ptr);
        }
        Ok(lending)
    }

    /// [`lend`](Self::lend) for a buffer that may lend several ranges.
    pub(crate) fn lend_pieces(&self, endpoint: u16, kind: Kind, buf: B) -> Result<Lending<'_, B, IoVecs>, Rejected<B>> {
        let lending = self.fill_slot(endpoint, kind, buf, |buf| {
            let mut pieces = IoVecs::default();
            buf.lend_pieces(&mut pieces);
            pieces
        })?;
        lending.slot.lent.set(lending.lent.total().unwrap_or(usize::MAX));
        Ok(lending)
    }

    #[inline(always)]
    fn fill_slot<L>(
        &self,
        endpoint: u16,
        kind: Kind,
        buf: B,
        lend: impl FnOnce(&mut B) -> L,
    ) -> Result<Lending<'_, B, L>, Rejected<B>> {
        let Some((key, slot)) = self.reserve() else {
            return Err(Rejected { value: buf, error: self.no_slot() });
        };
        let unwound = OnDrop(|| drop(self.take_back(slot)));
        // SAFETY: rule 2: `reserve` gave the slot to this call. If `lend` unwinds, the buffer is
        // taken back.
        let lent = unsafe { slot.fill(buf, lend) };
        core::mem::forget(unwound);
        slot.endpoint.set(endpoint);
        slot.kind.set(kind);
        slot.phase.set(Phase::Posted);
        Ok(Lending { lent, context: self.context(slot, key), slot })
    }
}

impl<B> OpTable<B> {
    pub(crate) fn take_back(&self, slot: &Slot<B>) -> B {
        self.make_room();
        // SAFETY: rule 2: `fill_slot` wrote the buffer, and no transport has it.
        let buf = unsafe { slot.empty() };
        self.release(slot.key.get().index(), slot);
        buf
    }

    #[inline]
    pub(super) fn context(&self, slot: &Slot<B>, key: OpKey) -> Context {
        match self.contexts {
            ContextKind::Word => Context::word(key.word()),
            ContextKind::Space => Context::space(slot.space()),
        }
    }

    /// The slot is then `Held` and has a new generation.
    #[inline(always)]
    pub(super) fn reserve(&self) -> Option<(OpKey, &Slot<B>)> {
        // Rule 5 counts the operation from here on, because `lend` may post.
        let (room, full) = self.room.get().overflowing_sub(1);
        self.room.set(room);
        if full {
            self.room.set(0);
            return None;
        }
        let free = self.free.get();
        let slot = match self.slot(free) {
            Some(slot) => {
                self.free.set(slot.links.next.get());
                slot
            }
            None => self.reclaim_orphan().or_else(|| {
                self.make_room();
                None
            })?,
        };
        let key = slot.key.get().next();
        slot.key.set(key);
        slot.phase.set(Phase::Held);
        Some((key, slot))
    }

    /// Returns the reason for a failed [`reserve`](Self::reserve): `Full` if further events may
    /// free a slot, `Kept` if only the user can.
    #[cold]
    #[inline(never)]
    pub(super) fn no_slot(&self) -> PostError {
        let events_may_free_one = self.room.get() == 0 || self.orphans.first().is_some();
        if events_may_free_one { PostError::Full } else { PostError::Kept }
    }

    #[inline]
    pub(super) fn make_room(&self) {
        self.room.set(self.room.get() + 1);
    }

    pub(super) fn give_up(&self, index: u32, slot: &Slot<B>) {
        self.make_room();
        self.release(index, slot);
    }

    #[inline]
    pub(super) fn release(&self, index: u32, slot: &Slot<B>) {
        slot.phase.set(Phase::Free);
        slot.links.next.set(self.free.get());
        self.free.set(index);
    }
}

impl<B> Slot<B> {
    /// # Safety
    /// Rule 2: the slot is `Held`, so only the caller refers to its buffer.
    #[inline]
    pub(super) unsafe fn fill<L>(&self, buf: B, lend: impl FnOnce(&mut B) -> L) -> L {
        // SAFETY: the caller guarantees that no other reference to the buffer exists.
        let cell = unsafe { &mut *self.buffer.get() };
        // Rule 1: the pointer is taken from the buffer in its slot.
        lend(cell.write(buf))
    }
}
