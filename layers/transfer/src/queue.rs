use allocator_api2::alloc::Allocator;
use loom_core::error::OpenError;
use loom_core::storage::Array;

/// Queue of slots, each at most once.
pub(crate) struct Queue<A: Allocator> {
    slots: Array<u32, A>,
    first: usize,
    len: usize,
}

impl<A: Allocator> Queue<A> {
    pub(crate) fn new(len: usize, alloc: A) -> Result<Self, OpenError> {
        Ok(Queue { slots: Array::new_in(len, alloc, |_| 0)?, first: 0, len: 0 })
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push(&mut self, index: u32) {
        let mut at = self.first + self.len;
        if at >= self.slots.len() {
            at -= self.slots.len();
        }
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = index;
            self.len += 1;
        }
    }

    pub(crate) fn pop(&mut self) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let index = self.slots.get(self.first).copied();
        self.first = if self.first + 1 == self.slots.len() { 0 } else { self.first + 1 };
        self.len -= 1;
        index
    }
}
