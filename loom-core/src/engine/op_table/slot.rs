use core::cell::{Cell, UnsafeCell};
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use super::{Direction, Kind, OpKey};
use crate::transport::Event;
use crate::util::debug::debug_struct;
use crate::util::index_list::{Linked, Links};

/// One operation and its buffer.
#[repr(C)]
pub struct Slot<B> {
    pub(super) buffer: UnsafeCell<MaybeUninit<B>>,
    pub(super) lent: Cell<usize>,
    /// Generations are odd, so no context equals `Context::NONE`.
    pub(super) key: Cell<OpKey>,
    pub(super) phase: Cell<Phase>,
    pub(super) kind: Cell<Kind>,
    pub(super) endpoint: Cell<u16>,
    /// Neighbours in the list that the phase implies.
    pub(super) links: Links,
    /// Event count of an orphan, or [cancellation](Self::cancelled) of a multi-receive.
    pub(super) since: Cell<u32>,
    /// Pieces out of a multi-receive, source address of a receive to post again, or second slot of
    /// an atomic operation on a value.
    pub(super) pieces: Cell<u64>,
    /// First byte that a multi-receive lent.
    pub(super) start: Cell<NonNull<u8>>,
    scratch: UnsafeCell<Scratch>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cancelled {
    No,
    /// The transport flags the end (`FI_MULTI_RECV`).
    EndIsFlagged,
    /// The next event with `ECANCELED` is the end.
    EndIsNext,
}

/// Use of a slot. `Free`, `PostedValue`, `Holds`, `Peeking`, `Claimed`, `Spare` and `SpareUsedUp`
/// are without buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Free,
    /// Not yet lent, while user code runs.
    Held,
    /// Lent, until its next event.
    Posted,
    /// Lent to a multi-receive.
    Filling,
    /// Completed multi-receive with pieces out.
    Draining,
    /// Like `Draining`, but further events may arrive (rule 4).
    DrainingOwed,
    /// Atomic operation on a value in flight (rule 11).
    PostedValue,
    /// Second slot with the values of a `PostedValue` (rule 11).
    Holds,
    Peeking,
    /// Message claimed under the slot's context.
    Claimed,
    /// Used up by a peer's write (rule 10).
    UsedUp,
    /// Used-up receive while `lend` runs again.
    HeldAgain,
    /// The table's own receive, posted (rule 10).
    Spare,
    /// The table's own receive, in the list of used-up ones.
    SpareUsedUp,
    /// Completed, in a list of parked completions.
    Done,
    /// Like `Done`, but its event may still arrive (rule 4).
    Owed,
    /// Taken, but its event may still arrive (rule 4): in the list of orphans.
    Orphan,
    /// The buffer was dropped with the table.
    Dropped,
}

impl Phase {
    pub(super) const fn is_unfinished(self) -> bool {
        match self {
            Phase::Held
            | Phase::Posted
            | Phase::Filling
            | Phase::Draining
            | Phase::DrainingOwed
            | Phase::PostedValue
            | Phase::Peeking
            | Phase::UsedUp
            | Phase::HeldAgain => true,
            Phase::Free
            | Phase::Holds
            | Phase::Claimed
            | Phase::Spare
            | Phase::SpareUsedUp
            | Phase::Done
            | Phase::Owed
            | Phase::Orphan
            | Phase::Dropped => false,
        }
    }
}

/// Scratch space of the provider while posted, then the event.
#[derive(Clone, Copy)]
union Scratch {
    space: [u64; 8],
    event: Event,
}

const _: () = assert!(size_of::<Slot<&[u8]>>() == 128, "the slot of a slice takes two cache lines");
const _: () = assert!(size_of::<Scratch>() == 64, "fi_context2 is 64 bytes, and an event is not larger");

impl<B> Linked for [Slot<B>] {
    #[inline]
    fn links(&self, index: u32) -> Option<&Links> {
        self.get(index as usize).map(|slot| &slot.links)
    }
}

