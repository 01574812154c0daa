//! Receives used up by peers' writes (`FI_RX_CQ_DATA`) and posted again (rule 10).

use super::OpError;
use super::slot::Phase;
use super::{Kind, OpKey, OpTable, Slot};
use crate::buffer::{Buffer, IoVecs, Lent};
use crate::error::PostError;
use crate::transport::{Context, Event};
use crate::util::on_drop::OnDrop;
use crate::vocabulary::{Errno, FabricAddr};

impl<B> OpTable<B> {
    /// Stores the source of a receive in flight, for posting it again.
    pub fn note_source(&self, context: Context, from: FabricAddr) {
        if let Some((_, slot)) = self.by_context(context.addr(), Phase::Posted) {
            slot.pieces.set(from.0);
        }
    }

    /// Sets aside the receive with this context, used up by a peer's write, for
    /// [`post_again`](Self::post_again). A receive that the table cannot post again completes with
    /// `ECANCELED`.
    ///
    /// # Safety
    /// A transport has reported this, and no longer uses the receive's lent memory or scratch
    /// space.
    #[cold]
    #[inline(never)]
    pub unsafe fn use_up(&self, context: u64) {
        self.count_event();
        if let Some((key, slot)) = self.by_context(context, Phase::Posted) {
            match slot.kind.get() {
                Kind::Receive => self.set_aside(key.index(), slot, Phase::UsedUp),
                // SAFETY: the caller guarantees that the transport no longer uses the receive.
                Kind::TaggedReceive => unsafe { self.park_cancelled(key.index(), slot) },
                _ => {}
            }
        } else if let Some((key, slot)) = self.by_context(context, Phase::Spare) {
            self.set_aside(key.index(), slot, Phase::SpareUsedUp);
        }
    }

    pub(super) fn set_aside(&self, index: u32, slot: &Slot<B>, phase: Phase) {
        slot.phase.set(phase);
        self.used_up.push(&self.slots, index);
        self.slow_poll.set(true);
    }

    pub(crate) fn has_parked(&self) -> bool {
        self.parked.iter().any(|parked| parked.first().is_some())
    }

    /// Returns `true` if receives wait to be posted again.
    #[must_use]
    pub fn has_used_up(&self) -> bool {
        self.used_up.first().is_some()
    }

    /// Posts used-up receives again, with the same slots, keys and contexts. Receives of endpoints
    /// that are not open complete with `ECANCELED`. A receive keeps waiting after a transient
    /// error, the table's own after any error.
    #[cold]
    #[inline(never)]
    pub fn post_again(
        &self,
        is_open: impl Fn(u16) -> bool,
        submit: impl Fn(u16, FabricAddr, &[Lent], Context) -> Result<(), PostError>,
    ) where
        B: Buffer,
    {
        for _ in 0..self.capacity() {
            let Some(index) = self.used_up.first() else { return };
            let slot = self.own(index);
            let (endpoint, spare) = (slot.endpoint.get(), slot.phase.get() == Phase::SpareUsedUp);
            if !is_open(endpoint) {
                self.end_used_up_at(index, slot);
                continue;
            }
            self.used_up.remove(&self.slots, index);
            let context = self.context(slot, slot.key.get());
            let posted = if spare {
                slot.phase.set(Phase::Spare);
                submit(endpoint, FabricAddr::UNSPEC, &[().lend()], context)
            } else {
                self.lend_again(index, slot, |pieces| submit(endpoint, FabricAddr(slot.pieces.get()), pieces, context))
            };
            match posted {
                Ok(()) => {}
                Err(_) if spare => {
                    self.set_aside(index, slot, Phase::SpareUsedUp);
                    return;
                }
                Err(error) if error.is_transient() => {
                    slot.phase.set(Phase::UsedUp);
                    self.used_up.push_front(&self.slots, index);
                    self.slow_poll.set(true);
                    return;
                }
                Err(error) => {
                    let errno = if let PostError::Errno(errno) = error { errno } else { Errno::EINVAL };
                    let failed = Event::failure(0, slot.kind.get().flags(), errno);
                    // SAFETY: the refused post did not lend the buffer.
                    unsafe { self.park_at(index, slot, failed) };
                }
            }
        }
    }

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
        let unwound = OnDrop(|| {
            // SAFETY: the slot is held, so its buffer is not lent.
            unsafe { self.park_cancelled(index, slot) };
        });
        let mut pieces = IoVecs::default();
        // SAFETY: rule 2: the slot is `HeldAgain` and holds a buffer, so only this call refers to
        // it. If `lend` unwinds, the receive ends.
        unsafe { slot.buffer_mut() }.lend_pieces(&mut pieces);
        core::mem::forget(unwound);

