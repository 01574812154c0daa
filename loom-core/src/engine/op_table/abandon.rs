//! Closing of endpoints and queues (rule 4).

use super::slot::Phase;
use super::{ContextKind, Direction, Kind, OpKey, OpTable, Resolution, Slot};
use crate::transport::Event;
use crate::util::on_drop::for_each;
use crate::vocabulary::{CompletionFlags, Errno};

impl<B> OpTable<B> {
    /// Ends every operation in flight of a closed endpoint.
    ///
    /// # Safety
    /// The endpoint is closed: the provider no longer uses the lent memory or scratch space of its
    /// operations.
    pub unsafe fn abandon(&self, endpoint: u16) {
        for (index, slot) in (0u32..).zip(&self.slots) {
            if slot.endpoint.get() != endpoint {
                continue;
            }
            match slot.phase.get() {
                Phase::Posted | Phase::Filling => {}
                Phase::PostedValue => self.release_holder(slot),
                Phase::Claimed => {
                    self.release(index, slot);
                    continue;
                }
                Phase::Peeking | Phase::Spare => {
                    self.cut_off(index, slot);
                    continue;
                }
                Phase::HeldAgain => {
                    slot.phase.set(Phase::Held);
                    continue;
                }
                Phase::UsedUp | Phase::SpareUsedUp => {
                    self.end_used_up_at(index, slot);
                    continue;
                }
                _ => continue,
            }
            let kind = slot.kind.get();
            let cut_off = Event::failure(0, kind.flags(), Errno::ECANCELED);
            let out = slot.pieces.get() > 0 && kind == Kind::MultiReceive;
            if out {
                // SAFETY: the caller guarantees that the provider no longer uses the operation.
                unsafe { self.drain(slot, cut_off) };
            } else {
                // SAFETY: the caller guarantees that the provider no longer uses the operation.
                unsafe { self.park_at(index, slot, cut_off) };
            }
            match self.contexts {
                ContextKind::Space => slot.phase.set(if out { Phase::DrainingOwed } else { Phase::Owed }),
                ContextKind::Word => {
                    self.leave_ghost(kind.direction());
                    self.room.set(self.room.get() - 1);
                }
            }
        }
    }

    fn cut_off(&self, index: u32, slot: &Slot<B>) {
        self.note_end(index);
        match self.contexts {
            ContextKind::Space => {
                self.make_room();
                self.orphan(index);
            }
            ContextKind::Word => {
                self.release(index, slot);
                self.leave_ghost(Direction::Receive);
            }
        }
    }

    fn leave_ghost(&self, direction: Direction) {
        let ghosts = &self.ghosts[direction.list()];
        ghosts.set(ghosts.get() + 1);
        self.slow_poll.set(true);
    }

    pub(crate) fn has_ghosts(&self) -> bool {
        self.ghosts.iter().any(|ghosts| ghosts.get() > 0)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn stray(&self, context: u64, flags: CompletionFlags) -> Resolution<'_, B> {
        self.strays.set(self.strays.get() + 1);
        let Some((index, slot)) = self.named_by(context) else { return Resolution::Foreign };
        if self.contexts == ContextKind::Word {
            if OpKey::from_word(context).generation() == 0 {
                // A failed injected message has `Context::NONE`.
                return Resolution::Foreign;
            }
            // Not every provider flags these events, so a ghost of the other direction may be
            // counted.
            let [transmits, receives] = &self.ghosts;
            let of_receive = flags.contains(CompletionFlags::RECV);
            let ghosts = if (of_receive && receives.get() > 0) || transmits.get() == 0 { receives } else { transmits };
            if let Some(left) = ghosts.get().checked_sub(1) {
                ghosts.set(left);
                self.make_room();
            }
            return Resolution::Stale;
        }
        match slot.phase.get() {
            _ if slot.kind.get() == Kind::MultiReceive => {}
            Phase::Owed => slot.phase.set(Phase::Done),
            Phase::Orphan => {
                self.orphans.remove(&self.slots, index);
                self.release(index, slot);
            }
            _ => {}
        }
        Resolution::Stale
    }

    /// Reports that the transport's queues of these directions were read empty: if contexts are
    /// numbers, they hold no more events of closed endpoints.
    pub fn drained(&self, directions: impl IntoIterator<Item = Direction>) {
        for direction in directions {
            let gone = self.ghosts[direction.list()].replace(0);
            self.room.set(self.room.get() + gone);
        }
    }

    pub(super) fn orphan(&self, index: u32) {
        let slot = self.own(index);
        slot.phase.set(Phase::Orphan);
        slot.since.set(self.events.get());
        self.orphans.push(&self.slots, index);
    }

    #[cold]
    pub(super) fn reclaim_orphan(&self) -> Option<&Slot<B>> {
        let index = self.orphans.first()?;
        let slot = self.own(index);
        if self.events.get().wrapping_sub(slot.since.get()) < self.horizon {
            return None;
        }
        self.orphans.remove(&self.slots, index);
        Some(slot)
    }

    /// Drops every buffer in a slot, even if the destructor of another one panics.
    ///
    /// # Safety
    /// Every endpoint that posted is closed, and no [`Piece`](super::Piece) is used after this.
    pub unsafe fn drop_buffers(&self) {
        for_each((0u32..).zip(&self.slots), |(index, slot)| {
            match slot.phase.get() {
                Phase::Posted | Phase::Filling | Phase::PostedValue => self.make_room(),
                Phase::UsedUp => {
                    self.used_up.remove(&self.slots, index);
                    self.make_room();
                }
                // The holder of a piece has forgotten it, and the queue is no longer used.
                Phase::Draining | Phase::DrainingOwed => {}
                Phase::Done | Phase::Owed => self.parked_like(slot).remove(&self.slots, index),
                _ => return,
            }
            // Rule 6: the destructor cannot find or reuse the slot.
            slot.phase.set(Phase::Dropped);
            if slot.kind.get() != Kind::Value {
                // SAFETY: rule 2: the slot held a buffer, and the caller guarantees that it is not
                // in use.
                drop(unsafe { slot.empty() });
            }
        });
    }
}