impl<B> Slot<B> {
    pub(super) const fn free(index: u32, after: u32) -> Self {
        Slot {
            buffer: UnsafeCell::new(MaybeUninit::uninit()),
            lent: Cell::new(0),
            key: Cell::new(OpKey::before_first(index)),
            phase: Cell::new(Phase::Free),
            kind: Cell::new(Kind::Send),
            endpoint: Cell::new(0),
            links: Links::new(after),
            since: Cell::new(0),
            pieces: Cell::new(0),
            start: Cell::new(NonNull::dangling()),
            scratch: UnsafeCell::new(Scratch { space: [0; 8] }),
        }
    }

    #[inline]
    pub(crate) const fn key(&self) -> OpKey {
        self.key.get()
    }

    pub(super) fn is_lent(&self) -> bool {
        matches!(self.phase.get(), Phase::Posted | Phase::Filling | Phase::PostedValue)
    }

    #[inline]
    pub(super) fn is_parked(&self) -> bool {
        matches!(self.phase.get(), Phase::Done | Phase::Owed)
    }

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

    pub(super) fn cancelled(&self) -> Cancelled {
        [Cancelled::EndIsFlagged, Cancelled::EndIsNext]
            .into_iter()
            .find(|how| *how as u32 == self.since.get())
            .unwrap_or(Cancelled::No)
    }

    pub(super) fn set_cancelled(&self, cancelled: Cancelled) {
        self.since.set(cancelled as u32);
    }

    pub(super) fn begin_filling(&self, start: NonNull<u8>) {
        self.start.set(start);
        self.pieces.set(0);
        self.set_cancelled(Cancelled::No);
        self.phase.set(Phase::Filling);
    }

    pub(super) const SPACE: usize = core::mem::offset_of!(Self, scratch);

    #[inline]
    pub(super) const fn space(&self) -> *mut [u64; 8] {
        self.scratch.get().cast()
    }

    pub(super) fn scratch(&self) -> NonNull<u8> {
        NonNull::from_ref(&self.scratch).cast()
    }

    /// # Safety
    /// Rule 2: the slot holds a buffer that is not lent, and it is taken once.
    #[inline]
    pub(super) unsafe fn empty(&self) -> B {
        // SAFETY: the caller guarantees that the buffer is not lent.
        let cell = unsafe { &*self.buffer.get() };
        // SAFETY: the caller guarantees that the slot holds a buffer and that it is taken once.
        unsafe { cell.assume_init_read() }
    }

    /// # Safety
    /// Rule 2: the slot holds a buffer that is not lent, and only the caller refers to it.
    #[expect(clippy::mut_from_ref, reason = "the caller's promise")]
    pub(super) unsafe fn buffer_mut(&self) -> &mut B {
        // SAFETY: the caller guarantees that no other reference to the buffer exists.
        let cell = unsafe { &mut *self.buffer.get() };
        // SAFETY: the caller guarantees that the slot holds a buffer.
        unsafe { cell.assume_init_mut() }
    }

    /// Stores an event in place of the scratch space.
    ///
    /// # Safety
    /// The operation has completed: the provider no longer uses its scratch space.
    pub(super) unsafe fn store_event(&self, event: Event) {
        // SAFETY: the caller guarantees that the provider no longer uses the scratch space.
        unsafe { self.scratch.get().write(Scratch { event }) };
    }

    /// Stored event.
    ///
    /// # Safety
    /// An event was stored since the operation was posted.
    pub(super) unsafe fn stored_event(&self) -> Event {
        // SAFETY: only this slot uses the memory since the event was stored.
        let scratch = unsafe { self.scratch.get().read() };
        // SAFETY: the caller guarantees that an event was stored.
        unsafe { scratch.event }
    }
}

debug_struct!([B] Slot[B], |it| key: it.key.get(), phase: it.phase.get());
