//! Receives that peers' writes use up, where a provider asks for that (`FI_RX_CQ_DATA`): they are posted again. Rule 10.

use core::mem::ManuallyDrop;

use super::OpError;
use super::slot::Phase;
use super::{Kind, OpKey, OpTable, Slot};
use crate::buffer::{Buffer, IoVecs, Lent};
use crate::error::PostError;
use crate::transport::{Context, Event};
use crate::vocabulary::{Errno, FabricAddr};

impl<B> OpTable<B> {
    /// Takes a slot for a receive of the table's own, of no bytes, for a peer's write to use up, and hands its context to
    /// `submit`. If that is refused for the moment, it is [posted](Self::post_again) later.
    ///
    /// # Errors
    /// [`PostError::Full`] when no slot is free, or what `submit` returned that is not for the moment.
    pub fn post_spare(
        &self,
        endpoint: u16,
        submit: impl FnOnce(Context) -> Result<(), PostError>,
    ) -> Result<(), PostError> {
        let (key, slot) = self.reserve().ok_or_else(|| self.no_slot())?;
        slot.endpoint.set(endpoint);
        slot.kind.set(Kind::Spare);
        slot.phase.set(Phase::Spare);
        match submit(self.context(slot, key)) {
            Ok(()) => {}
            Err(error) if error.is_transient() => self.set_aside(key.index(), slot, Phase::SpareUsedUp),
            Err(error) => {
                self.end_spare(key.index(), slot);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Says whose messages a receive in flight takes, for when it is posted again.
    pub fn note_source(&self, context: Context, from: FabricAddr) {
        if let Some((_, slot)) = self.by_context(context.addr(), Phase::Posted) {
            slot.pieces.set(from.0);
        }
    }

    /// A peer's write has used up the receive with this context, if there is one: it waits for being
    /// [posted again](Self::post_again); or it is over, with `ECANCELED`, if it is one that the table cannot post.
    ///
    /// # Safety
    /// A transport has said so, and so does not use what the receive was lent any more, nor its scratch space.
    #[cold]
    #[inline(never)]
    pub unsafe fn use_up(&self, context: u64) {
        self.count_event();
        if let Some((key, slot)) = self.by_context(context, Phase::Posted) {
            match slot.kind.get() {
                Kind::Receive => self.set_aside(key.index(), slot, Phase::UsedUp),
                // SAFETY: the caller's promise.
                Kind::TaggedReceive => unsafe { self.park_cancelled(key.index(), slot) },
                _ => {}
            }
        } else if let Some((key, slot)) = self.by_context(context, Phase::Spare) {
            self.set_aside(key.index(), slot, Phase::SpareUsedUp);
        }
    }

    /// Lets a slot wait for [`post_again`](Self::post_again).
    fn set_aside(&self, index: u32, slot: &Slot<B>, phase: Phase) {
        slot.phase.set(phase);
        self.used_up.push(&self.slots, index);
        self.kept.set(true);
    }

    /// Whether completions wait to be taken.
    #[must_use]
    pub fn has_parked(&self) -> bool {
        self.parked.iter().any(|parked| parked.first().is_some())
    }

    /// Whether receives wait for being posted again.
    #[must_use]
    pub fn has_used_up(&self) -> bool {
        self.used_up.first().is_some()
    }

    /// Posts the receives again that were used up: with the same slots, keys and contexts. Those of endpoints which are not
    /// open are over, with `ECANCELED`. What `submit` refuses for the moment goes on waiting, and so does a receive of the
    /// table's own; what else it refuses is over.
    #[cold]
    #[inline(never)]
    pub fn post_again(
        &self,
        is_open: impl Fn(u16) -> bool,
        submit: impl Fn(u16, FabricAddr, &[Lent], Context) -> Result<(), PostError>,
    ) where
        B: Buffer,
    {
        // Not those that are used up meanwhile: `lend` is user code.
        for _ in 0..self.capacity() {
            let Some(index) = self.used_up.first() else { return };
            let slot = self.own(index);
            let (endpoint, spare) = (slot.endpoint.get(), slot.phase.get() == Phase::SpareUsedUp);
            if !is_open(endpoint) {
                self.end_used_up_at(index, slot);
                continue;
            }
            self.used_up.unlink(&self.slots, index);
            let context = self.context(slot, slot.key.get());
            let posted = if spare {
                slot.phase.set(Phase::Spare);
                submit(endpoint, FabricAddr::UNSPEC, &[().lend()], context)
            } else {
                self.lend_again(index, slot, |pieces| submit(endpoint, FabricAddr(slot.pieces.get()), pieces, context))
            };
            match posted {
                Ok(()) => {}
                // Of these one is like another, and there have to be some as long as the endpoint is open.
                Err(_) if spare => {
                    self.set_aside(index, slot, Phase::SpareUsedUp);
                    return;
                }
                Err(error) if error.is_transient() => {
                    // Before those that were posted after it.
                    slot.phase.set(Phase::UsedUp);
                    self.used_up.push_front(&self.slots, index);
                    self.kept.set(true);
                    return;
                }
                Err(error) => {
                    let errno = if let PostError::Errno(errno) = error { errno } else { Errno::EINVAL };
                    let failed = Event::failure(0, slot.kind.get().flags(), errno);
                    // SAFETY: the refused post lent nothing.
                    unsafe { self.park_at(index, slot, failed) };
                }
            }
        }
    }

    /// Lends the buffer of a slot that is on no list once more.
    fn lend_again(
        &self,
        index: u32,
        slot: &Slot<B>,
        submit: impl FnOnce(&[Lent]) -> Result<(), PostError>,
    ) -> Result<(), PostError>
    where
        B: Buffer,
    {
        slot.phase.set(Phase::HeldAgain);
        let held = LendingAgain { table: self, index };
        let mut pieces = IoVecs::default();
        // SAFETY: rule 2: a buffer is in the slot, which is `HeldAgain`, so that this alone refers to it. `lend` is user code; `held`
        // sees to the slot if it unwinds.
        unsafe { slot.buffer_mut() }.lend_pieces(&mut pieces);
        let _ = ManuallyDrop::new(held);

        if slot.phase.get() != Phase::HeldAgain {
            // Meanwhile its endpoint was closed, and there may be another in its place.
            return Err(PostError::Errno(Errno::ECANCELED));
        }
        slot.lent.set(pieces.total().ok_or(PostError::Errno(Errno::EINVAL))?);
        slot.phase.set(Phase::Posted);
        let mut nothing = [().lend()];
        let lent = pieces.get_mut().ok_or(PostError::Errno(Errno::EINVAL))?;
        let lent = if lent.is_empty() { &mut nothing } else { lent };
        if let Some(first) = lent.first_mut() {
            *first = first.with_prefix(self.prefix.get()).ok_or(PostError::Errno(Errno::EINVAL))?;
        }
        submit(lent)
    }

    /// Ends a receive that was used up and waits, by its key: `false` if there is no such one on this endpoint.
    pub fn cancel_used_up(&self, key: OpKey, endpoint: u16) -> bool {
        let slot = self.slot(key.index()).filter(|slot| slot.key.get() == key && slot.phase.get() == Phase::UsedUp);
        let slot = slot.filter(|slot| slot.endpoint.get() == endpoint);
        slot.inspect(|slot| self.end_used_up_at(key.index(), slot)).is_some()
    }

    /// Ends all receives of an endpoint that were used up and wait: it takes no more posts. Linear in the capacity.
    pub fn end_used_up(&self, endpoint: u16) {
        for (index, slot) in (0u32..).zip(&self.slots) {
            if slot.endpoint.get() == endpoint && matches!(slot.phase.get(), Phase::UsedUp | Phase::SpareUsedUp) {
                self.end_used_up_at(index, slot);
            }
        }
    }

    /// Ends a receive that waits for being posted again.
    pub(super) fn end_used_up_at(&self, index: u32, slot: &Slot<B>) {
        self.used_up.unlink(&self.slots, index);
        if slot.phase.get() == Phase::SpareUsedUp {
            self.end_spare(index, slot);
        } else {
            // SAFETY: used up: the provider has nothing of it.
            unsafe { self.park_cancelled(index, slot) };
        }
    }

    /// # Safety
    /// As for [`park_at`](Self::park_at).
    unsafe fn park_cancelled(&self, index: u32, slot: &Slot<B>) {
        let cancelled = Event::failure(0, slot.kind.get().flags(), Errno::ECANCELED);
        // SAFETY: the caller's promise.
        unsafe { self.park_at(index, slot, cancelled) };
    }

    /// Frees the slot of a receive of the table's own, which is not posted.
    fn end_spare(&self, index: u32, slot: &Slot<B>) {
        self.make_room();
        self.release(index, slot);
    }

    /// What the event of a receive of the table's own says that no peer's write has used up: a message came that the endpoint
    /// does not take, or it was cancelled. `None` if it is none of those.
    pub(super) fn unwanted(&self, event: &Event) -> Option<Option<OpError>> {
        let (key, slot) = self.by_context(event.context, Phase::Spare)?;
        if event.errno == Errno::ECANCELED {
            self.end_spare(key.index(), slot);
            return Some(None);
        }
        self.set_aside(key.index(), slot, Phase::SpareUsedUp);
        let mut error = OpError::of(event);
        if !event.is_error() {
            // A message of no bytes.
            error.errno = Errno::ENOBUFS;
        }
        (error.len, error.overflow) = (Some(0), error.overflow.filter(|_| event.is_error()));
        Some(Some(error))
    }
}

/// Ends a receive whose buffer's `lend` unwound.
struct LendingAgain<'a, B> {
    table: &'a OpTable<B>,
    index: u32,
}

impl<B> Drop for LendingAgain<'_, B> {
    fn drop(&mut self) {
        let slot = self.table.own(self.index);
        // SAFETY: the slot is held: nothing of it is lent.
        unsafe { self.table.park_cancelled(self.index, slot) };
    }
}
