use core::cell::Cell;

/// A few nodes in slots, in order of arrival, searched linearly.
#[derive(Debug)]
pub(crate) struct Walk {
    used: Cell<u32>,
    nodes: [Cell<u32>; Walk::SLOTS as usize],
}

impl Walk {
    /// Maximum number of few nodes. The first is found faster than in an index.
    pub(crate) const FEW: u32 = 4;
    /// Twice as many, so that few nodes seldom move up.
    pub(crate) const SLOTS: u32 = 2 * Self::FEW;

    pub(crate) const fn new() -> Self {
        Walk { used: Cell::new(0), nodes: [const { Cell::new(0) }; Self::SLOTS as usize] }
    }

    #[inline(always)]
    pub(crate) fn append(&self, node: u32) -> Option<u32> {
        let used = self.used.get();
        let slot = u32::BITS - 1 - (used << 1 | 1).leading_zeros();
        self.nodes.get(slot as usize)?.set(node);
        self.used.set(used | 1 << slot);
        Some(slot)
    }

    #[inline(always)]
    pub(crate) fn remove(&self, slot: u32) {
        self.used.set(self.used.get() & !(1 << slot));
    }

    /// Removes all nodes and returns them, oldest first, provided that no more are appended than
    /// were returned.
    pub(crate) fn drain(&self) -> impl Iterator<Item = u32> + '_ {
        let nodes = self.nodes();
        self.used.set(0);
        nodes
    }

    pub(crate) fn len(&self) -> u32 {
        self.used.get().count_ones()
    }

    #[inline(always)]
    pub(crate) fn nodes(&self) -> impl Iterator<Item = u32> + '_ {
        let mut left = self.used.get();
        core::iter::from_fn(move || {
            let slot = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            Some(self.nodes[(slot % Walk::SLOTS) as usize].get())
        })
    }
}
