//! The software transport's completion queue: a ring of events in the caller's memory.

#![allow(unsafe_code, reason = "a ring in memory that the caller provides")]

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::NonNull;

use super::address::NO_PORT;
use super::sleeper::Sleeper;
use crate::transport::Event;
use crate::vocabulary::{CompletionFlags, Errno};

/// A place in the ring: one cache line.
#[derive(Debug)]
#[repr(align(64))]
struct RingSlot(Event);

/// The head of the caller's memory; the ring follows. It has a place more than there can be events, so that it is empty
/// where head and tail meet.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Queue {
    ring: NonNull<RingSlot>,
    end: NonNull<RingSlot>,
    /// Next event to read.
    head: Cell<NonNull<RingSlot>>,
    /// Where the next event goes.
    tail: Cell<NonNull<RingSlot>>,
    capacity: Cell<u32>,
    /// Events in the ring, and places kept for operations in flight.
    reserved: Cell<u32>,
    /// The port to look at first; the ports that are bound to this queue are linked in a circle.
    pub(super) turn: Cell<u16>,
    /// How many events in a row that port may still have.
    streak: Cell<u16>,
    overrun: Cell<bool>,
    /// What its thread sleeps on, if it was opened with something. Last: what every poll uses is on one line.
    sleeper: Option<Sleeper>,
}

impl Queue {
    fn places(depth: usize) -> Option<(Layout, usize)> {
        let ring = Layout::array::<RingSlot>(depth.checked_add(1)?).ok()?;
        let (layout, ring) = Layout::new::<Queue>().extend(ring).ok()?;
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

    /// Builds a queue in `memory`; `None` if the depth is zero or does not fit. What it sleeps on is to be [dropped](Self::close).
    ///
    /// # Safety
    /// `memory` has the layout of `depth`, and stays until the queue is not used any more.
    pub(super) unsafe fn build(memory: NonNull<u8>, depth: usize, sleeper: Option<Sleeper>) -> Option<NonNull<Queue>> {
        let (_, ring) = Self::places(depth)?;
        let capacity = u32::try_from(depth).ok().filter(|depth| *depth > 0)?;
        let queue = memory.cast::<Queue>();
        // SAFETY: the ring lies at this offset of the layout.
        let ring = unsafe { memory.add(ring) }.cast::<RingSlot>();
        // SAFETY: the ring has a place more than the depth, and ends there.
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

    /// Drops what the queue's thread sleeps on.
    ///
    /// # Safety
    /// The queue is one that [`build`](Self::build) has built, and is not used any more, by any thread.
    pub(super) unsafe fn close(queue: NonNull<Queue>) {
        // SAFETY: a field of what `build` has written.
        let sleeper = unsafe { &raw mut (*queue.as_ptr()).sleeper };
        // SAFETY: as above; nothing refers to it any more, nor is it dropped again: the memory is the caller's, who knows no queue in it.
        unsafe { sleeper.drop_in_place() };
    }

    /// What the queue's thread sleeps on.
    pub(super) const fn sleeper(&self) -> Option<&Sleeper> {
        self.sleeper.as_ref()
    }

    /// Keeps a place for the event of an operation that is about to begin; `false` if there is none left.
    #[inline]
    pub(super) fn reserve(&self) -> bool {
        let reserved = self.reserved.get();
        let granted = reserved < self.capacity.get();
        if granted {
            self.reserved.set(reserved + 1);
        }
        granted
    }

    /// Gives a place up, because the operation will have no event.
    #[inline]
    pub(super) fn release(&self) {
        debug_assert!(self.reserved.get() > 0, "an event without a reserved place");
        self.reserved.set(self.reserved.get() - 1);
    }

    const LONGEST_STREAK: u16 = 16;

    /// A port has had an event. Where there was one there will be more, so that it is looked at first again; `true` if it
    /// has been often enough, and the next one's turn has come.
    #[inline]
    pub(super) fn had_its_turn(&self, port: u16) -> bool {
        if self.turn.get() != port {
            self.turn.set(port);
            self.streak.set(Self::LONGEST_STREAK);
        }
        let left = self.streak.get() - 1;
        self.streak.set(if left == 0 { Self::LONGEST_STREAK } else { left });
        left == 0
    }

    /// The place after this one.
    #[inline(always)]
    fn after(&self, place: NonNull<RingSlot>) -> NonNull<RingSlot> {
        // SAFETY: a place of the ring, whose end is one beyond the last.
        let next = unsafe { place.add(1) };
        if next == self.end { self.ring } else { next }
    }

    /// Adds an event, in a place that was reserved for it; returns where it lies until it is popped.
    #[inline]
    pub(super) fn push(&self, event: Event) -> NonNull<Event> {
        let place = self.tail.get();
        let next = self.after(place);
        debug_assert!(next != self.head.get(), "more events than reserved places");
        // SAFETY: a place of the ring, and free: events in the ring never exceed the reserved places.
        unsafe { place.write(RingSlot(event)) };
        self.tail.set(next);
        const { assert!(core::mem::offset_of!(RingSlot, 0) == 0, "a place begins with its event") };
        place.cast()
    }

    /// Takes the oldest event, and gives its place up.
    #[inline(always)]
    pub(super) fn pop(&self) -> Option<&Event> {
        if self.is_empty() {
            return None;
        }
        let place = self.head.get();
        // SAFETY: the ring is not empty, so this place was written. It is written again when its turn comes, and looked at
        // before: `CompletionQueues::cq_poll`.
        let RingSlot(event) = unsafe { place.as_ref() };
        self.head.set(self.after(place));
        self.release();
        Some(event)
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// There was no place for an event: what is here can still be had, and nothing more comes.
    #[cold]
    pub(super) fn overrun(&self) {
        self.overrun.set(true);
        self.capacity.set(0);
    }

    #[inline]
    pub(super) fn is_overrun(&self) -> bool {
        self.overrun.get()
    }

    /// Where there is no event, and there are no endpoints to ask: says so, if the queue was overrun.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_overrun(&self) {
        if self.is_overrun() {
            self.reserved.set(self.reserved.get() + 1);
            let _ = self.push(Event::failure(0, CompletionFlags::empty(), Errno::EOVERRUN));
        }
    }

    /// Takes the newest event away, as if there had been no place for it.
    #[cold]
    pub(super) fn lose_newest(&self) {
        let after = self.tail.get();
        let behind_newest = if after == self.ring { self.end } else { after };
        // SAFETY: there was an event, in the place before that.
        self.tail.set(unsafe { behind_newest.sub(1) });
        self.release();
    }
}
