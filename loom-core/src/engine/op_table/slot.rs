//! [`Slot`]: one operation, its buffer, and what is known of it.

use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use super::list::NONE;
use super::{Direction, Kind, OpKey};
use crate::transport::Event;

/// One operation: its buffer, and what is known of it.
///
/// Each fact is a cell of its own: they are written and read again within nanoseconds, and a processor is slow to read
/// together what it has just written apart.
#[repr(C)]
pub struct Slot<B> {
    buffer: UnsafeCell<MaybeUninit<B>>,
    /// How many bytes the buffer lent.
    pub(super) lent: Cell<usize>,
    /// Of the slot's present or last operation. Generations are odd, and so never zero: no operation has the context of
    /// `Context::NONE`.
    pub(super) key: Cell<OpKey>,
    pub(super) phase: Cell<Phase>,
    /// What is or was posted.
    pub(super) kind: Cell<Kind>,
    /// Through which endpoint.
    pub(super) endpoint: Cell<u16>,
    /// The neighbours in the list that the phase implies.
    pub(super) before: Cell<u32>,
    pub(super) after: Cell<u32>,
    /// The count of events when the slot became an orphan. Of a multi-receive that is being filled: whether it was
    /// [cancelled](Self::cancelled).
    pub(super) since: Cell<u32>,
    /// Of a multi-receive: how many of its pieces are out. Safe code may forget them, one after the other: 64 bits are more
    /// than there is time for. Of a receive that may be posted again: the address from which its message may come. Of an atomic operation on a value: the second slot, if it has one.
    pub(super) pieces: Cell<u64>,
    /// Of a multi-receive: the first byte that it lent.
    pub(super) start: Cell<NonNull<u8>>,
    room: UnsafeCell<Scratch>,
}

/// Whether a multi-receive was cancelled, and how its end is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cancelled {
    No,
    /// The transport says so (`FI_MULTI_RECV`).
    EndIsFlagged,
    /// It is the next event with `ECANCELED`.
    EndIsNext,
}

/// What a slot is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No buffer; in the free list.
    Free,
    /// The buffer is in the slot and user code runs: not yet lent.
    Held,
    /// Lent, and over with its next event.
    Posted,
    /// Lent, and filled with one message after the other: a multi-receive.
    Filling,
    /// A multi-receive that is over, waiting for its pieces to come back.
    Draining,
    /// As `Draining`, and more events of it may still come (rule 4).
    DrainingOwed,
    /// An atomic operation on a value that is in flight: without buffer. Rule 11.
    PostedValue,
    /// The values of such an operation lie in the scratch space: without buffer. Rule 11.
    Holds,
    /// A peek that waits for its answer: without buffer.
    Peeking,
    /// A message is claimed under the slot's context: without buffer.
    Claimed,
    /// A receive that a peer's write has used up, waiting for being posted again; in the list of those.
    UsedUp,
    /// The same while its buffer is asked again what it lends: user code runs.
    HeldAgain,
    /// A receive of the table's own that is posted: without buffer.
    Spare,
    /// The same, used up, and in the list of those.
    SpareUsedUp,
    /// Over, waiting to be taken; in a list of parked completions.
    Done,
    /// As `Done`, and its event may still come (rule 4).
    Owed,
    /// Taken, but its event may still come (rule 4); in the list of orphans.
    Orphan,
    /// The buffer was dropped with the table, which is not used any more.
    Dropped,
}

/// The provider's scratch space while the operation is posted, its event once that has arrived.
#[derive(Clone, Copy)]
union Scratch {
    space: [u64; 8],
    event: Event,
}

const _: () = assert!(size_of::<Slot<&[u8]>>() == 128, "the slot of a slice takes two cache lines");
const _: () = assert!(size_of::<Scratch>() == 64, "fi_context2 is 64 bytes, and an event is not larger");

impl<B> Slot<B> {
    /// A free slot of this number, before another one in the free list.
    pub(super) const fn free(index: u32, after: u32) -> Self {
        Slot {
            buffer: UnsafeCell::new(MaybeUninit::uninit()),
            lent: Cell::new(0),
            key: Cell::new(OpKey::before_first(index)),
            phase: Cell::new(Phase::Free),
            kind: Cell::new(Kind::Send),
            endpoint: Cell::new(0),
            before: Cell::new(NONE),
            after: Cell::new(after),
            since: Cell::new(0),
            pieces: Cell::new(0),
            start: Cell::new(NonNull::dangling()),
            room: UnsafeCell::new(Scratch { space: [0; 8] }),
        }
    }

