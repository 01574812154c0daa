//! Ring of values in memory of the caller.

#![allow(unsafe_code, reason = "a ring in memory that the caller provides")]

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::NonNull;

use super::address::NO_PORT;
use super::sleeper::Sleeper;
use crate::transport::Event;
use crate::vocabulary::{CompletionFlags, Errno};

/// Slot of the ring, in one cache line.
#[derive(Debug)]
#[repr(align(64))]
struct RingSlot(Event);

/// The ring has one slot more than the capacity, so equal head and tail mean that it is empty.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Queue {
    ring: NonNull<RingSlot>,
    end: NonNull<RingSlot>,
    head: Cell<NonNull<RingSlot>>,
    tail: Cell<NonNull<RingSlot>>,
    capacity: Cell<u32>,
    /// Number of events in the ring, and of slots reserved for operations in flight.
    reserved: Cell<u32>,
    /// Port to poll first. The ports of this queue form a linked circle.
    pub(crate) turn: Cell<u16>,
    /// Number of further events that this port may have in a row.
    streak: Cell<u16>,
    overrun: Cell<bool>,
    /// Sleeper of the queue's thread. Last, so that all fields of a poll share a cache line.
    sleeper: Option<Sleeper>,
}

impl Queue {
    fn places(depth: usize) -> Option<(Layout, usize)> {
        let ring = Layout::array::<RingSlot>(depth.checked_add(1)?).ok()?;
        let (layout, ring) = Layout::new::<Queue>().extend(ring).ok()?;
        Some((layout, ring))
    }

    pub(crate) fn layout(depth: usize) -> Layout {
        const TOO_MUCH: Layout = match Layout::from_size_align(isize::MAX as usize, 1) {
            Ok(layout) => layout,
            Err(_) => Layout::new::<Queue>(),
        };
        Self::places(depth).map_or(TOO_MUCH, |(layout, _)| layout)
    }

    /// [`close`](Self::close) drops its sleeper.
    ///
    /// # Safety
    /// `memory` has the layout of `depth`, and stays while the queue is used.
    pub(crate) unsafe fn build(memory: NonNull<u8>, depth: usize, sleeper: Option<Sleeper>) -> Option<NonNull<Queue>> {
        let (_, ring) = Self::places(depth)?;
        let capacity = u32::try_from(depth).ok().filter(|depth| *depth > 0)?;
        let queue = memory.cast::<Queue>();
        // SAFETY: the ring lies at this offset of the layout.
        let ring = unsafe { memory.add(ring) }.cast::<RingSlot>();
        // SAFETY: the ring has `depth + 1` slots, and ends there.
        let end = unsafe { ring.add(depth + 1) };
        let value = Queue {
            ring,
            end,
            head: Cell::new(ring),
            tail: Cell::new(ring),
            capacity: Cell::new(capacity),
            reserved: Cell::new(0),
            turn: Cell::new(NO_PORT),
            streak: Cell::new(Self::LONGEST_STREAK),
            overrun: Cell::new(false),
            sleeper,
        };
        // SAFETY: the layout begins with a `Queue`.
        unsafe { queue.write(value) };
        Some(queue)
    }

    /// # Safety
    /// [`build`](Self::build) has built the queue, and no thread uses it any more.
    pub(crate) unsafe fn close(queue: NonNull<Queue>) {
        // SAFETY: `build` has written the field.
        let sleeper = unsafe { &raw mut (*queue.as_ptr()).sleeper };
        // SAFETY: `build` has written the sleeper, which has no other reference, and is dropped
        // only here.
        unsafe { sleeper.drop_in_place() };
    }

    pub(crate) const fn sleeper(&self) -> Option<&Sleeper> {
        self.sleeper.as_ref()
    }

    #[inline]
    pub(crate) fn reserve(&self) -> bool {
        let reserved = self.reserved.get();
        let granted = reserved < self.capacity.get();
        if granted {
            self.reserved.set(reserved + 1);
        }
        granted
    }

    #[inline]
    pub(crate) fn release(&self) {
        debug_assert!(self.reserved.get() > 0, "an event without a reserved place");
        self.reserved.set(self.reserved.get() - 1);
    }

    const LONGEST_STREAK: u16 = 16;

    #[inline]
    pub(crate) fn had_its_turn(&self, port: u16) -> bool {
        if self.turn.get() != port {
            self.turn.set(port);
            self.streak.set(Self::LONGEST_STREAK);
        }
        let left = self.streak.get() - 1;
        self.streak.set(if left == 0 { Self::LONGEST_STREAK } else { left });
        left == 0
    }

    #[inline(always)]
    fn after(&self, place: NonNull<RingSlot>) -> NonNull<RingSlot> {
        // SAFETY: `place` is a slot of the ring, and `end` is one beyond the last slot.
        let next = unsafe { place.add(1) };
        if next == self.end { self.ring } else { next }
    }

    /// Returns its address, which is valid until it is popped.
    #[inline]
    pub(crate) fn push(&self, event: Event) -> NonNull<Event> {
        let place = self.tail.get();
        let next = self.after(place);
        debug_assert!(next != self.head.get(), "more events than reserved places");
        // SAFETY: the slot is in the ring, and is free because events never exceed reserved slots.
        unsafe { place.write(RingSlot(event)) };
        self.tail.set(next);
        const { assert!(core::mem::offset_of!(RingSlot, 0) == 0, "a place begins with its event") };
        place.cast()
    }

    #[inline(always)]
    pub(crate) fn pop(&self) -> Option<&Event> {
        if self.is_empty() {
            return None;
        }
        let place = self.head.get();
        // SAFETY: the ring is not empty, so this slot is written. The caller of
        // `CompletionQueues::cq_poll` reads the event before the slot is written again.
        let RingSlot(event) = unsafe { place.as_ref() };
        self.head.set(self.after(place));
        self.release();
        Some(event)
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    #[cold]
    pub(crate) fn overrun(&self) {
        self.overrun.set(true);
        self.capacity.set(0);
    }

    #[inline]
    pub(crate) fn is_overrun(&self) -> bool {
        self.overrun.get()
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn report_overrun(&self) {
        if self.is_overrun() {
            self.reserved.set(self.reserved.get() + 1);
            let _ = self.push(Event::failure(0, CompletionFlags::empty(), Errno::EOVERRUN));
        }
    }

    #[cold]
    pub(crate) fn lose_newest(&self) {
        let after = self.tail.get();
        let behind_newest = if after == self.ring { self.end } else { after };
        // SAFETY: the newest event lies in the slot before `behind_newest`.
        self.tail.set(unsafe { behind_newest.sub(1) });
        self.release();
    }
}
