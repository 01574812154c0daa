//! The software transport's completion queue: a ring of events in the caller's memory.

#![allow(unsafe_code, reason = "a ring in memory that the caller provides")]

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::NonNull;

use super::NO_PORT;
use crate::transport::Event;

/// The head of the caller's memory; the ring follows.
#[derive(Debug)]
pub(super) struct Queue {
    ring: NonNull<Event>,
    capacity: u32,
    /// Next event to read.
    head: Cell<u32>,
    len: Cell<u32>,
    /// Events in the ring, and places kept for operations in flight.
    reserved: Cell<u32>,
    /// First of the ports that are bound to this queue.
    pub(super) first_port: Cell<u16>,
}

impl Queue {
    fn places(depth: usize) -> Option<(Layout, usize)> {
        let (layout, ring) = Layout::new::<Queue>().extend(Layout::array::<Event>(depth).ok()?).ok()?;
        Some((layout, ring))
    }

    /// The memory for a queue of `depth` events. A depth beyond all memory asks for more than any allocator has.
    pub(super) fn layout(depth: usize) -> Layout {
        const TOO_MUCH: Layout = match Layout::from_size_align(isize::MAX as usize, 1) {
            Ok(layout) => layout,
            Err(_) => Layout::new::<Queue>(),
        };
        Self::places(depth).map_or(TOO_MUCH, |(layout, _)| layout)
    }

    /// Builds a queue in `memory`; `None` if the depth is zero or does not fit.
    ///
    /// # Safety
    /// `memory` has the layout of `depth`, and stays until the queue is not used any more.
    pub(super) unsafe fn build(memory: NonNull<u8>, depth: usize) -> Option<NonNull<Queue>> {
        let (_, ring) = Self::places(depth)?;
        let capacity = u32::try_from(depth).ok().filter(|depth| *depth > 0)?;
        let queue = memory.cast::<Queue>();
        // SAFETY: the ring lies at this offset of the layout.
        let ring = unsafe { memory.add(ring) }.cast();
        let value = Queue {
            ring,
            capacity,
            head: Cell::new(0),
            len: Cell::new(0),
            reserved: Cell::new(0),
            first_port: Cell::new(NO_PORT),
        };
        // SAFETY: the layout begins with a `Queue`.
        unsafe { queue.write(value) };
        Some(queue)
    }

    /// Keeps a place for the event of an operation that is about to begin; `false` if there is none left.
    #[inline]
    pub(super) fn reserve(&self) -> bool {
        let reserved = self.reserved.get();
        let granted = reserved < self.capacity;
        if granted {
            self.reserved.set(reserved + 1);
        }
        granted
    }

    /// Gives a place up, because the operation will have no event.
    #[inline]
    pub(super) fn release(&self) {
        self.reserved.set(self.reserved.get() - 1);
    }

    /// Adds an event, in a place that was reserved for it.
    #[inline]
    pub(super) fn push(&self, event: Event) {
        debug_assert!(self.len.get() < self.reserved.get(), "an event without a reserved place");
        let mut at = self.head.get() + self.len.get();
        if at >= self.capacity {
            at -= self.capacity;
        }
        // SAFETY: at < capacity, and the place is free: events in the ring never exceed the reserved places.
        let place = unsafe { self.ring.add(at as usize) };
        // SAFETY: as above.
        unsafe { place.write(event) };
        self.len.set(self.len.get() + 1);
    }

    /// Takes the oldest event, and gives its place up.
    #[inline(always)]
    pub(super) fn pop(&self) -> Option<&Event> {
        let len = self.len.get().checked_sub(1)?;
        let at = self.head.get();
        // SAFETY: the ring is not empty, so this place was written.
        let place = unsafe { self.ring.add(at as usize) };
        // SAFETY: as above. It is written again when the place's turn comes, and looked at before: `Transport::cq_poll`.
        let event = unsafe { place.as_ref() };
        let next = at + 1;
        self.head.set(if next == self.capacity { 0 } else { next });
        self.len.set(len);
        self.release();
        Some(event)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len.get() == 0
    }
}
