//! What the op table does when endpoints and queues close: rule 4.

use super::slot::Phase;
use super::{ContextKind, Direction, Kind, OpKey, OpTable, Resolution, Slot};
use crate::transport::Event;
use crate::vocabulary::{CompletionFlags, Errno};

impl<B> OpTable<B> {
    /// Ends every operation in flight of an endpoint that has been closed: each becomes a completion with
    /// `ECANCELED`, so that its buffer comes back through the queue like any other.
    ///
    /// # Safety
    /// The endpoint is closed: the provider does not touch what its operations lent, or their scratch space.
    pub unsafe fn abandon(&self, endpoint: u16) {
        for (index, slot) in (0u32..).zip(&self.slots) {
            if slot.endpoint.get() != endpoint {
                continue;
            }
            match slot.phase.get() {
                Phase::Posted | Phase::Filling => {}
                Phase::PostedValue => self.release_holder(slot),
                // There is no buffer to come back.
                Phase::Claimed => {
                    self.release(index, slot);
                    continue;
                }
                Phase::Peeking | Phase::Spare => {
                    self.cut_off(index, slot);
                    continue;
                }
                // It finds out.
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
                // SAFETY: the caller's promise: the operation is over.
                unsafe { self.drain(slot, cut_off) };
            } else {
                // SAFETY: as above.
                unsafe { self.park_at(index, slot, cut_off) };
            }
            match self.kind {
                ContextKind::Space => slot.phase.set(if out { Phase::DrainingOwed } else { Phase::Owed }),
                ContextKind::Word => {
                    self.leave_ghost(kind.direction());
                    self.room.set(self.room.get() - 1);
                }
            }
        }
    }

    /// Ends a peek whose answer may still come, or a receive of the table's own whose event may.
    fn cut_off(&self, index: u32, slot: &Slot<B>) {
        self.note_end(index);
        match self.kind {
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

    /// The event of an operation of a closed endpoint may still lie in the queue.
    fn leave_ghost(&self, direction: Direction) {
        let ghosts = &self.ghosts[direction.list()];
        ghosts.set(ghosts.get() + 1);
        self.kept.set(true);
    }

    /// Whether events of closed endpoints may still lie in the queue.
    pub(crate) fn has_ghosts(&self) -> bool {
        self.ghosts.iter().any(|ghosts| ghosts.get() > 0)
    }

    /// An event of an operation that is over, because its endpoint was closed before it came, or it came twice; or of none
    /// at all.
    #[cold]
    #[inline(never)]
    pub(super) fn stray(&self, context: u64, flags: CompletionFlags) -> Resolution<'_, B> {
        self.strays.set(self.strays.get() + 1);
        let Some((index, slot)) = self.named_by(context) else { return Resolution::Foreign };
        if self.kind == ContextKind::Word {
            if OpKey::from_word(context).generation() == 0 {
                // No operation has such a word: `Context::NONE`, for one, of an injected message that failed.
                return Resolution::Foreign;
            }
            // Not every provider flags the events of what was cut off: any ghost will do.
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
            // More of its events may come than this one: it waits for the horizon.
            _ if slot.kind.get() == Kind::MultiReceive => {}
            Phase::Owed => slot.phase.set(Phase::Done),
            Phase::Orphan => {
                self.orphans.unlink(&self.slots, index);
                self.release(index, slot);
            }
            _ => {}
        }
        Resolution::Stale
    }

    /// The transport's queue was read empty: with numbers as contexts, no event of a closed endpoint is left in it.
    pub fn drained(&self) {
        self.drained_of(Direction::Transmit);
        self.drained_of(Direction::Receive);
    }

    /// As [`drained`](Self::drained), for a queue that reports one direction alone.
    pub fn drained_of(&self, direction: Direction) {
        let gone = self.ghosts[direction.list()].replace(0);
        self.room.set(self.room.get() + gone);
    }

    /// Makes a slot whose completion was taken wait for its event.
    pub(super) fn orphan(&self, index: u32) {
        let slot = self.own(index);
        slot.phase.set(Phase::Orphan);
        slot.since.set(self.events.get());
        self.orphans.push(&self.slots, index);
    }

    /// Takes the oldest orphan, if as many events as the queue can hold have gone by since.
    #[cold]
    pub(super) fn reclaim_orphan(&self) -> Option<&Slot<B>> {
        let index = self.orphans.first()?;
        let slot = self.own(index);
        if self.events.get().wrapping_sub(slot.since.get()) < self.horizon {
            return None;
        }
        self.orphans.unlink(&self.slots, index);
        Some(slot)
    }

    /// Drops every buffer that is still in a slot.
    ///
    /// A buffer's destructor may panic: the others are dropped all the same.
    ///
    /// # Safety
    /// Every endpoint that posted is closed, and no [`Piece`](super::Piece) is used after this.
    pub unsafe fn drop_buffers(&self) {
        DropFrom { table: self, index: 0 }.run();
    }
}

/// Drops the buffers from `index` on, also when one of the destructors unwinds.
struct DropFrom<'a, B> {
    table: &'a OpTable<B>,
    index: u32,
}

impl<B> DropFrom<'_, B> {
    fn run(&mut self) {
        let table = self.table;
        while let Some(slot) = table.slots.get(self.index as usize) {
            let index = self.index;
            self.index += 1;
            match slot.phase.get() {
                Phase::Posted | Phase::Filling | Phase::PostedValue => table.make_room(),
                Phase::UsedUp => {
                    table.used_up.unlink(&table.slots, index);
                    table.make_room();
                }
                // The holder of a piece has forgotten it: the queue is not used any more.
                Phase::Draining | Phase::DrainingOwed => {}
                Phase::Done | Phase::Owed => table.parked_like(slot).unlink(&table.slots, index),
                _ => continue,
            }
            // Rule 6: neither found nor used again, also by the destructor.
            slot.phase.set(Phase::Dropped);
            if slot.kind.get() == Kind::Value {
                continue;
            }
            // SAFETY: rule 2: the slot held a buffer, and the caller of `drop_buffers` promises that it is not in use.
            drop(unsafe { slot.empty() });
        }
    }
}

impl<B> Drop for DropFrom<'_, B> {
    fn drop(&mut self) {
        self.run();
    }
}
