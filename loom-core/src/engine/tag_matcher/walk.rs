//! [`Walk`]: a few nodes, oldest first, that are looked at one after the other.

use core::cell::Cell;

/// A few nodes in slots, in the order in which they came: a node takes the slot behind the last one that is in use.
#[derive(Debug)]
pub(crate) struct Walk {
    /// A bit for each slot that is in use.
    used: Cell<u32>,
    nodes: [Cell<u32>; Walk::SLOTS as usize],
}

impl Walk {
    /// The most nodes that are few. The first of them is found sooner than in an index; in an order that the processor does not foresee,
    /// the last of more would be found later.
    pub(crate) const FEW: u32 = 4;
    /// Twice as many, so that few nodes have to move up only after as many have come.
    pub(crate) const SLOTS: u32 = 2 * Self::FEW;

    pub(crate) const fn new() -> Self {
        Walk { used: Cell::new(0), nodes: [const { Cell::new(0) }; Self::SLOTS as usize] }
    }

    /// Appends a node; returns its slot. `None` if the last slot is in use.
    #[inline(always)]
    pub(crate) fn append(&self, node: u32) -> Option<u32> {
        let used = self.used.get();
        let slot = u32::BITS - 1 - (used << 1 | 1).leading_zeros();
        self.nodes.get(slot as usize)?.set(node);
        self.used.set(used | 1 << slot);
        Some(slot)
    }

    /// Takes the node in a slot out.
    #[inline(always)]
    pub(crate) fn remove(&self, slot: u32) {
        self.used.set(self.used.get() & !(1 << slot));
    }

    /// Takes all nodes out; returns them, oldest first, if no more are appended than were returned.
    pub(crate) fn drain(&self) -> Nodes<'_> {
        let nodes = self.nodes();
        self.used.set(0);
        nodes
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u32 {
        self.used.get().count_ones()
    }

    /// The nodes, oldest first.
    #[inline(always)]
    pub(crate) fn nodes(&self) -> Nodes<'_> {
        Nodes { walk: self, left: self.used.get() }
    }
}

/// The nodes of a walk that are left to be looked at.
#[derive(Debug)]
pub(crate) struct Nodes<'w> {
    walk: &'w Walk,
    left: u32,
}

impl Iterator for Nodes<'_> {
    type Item = u32;

    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        if self.left == 0 {
            return None;
        }
        let slot = self.left.trailing_zeros();
        self.left &= self.left - 1;
        Some(self.walk.nodes[(slot % Walk::SLOTS) as usize].get())
    }
}
