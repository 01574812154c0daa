//! Posting: a buffer moves into a slot, is lent there, and its operation is submitted.

#![allow(unsafe_code, reason = "buffers in slots: rules 1, 2 and 5")]

use core::mem::ManuallyDrop;

use super::slot::Cancelled;
use super::{ContextKind, Kind, OpKey, OpTable, Phase, Slot};
use crate::buffer::{Buffer, IoVecs, Lent};
use crate::error::{PostError, Rejected};
use crate::transport::Context;

/// If its submission is refused, [take it back](OpTable::take_back).
#[must_use]
pub(crate) struct Lending<'t, B, L = Lent> {
    pub(crate) lent: L,
    pub(crate) context: Context,
    pub(crate) slot: &'t Slot<B>,
}

impl<B> OpTable<B> {
    /// Moves `buf` into a slot, lends it, and passes the lent memory to `submit`.
    ///
    /// # Errors
    /// [`PostError::Full`] or [`PostError::Kept`] if no slot is free, or the error of `submit`,
    /// with the buffer.
    #[inline]
    pub fn post(
        &self,
        endpoint: u16,
        kind: Kind,
        buf: B,
        submit: impl FnOnce(&Lent, Context) -> Result<(), PostError>,
    ) -> Result<OpKey, Rejected<B>>
    where
        B: Buffer,
    {
        let lending = self.lend(endpoint, kind, buf)?;
        let submitted = submit(&lending.lent, lending.context);
        self.settle(lending.slot, submitted)
    }

    /// Posts a buffer that may lend several ranges, like [`post`](Self::post).
    ///
    /// # Errors
    /// The errors of [`post`](Self::post).
    pub fn post_pieces(
        &self,
        endpoint: u16,
        kind: Kind,
        buf: B,
        submit: impl FnOnce(&IoVecs, Context) -> Result<(), PostError>,
    ) -> Result<OpKey, Rejected<B>>
    where
        B: Buffer,
    {
        let lend = |buf: &mut B| {
            let mut pieces = IoVecs::default();
            buf.lend_pieces(&mut pieces);
            pieces
        };
        let posted = |slot: &Slot<B>, pieces: &IoVecs| {
            slot.lent.set(pieces.total().unwrap_or(usize::MAX));
            slot.phase.set(Phase::Posted);
        };
        let lending = self.lend_as(endpoint, kind, buf, (lend, posted))?;
        let submitted = submit(&lending.lent, lending.context);
        self.settle(lending.slot, submitted)
    }

    /// Posts a receive that takes several messages, like [`post`](Self::post).
    ///
    /// # Errors
    /// The errors of [`post`](Self::post).
    pub fn post_multi(
        &self,
        endpoint: u16,
        buf: B,
        submit: impl FnOnce(&Lent, Context) -> Result<(), PostError>,
    ) -> Result<OpKey, Rejected<B>>
    where
        B: Buffer,
    {
        let filling = |slot: &Slot<B>, lent: &Lent| {
            slot.lent.set(lent.len());
            slot.start.set(lent.ptr());
            slot.pieces.set(0);
            slot.set_cancelled(Cancelled::No);
            slot.phase.set(Phase::Filling);
        };
        let lending = self.lend_as(endpoint, Kind::MultiReceive, buf, (Buffer::lend, filling))?;
        let submitted = submit(&lending.lent, lending.context);
        self.settle(lending.slot, submitted)
    }

    #[inline(always)]
    pub(crate) fn lend(&self, endpoint: u16, kind: Kind, buf: B) -> Result<Lending<'_, B>, Rejected<B>>
    where
        B: Buffer,
    {
        let posted = |slot: &Slot<B>, lent: &Lent| {
            slot.lent.set(lent.len());
            slot.phase.set(Phase::Posted);
        };
        self.lend_as(endpoint, kind, buf, (Buffer::lend, posted))
    }

    #[inline(always)]
    fn lend_as<L>(
        &self,
        endpoint: u16,
        kind: Kind,
        buf: B,
        (lend, begin): (impl FnOnce(&mut B) -> L, impl FnOnce(&Slot<B>, &L)),
    ) -> Result<Lending<'_, B, L>, Rejected<B>> {
        let Some((key, slot)) = self.reserve() else {
            return Err(Rejected { value: buf, error: self.no_slot() });
        };
        let held = Held { table: self, index: key.index() };
        // SAFETY: rule 2: `reserve` gave the slot to this call. If `lend` unwinds, `held` cleans
        // up.
        let lent = unsafe { slot.fill(buf, lend) };
        let _ = ManuallyDrop::new(held);

        slot.endpoint.set(endpoint);
        slot.kind.set(kind);
        begin(slot, &lent);
        Ok(Lending { lent, context: self.context(slot, key), slot })
    }

    fn settle(&self, slot: &Slot<B>, submitted: Result<(), PostError>) -> Result<OpKey, Rejected<B>> {
        match submitted {
            Ok(()) => Ok(slot.key.get()),
            Err(error) => Err(Rejected { value: self.take_back(slot), error }),
        }
    }

    /// Ends a refused operation, in a slot of this table. Rule 2 relies on the submitter: it never
    /// reports a post as refused that the provider has accepted.
    pub(crate) fn take_back(&self, slot: &Slot<B>) -> B {
        self.make_room();
        // SAFETY: rule 2: `lend_as` wrote the buffer, and the refused post did not lend it.
        let buf = unsafe { slot.empty() };
        self.release(slot.key.get().index(), slot);
        buf
    }

    #[inline]
    pub(super) fn context(&self, slot: &Slot<B>, key: OpKey) -> Context {
        match self.kind {
            ContextKind::Word => Context::word(key.word()),
            ContextKind::Space => Context::space(slot.space()),
        }
    }

    /// The slot is then `Held` and has a new generation.
    #[inline]
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
                self.free.set(slot.after.get());
                slot
            }
            None => self.reclaim_orphan().or_else(|| {
                self.make_room();
                None
            })?,
        };
        Some((slot.hold(), slot))
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

    #[inline]
    pub(super) fn release(&self, index: u32, slot: &Slot<B>) {
        slot.phase.set(Phase::Free);
        slot.after.set(self.free.get());
        self.free.set(index);
    }
}

struct Held<'a, B> {
    table: &'a OpTable<B>,
    index: u32,
}

impl<B> Drop for Held<'_, B> {
    fn drop(&mut self) {
        let slot = self.table.own(self.index);
        // SAFETY: rule 2: the slot is `Held`, its buffer was written and never lent.
        let buf = unsafe { slot.empty() };
        self.table.make_room();
        self.table.release(self.index, slot);
        drop(buf);
    }
}