        if slot.phase.get() != Phase::HeldAgain {
            return Err(PostError::Errno(Errno::ECANCELED));
        }
        slot.lent.set(pieces.total().ok_or(PostError::Errno(Errno::EINVAL))?);
        slot.phase.set(Phase::Posted);
        let mut nothing = [().lend()];
        let lent = pieces.get_mut().ok_or(PostError::Errno(Errno::EINVAL))?;
        let lent = if lent.is_empty() { &mut nothing } else { lent };
        if let Some(first) = lent.first_mut() {
            *first = first.with_prefix(self.prefix).ok_or(PostError::Errno(Errno::EINVAL))?;
        }
        submit(lent)
    }

    /// Ends the used-up receive of this key and endpoint. Returns `false` if it does not exist.
    pub fn cancel_used_up(&self, key: OpKey, endpoint: u16) -> bool {
        let used_up = |slot: &&Slot<B>| slot.phase.get() == Phase::UsedUp && slot.endpoint.get() == endpoint;
        self.named(key).filter(used_up).inspect(|slot| self.end_used_up_at(key.index(), slot)).is_some()
    }

    /// Ends all used-up receives of an endpoint, which takes no more posts. Linear in the capacity.
    pub fn end_used_up(&self, endpoint: u16) {
        for (index, slot) in (0u32..).zip(&self.slots) {
            if slot.endpoint.get() == endpoint && matches!(slot.phase.get(), Phase::UsedUp | Phase::SpareUsedUp) {
                self.end_used_up_at(index, slot);
            }
        }
    }

    pub(super) fn end_used_up_at(&self, index: u32, slot: &Slot<B>) {
        self.used_up.remove(&self.slots, index);
        if slot.phase.get() == Phase::SpareUsedUp {
            self.give_up(index, slot);
        } else {
            // SAFETY: the provider no longer uses a used-up receive.
            unsafe { self.park_cancelled(index, slot) };
        }
    }

    /// # Safety
    /// The requirements of [`park_at`](Self::park_at).
    unsafe fn park_cancelled(&self, index: u32, slot: &Slot<B>) {
        let cancelled = Event::failure(0, slot.kind.get().flags(), Errno::ECANCELED);
        // SAFETY: the caller guarantees that the provider no longer uses the operation.
        unsafe { self.park_at(index, slot, cancelled) };
    }

    /// Handles an event of a receive of the table's own that no write used up: an error for an
    /// unwanted message, `Some(None)` for a cancellation.
    pub(super) fn unwanted(&self, event: &Event) -> Option<Option<OpError>> {
        let (key, slot) = self.by_context(event.context, Phase::Spare)?;
        if event.errno == Errno::ECANCELED {
            self.give_up(key.index(), slot);
            return Some(None);
        }
        self.set_aside(key.index(), slot, Phase::SpareUsedUp);
        let mut error = OpError::of(event);
        if !event.is_error() {
            error.errno = Errno::ENOBUFS;
        }
        (error.len, error.overflow) = (Some(0), error.overflow.filter(|_| event.is_error()));
        Some(Some(error))
    }
}