    /// Names its present or last operation.
    #[inline]
    pub(crate) const fn key(&self) -> OpKey {
        self.key.get()
    }

    /// Whether its buffer or values are lent.
    pub(super) fn is_lent(&self) -> bool {
        matches!(self.phase.get(), Phase::Posted | Phase::Filling | Phase::PostedValue)
    }

    /// How many bytes the slot's operation has moved, if it is over with this event, which is a success. A receive that claims more
    /// than was lent is not one.
    #[inline(always)]
    pub(super) fn succeeds_with(&self, event: &Event) -> Option<usize> {
        if self.phase.get() != Phase::Posted {
            return None;
        }
        let lent = self.lent.get();
        match self.kind.get().direction() {
            Direction::Transmit => Some(lent),
            Direction::Receive => (event.len <= lent).then_some(event.len),
        }
    }

    /// Of a multi-receive that is being filled: whether it was cancelled.
    pub(super) fn cancelled(&self) -> Cancelled {
        [Cancelled::EndIsFlagged, Cancelled::EndIsNext]
            .into_iter()
            .find(|how| *how as u32 == self.since.get())
            .unwrap_or(Cancelled::No)
    }

    /// Sets what [`cancelled`](Self::cancelled) says; of a multi-receive that is being filled only (an orphan's `since` is rule 4's).
    pub(super) fn set_cancelled(&self, cancelled: Cancelled) {
        self.since.set(cancelled as u32);
    }

    /// Begins the slot's next life, and tells its key.
    #[inline]
    pub(super) fn hold(&self) -> OpKey {
        let key = self.key.get().next();
        self.key.set(key);
        self.phase.set(Phase::Held);
        key
    }

    /// Where the scratch space is in a slot.
    pub(super) const SPACE: usize = core::mem::offset_of!(Self, room);

    /// The provider's scratch space.
    #[inline]
    pub(super) const fn space(&self) -> *mut [u64; 8] {
        self.room.get().cast()
    }

    /// The same memory, while it is not the provider's.
    pub(super) fn scratch(&self) -> NonNull<u8> {
        NonNull::from_ref(&self.room).cast()
    }

    /// Moves a buffer in, and lets it say what it lends.
    ///
    /// # Safety
    /// Rule 2: the slot is `Held`, so the caller alone refers to its buffer.
    #[inline]
    pub(super) unsafe fn fill<L>(&self, buf: B, lend: impl FnOnce(&mut B) -> L) -> L {
        // SAFETY: the caller's promise.
        let cell = unsafe { &mut *self.buffer.get() };
        // Rule 1: the pointer is taken from the buffer in its slot.
        lend(cell.write(buf))
    }

    /// Moves the buffer out.
    ///
    /// # Safety
    /// Rule 2: a buffer is in the slot and not lent. It is taken once.
    #[inline]
    pub(super) unsafe fn empty(&self) -> B {
        // SAFETY: the caller's promise.
        let cell = unsafe { &*self.buffer.get() };
        // SAFETY: as above.
        unsafe { cell.assume_init_read() }
    }

    /// The buffer.
    ///
    /// # Safety
    /// Rule 2: a buffer is in the slot, not lent, and the caller alone refers to it.
    #[expect(clippy::mut_from_ref, reason = "the caller's promise")]
    pub(super) unsafe fn buffer_mut(&self) -> &mut B {
        // SAFETY: the caller's promise.
        let cell = unsafe { &mut *self.buffer.get() };
        // SAFETY: as above.
        unsafe { cell.assume_init_mut() }
    }

    /// Keeps an event where the scratch space was.
    ///
    /// # Safety
    /// The operation is over: the provider does not use its scratch space any more.
    pub(super) unsafe fn keep(&self, event: Event) {
        // SAFETY: the caller's promise.
        unsafe { self.room.get().write(Scratch { event }) };
    }

    /// The event that was kept.
    ///
    /// # Safety
    /// One was, since the operation was posted.
    pub(super) unsafe fn kept(&self) -> Event {
        // SAFETY: the room is this slot's alone since the event was kept.
        let room = unsafe { self.room.get().read() };
        // SAFETY: the caller's promise.
        unsafe { room.event }
    }
}

impl<B> fmt::Debug for Slot<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("key", &self.key.get()).field("phase", &self.phase.get()).finish_non_exhaustive()
    }
}
