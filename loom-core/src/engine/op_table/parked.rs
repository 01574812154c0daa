//! Parked completions: kept in their slots until the user takes them.

#![allow(unsafe_code, reason = "buffers in slots: rules 1 and 2")]

use super::{Direction, Done, Fetched, Kind, List, OpKey, OpTable, Phase, Resolution, Slot, Uncommon};
use crate::transport::Event;

/// Outcome of [`OpTable::take`].
#[derive(Debug)]
pub enum Taken<B> {
    /// The completed operation.
    Done(Done<B>),
    /// The operation is in flight.
    InFlight,
    /// The operation is a completed multi-receive with pieces out.
    Draining,
    /// The key does not, or no longer, name an operation of this table.
    Unknown,
}

/// Parked completion.
#[derive(Debug)]
pub enum ParkedCompletion<B> {
    /// An operation with a buffer.
    Done(Done<B>),
    /// An atomic operation on a value.
    Value(Fetched),
}

impl<B> ParkedCompletion<B> {
    /// Completion, if the operation has a buffer.
    pub fn done(self) -> Option<Done<B>> {
        match self {
            ParkedCompletion::Done(done) => Some(done),
            ParkedCompletion::Value(_) => None,
        }
    }
}

impl<B> OpTable<B> {
    /// Completes the operation of an event and parks its completion.
    ///
    /// Returns the resolution of [`complete`](Self::complete) if it is neither `Done` nor `Value`.
    ///
    /// # Safety
    /// The requirements of [`complete`](Self::complete).
    pub unsafe fn park(&self, event: &Event) -> Option<Resolution<'_, B>> {
        self.count_event();
        let (key, slot, event) = match self.by_context(event.context, Phase::Posted) {
            Some((key, slot)) => (key, slot, self.checked(event, slot)),
            // SAFETY: the caller keeps the requirements of `complete`.
            None => match unsafe { self.complete_uncommon(event) } {
                Uncommon::Resolved(resolution) => return Some(resolution),
                Uncommon::Completed(key, slot, event) | Uncommon::Value(key, slot, event) => (key, slot, event),
            },
        };
        // SAFETY: the caller guarantees completion.
        unsafe { self.park_at(key.index(), slot, event) };
        None
    }

    /// # Safety
    /// The provider no longer uses the operation's buffer or scratch space.
    #[inline]
    pub(super) unsafe fn park_at(&self, index: u32, slot: &Slot<B>, event: Event) {
        // SAFETY: the caller guarantees that the provider no longer uses the scratch space.
        unsafe { slot.store_event(event) };
        slot.phase.set(Phase::Done);
        self.push_parked(index, slot);
        self.make_room();
    }

    pub(super) fn parked_like(&self, slot: &Slot<B>) -> &List {
        &self.parked[slot.kind.get().direction().list()]
    }

    pub(super) fn push_parked(&self, index: u32, slot: &Slot<B>) {
        self.parked_like(slot).push(&self.slots, index);
        self.slow_poll.set(true);
        self.note_end(index);
    }

    #[inline(always)]
    pub(super) fn note_end(&self, index: u32) {
        self.ends.set((self.ends.get().0.wrapping_add(1), index));
    }

    /// # Safety
    /// The requirements of [`succeed`](Self::succeed).
    #[inline(always)]
    pub(crate) unsafe fn park_success(&self, event: &Event) -> Option<u32> {
        if event.is_error() {
            return None;
        }
        let (slot, success) = self.success_of(event)?;
        let index = slot.key.get().index();
        // SAFETY: the caller guarantees completion.
        unsafe { self.park_at(index, slot, success) };
        Some(index)
    }

    pub(crate) fn parked_at(&self, index: u32) -> Option<OpKey> {
        self.slot(index).filter(|slot| slot.is_parked()).map(|slot| slot.key.get())
    }

    /// Returns `true` if a completion may be parked or events of closed endpoints may be queued.
    #[inline(always)]
    pub fn needs_slow_poll(&self) -> bool {
        self.slow_poll.get()
    }

    /// Sets the result of [`needs_slow_poll`](Self::needs_slow_poll) until the next completion is
    /// parked.
    pub(crate) fn set_slow_poll(&self, is_slow: bool) {
        self.slow_poll.set(is_slow);
    }

    /// Takes the oldest parked completion of this direction.
    pub fn take_parked(&self, direction: Direction) -> Option<ParkedCompletion<B>> {
        self.parked[direction.list()].first().map(|index| self.take_at(index))
    }

    /// Takes the completion of an operation.
    pub fn take(&self, key: OpKey) -> Taken<B> {
        match self.slot(key.index()) {
            Some(slot) if slot.key.get() == key => match slot.phase.get() {
                Phase::Done | Phase::Owed => match slot.kind.get() {
                    Kind::Value => Taken::Unknown,
                    _ => self.take_at(key.index()).done().map_or(Taken::Unknown, Taken::Done),
                },
                Phase::Draining | Phase::DrainingOwed => Taken::Draining,
                Phase::Posted | Phase::Held | Phase::Filling | Phase::Peeking | Phase::UsedUp | Phase::HeldAgain => {
                    Taken::InFlight
                }
                Phase::Free
                | Phase::Orphan
                | Phase::Dropped
                | Phase::Claimed
                | Phase::Spare
                | Phase::SpareUsedUp
                | Phase::PostedValue
                | Phase::Holds => Taken::Unknown,
            },
            _ => Taken::Unknown,
        }
    }

    /// On `None`, call [`take`](Self::take).
    #[inline(always)]
    pub(crate) fn take_done(&self, key: OpKey) -> Option<Done<B>> {
        let is_done = |slot: &&Slot<B>| slot.phase.get() == Phase::Done && slot.kind.get() != Kind::Value;
        let slot = self.named(key).filter(is_done)?;
        // SAFETY: the slot is `Done`: its event was kept.
        let event = unsafe { slot.stored_event() };
        // SAFETY: rule 2: a parked operation has its buffer in the slot, unlent.
        let buf = unsafe { slot.empty() };
        self.parked_like(slot).remove(&self.slots, key.index());
        self.release(key.index(), slot);
        Some(Done::new(key, buf, event))
    }

    pub(crate) fn parked_success(&self, key: OpKey) -> Option<bool> {
        let slot = self.named(key).filter(|slot| slot.is_parked())?;
        // SAFETY: the slot is `Done` or `Owed`: its event was kept.
        Some(!unsafe { slot.stored_event() }.is_error())
    }

    pub(super) fn take_at(&self, index: u32) -> ParkedCompletion<B> {
        let slot = self.own(index);
        let key = slot.key.get();
        // SAFETY: the slot is `Done` or `Owed`: its event was kept.
        let event = unsafe { slot.stored_event() };
        let parked = match slot.kind.get() {
            Kind::Value => ParkedCompletion::Value(Self::fetched(slot, event)),
            // SAFETY: rule 2: a parked operation has its buffer in the slot, unlent.
            _ => ParkedCompletion::Done(Done::new(key, unsafe { slot.empty() }, event)),
        };
        self.parked_like(slot).remove(&self.slots, index);
        if slot.phase.get() == Phase::Owed {
            self.orphan(index);
        } else {
            self.release(index, slot);
        }
        parked
    }
}
