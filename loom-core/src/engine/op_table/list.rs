use core::cell::Cell;

use super::Slot;

pub(super) const NONE: u32 = u32::MAX;

/// A slot is in at most one list.
#[derive(Debug)]
pub(super) struct List {
    head: Cell<u32>,
    tail: Cell<u32>,
}

impl List {
    pub(super) const fn new() -> Self {
        List { head: Cell::new(NONE), tail: Cell::new(NONE) }
    }

    pub(super) fn first(&self) -> Option<u32> {
        Some(self.head.get()).filter(|head| *head != NONE)
    }

    pub(super) fn push<B>(&self, slots: &[Slot<B>], index: u32) {
        let before = self.tail.replace(index);
        self.join(slots, before, index);
        self.join(slots, index, NONE);
    }

    pub(super) fn push_front<B>(&self, slots: &[Slot<B>], index: u32) {
        let after = self.head.replace(index);
        self.join(slots, index, after);
        self.join(slots, NONE, index);
    }

    pub(super) fn unlink<B>(&self, slots: &[Slot<B>], index: u32) {
        if let Some(slot) = slots.get(index as usize) {
            self.join(slots, slot.before.get(), slot.after.get());
        }
    }

    fn join<B>(&self, slots: &[Slot<B>], before: u32, after: u32) {
        match slots.get(before as usize) {
            Some(slot) => slot.after.set(after),
            None => self.head.set(after),
        }
        match slots.get(after as usize) {
            Some(slot) => slot.before.set(before),
            None => self.tail.set(before),
        }
    }
}
