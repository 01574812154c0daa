//! Lanes: where the short messages of a sender travel to a receiver that it talks to.
//!
//! A message that goes by the [inbox](super::list) moves several cache lines one after the other: its cell, the inbox's word, the
//! cell's state. A lane is a ring of [slots](Slot) for one sender and one receiver. In a slot is everything that a short
//! message says, and the word that tells of it: up to 40 bytes are all in one line. The receiver says how far it is once in a quarter
//! of the ring. So such a message moves one line, and those of several messages move at a time.
//!
//! Each endpoint has a few lanes of its own, for what it sends (`soft/lane_asking.rs` says to whom); a receiver reads those that it has
//! accepted (`soft/lane_delivery.rs`). Everything else goes by the inbox: longer messages, other peers, and messages whose slot is
//! taken. What goes to a receiver with a lane is *numbered* from the first message on, on both ways. The receiver delivers number by
//! number, so that the two ways together keep the order of messages.
//!
//! A message that no receive was posted for leaves its slot: each slot has a cell for that, in which the message waits. The sender
//! does not use a slot again whose cell is away.
//!
//! # Whose a lane is
//!
//! ```text
//! IDLE ──ask (sender)──► ASKED ──accept (receiver)──► OPEN, WATCHED ──leave (receiver)──► IDLE
//!                          │ └──refuse (receiver)──► IDLE
//!                          └──withdraw (sender)──► WITHDRAWN ──refuse (receiver)──► IDLE
//! ```
//!
//! A lane is watched if its receiver may [sleep](super::sleeper): the sender then fills slots by another step, and looks whether it does.
//!
//! While it is idle, a lane is its sender's. The sender asks by a cell in the receiver's inbox, and so it says that it is done with
//! the lane. A receiver leaves then, or when it closes. No thread waits for that: a sender whose lanes are not idle has none to ask for.

#![allow(unsafe_code, reason = "slots change hands between threads")]

use core::cell::{Cell, UnsafeCell};
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use super::cell::{MessageCell, State};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::vocabulary::CompletionFlags;

/// The longest message that fits into a slot, in bytes.
pub(super) const SLOT_BYTES: usize = 104;

/// The most slots that a lane has.
pub(super) const MOST_SLOTS: u32 = 256;

/// In a slot's word, below the message's number: whether it has a tag, whether it has immediate data, and how long it is.
const TAGGED: u64 = 1 << 8;
const WITH_DATA: u64 = 1 << 7;
const LEN: u64 = WITH_DATA - 1;
const NUMBER_SHIFT: u32 = 9;

const _: () = assert!((SLOT_BYTES as u64) < LEN, "the word has room for the length");

/// What a slot says of its message besides the number: the lower part of its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts(u64);

impl Facts {
    /// Of no message, but the news that memory was written: the slot has the length in place of a tag, and immediate data.
    pub(super) const WRITTEN: Facts = Facts(LEN | WITH_DATA);

    /// Whether they are [`WRITTEN`](Self::WRITTEN).
    #[inline(always)]
    pub(super) const fn is_written(self) -> bool {
        self.0 & LEN == LEN
    }

    /// Of a message that is so long, `SLOT_BYTES` at most.
    #[inline(always)]
    pub(super) const fn new(len: usize, tagged: bool, with_data: bool) -> Self {
        debug_assert!(len <= SLOT_BYTES, "others go by the inbox");
        let tagged = if tagged { TAGGED } else { 0 };
        let with_data = if with_data { WITH_DATA } else { 0 };
        Facts(len as u64 | tagged | with_data)
    }

    #[inline(always)]
    pub(super) const fn len(self) -> usize {
        (self.0 & LEN) as usize
    }

    #[inline(always)]
    pub(super) const fn is_tagged(self) -> bool {
        self.0 & TAGGED != 0
    }

    /// What the receiver's completion reports.
    #[inline(always)]
    pub(super) const fn received(self) -> CompletionFlags {
        let kind = if self.is_tagged() { CompletionFlags::TAGGED } else { CompletionFlags::MSG };
        let with_data = self.0 & WITH_DATA != 0;
        let data = if with_data { CompletionFlags::REMOTE_CQ_DATA } else { CompletionFlags::empty() };
        kind.union(CompletionFlags::RECV).union(data)
    }
}

/// Room for one message on its way: a cache line for up to 40 bytes and all that is said of them, and another one for the rest.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct Slot {
    /// The message's number, and the [`Facts`] of it.
    word: AtomicU64,
    pub(super) tag: Cell<u64>,
    pub(super) data: Cell<u64>,
    bytes: UnsafeCell<MaybeUninit<[u8; SLOT_BYTES]>>,
}

#[cfg(not(loom_model))]
const _: () = assert!(size_of::<Slot>() == 128, "a slot is two cache lines");

// SAFETY: `word` is atomic. The other fields are used by one side at a time: by the sender until it sets the word, by the receiver
// from then on until it says that it is further.
unsafe impl Sync for Slot {}

impl Slot {
    /// An empty one. Numbers begin with one.
    pub(super) fn new() -> Self {
        let bytes = UnsafeCell::new(MaybeUninit::uninit());
        Slot { word: AtomicU64::new(0), tag: Cell::new(0), data: Cell::new(0), bytes }
    }

    pub(super) const fn room(&self) -> *mut u8 {
        self.bytes.get().cast()
    }
}

/// Whose a lane is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum LaneState {
    /// Its sender's.
    Idle,
    /// The sender has asked a receiver.
    Asked,
    /// It was asked, and has closed since.
    Withdrawn,
    /// The receiver reads it.
    Open,
    /// The same, of a receiver that may sleep: the sender looks whether it does.
    OpenWatched,
}

/// What a sender does with a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaneUse {
    /// Nothing: it may ask for it, if it is idle.
    None,
    /// It has asked.
    Asked,
    /// What it sends to the peer is numbered, and goes by the lane.
    Numbered,
    /// It has said that it is done, and numbers nothing any more.
    Done,
}

/// The sender's part of a lane, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Sent {
    /// The receiver: its fabric address.
    to: Cell<u64>,
    /// The number of the next message. It only grows, for all receivers: no slot ever says a number twice.
    next: Cell<u64>,
    /// Up to which number the receiver was done when the sender last looked.
    done: Cell<u64>,
    /// What `next` was when the sender last thought about its lanes.
    next_then: Cell<u64>,
    used: Cell<LaneUse>,
}

/// A lane, without its slots and cells.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct Lane {
    /// Read with each message, and written seldom.
    state: AtomicU32,
    mask: u32,
    /// The lane's own number in the network.
    index: u32,
    slots: NonNull<Slot>,
    /// The first of the lane's cells: one for each slot, and the two that ask and say that it is over.
    cells: NonNull<u8>,
    sent: Sent,
    /// Up to which number the receiver is done, as it has last said.
    done: DoneWord,
}

#[derive(Debug)]
#[repr(align(128))]
struct DoneWord(AtomicU64);

// SAFETY: `state` and `done` are atomic, slots and cells `Sync`, and their addresses never change; `sent` is the sender's, which is one
// thread at a time, like `EndpointState::own`.
unsafe impl Sync for Lane {}

/// How many cells a lane of a number of slots has: one for each slot, and those that ask and say that it is over.
pub(super) const fn cells_of_lane(slots: u32) -> u32 {
    slots + 2
}

/// From one of a lane's cells to the next: a head, and room for as many bytes as a slot has.
pub(super) const LANE_CELL: usize = (size_of::<MessageCell>() + SLOT_BYTES).next_multiple_of(align_of::<MessageCell>());

impl Lane {
    /// An idle lane of `count` slots, a power of two.
    ///
    /// # Safety
    /// There are that many empty slots, and the [cells](cells_of_lane) for them, `LANE_CELL` bytes apart; they stay while the lane is used, and
    /// belong to it.
    pub(super) unsafe fn new(index: u32, slots: NonNull<Slot>, count: u32, cells: NonNull<u8>) -> Self {
        debug_assert!(count.is_power_of_two(), "a mask finds the slot");
        Lane {
            state: AtomicU32::new(LaneState::Idle as u32),
            mask: count - 1,
            index,
            slots,
            cells,
            sent: Sent {
                to: Cell::new(0),
                next: Cell::new(1),
                done: Cell::new(1),
                next_then: Cell::new(0),
                used: Cell::new(LaneUse::None),
            },
            done: DoneWord(AtomicU64::new(1)),
        }
    }

    pub(super) const fn index(&self) -> u32 {
        self.index
    }

    pub(super) const fn slot_count(&self) -> u64 {
        self.mask as u64 + 1
    }

    /// Which of the slots, and of the cells, are those of the message of this number.
    #[expect(clippy::cast_possible_truncation, reason = "below the count of slots")]
    #[inline(always)]
    const fn place(&self, number: u64) -> usize {
        (number & self.mask as u64) as usize
    }

    /// The slot of the message of this number.
    #[inline(always)]
    fn slot(&self, number: u64) -> &Slot {
        // SAFETY: below the count, by the mask; `new` says that they are there.
        let slot = unsafe { self.slots.add(self.place(number)) };
        // SAFETY: as above.
        unsafe { slot.as_ref() }
    }

    #[inline(always)]
    fn cell_at(&self, at: usize) -> &MessageCell {
        // SAFETY: callers stay below the count of cells that `new` says are there.
        let cell = unsafe { self.cells.add(at * LANE_CELL) };
        // SAFETY: as above.
        unsafe { cell.cast().as_ref() }
    }

    /// The cell in which the message of this number waits, if it has to.
    #[inline(always)]
    pub(super) fn cell(&self, number: u64) -> &MessageCell {
        self.cell_at(self.place(number))
    }

    /// The cell that asks the receiver.
    pub(super) fn asking_cell(&self) -> &MessageCell {
        self.cell_at(self.mask as usize + 1)
    }

    /// The cell that says that it is over.
    pub(super) fn ending_cell(&self) -> &MessageCell {
        self.cell_at(self.mask as usize + 2)
    }

    /// Whether the receiver reads it.
    ///
    /// Relaxed: what a receiver writes that leaves is its last word on the lane, which the sender [acquires](Self::is_idle) before it
    /// begins anew. A slot that is filled behind it is lost with the receiver, like all that was sent to it.
    #[inline(always)]
    pub(super) fn is_open(&self) -> bool {
        self.state.load(Ordering::Relaxed) >= LaneState::Open as u32
    }

    /// Whether it [is open](Self::is_open), and its receiver never sleeps. It is the same as long as it is open.
    #[inline(always)]
    pub(super) fn is_unwatched(&self) -> bool {
        self.state.load(Ordering::Relaxed) == LaneState::Open as u32
    }
}

/// For the sender alone.
impl Lane {
    /// Whether it is the sender's.
    ///
    /// Acquire: pairs with `leave`, so that the receiver is done with slots and cells.
    pub(super) fn is_idle(&self) -> bool {
        self.state.load(Ordering::Acquire) == LaneState::Idle as u32
    }

    /// Makes it ready for a receiver that is about to be asked; returns the number with which it begins.
    pub(super) fn ask(&self, to: u64) -> u64 {
        let next = self.sent.next.get();
        self.sent.to.set(to);
        self.sent.done.set(next);
        self.sent.used.set(LaneUse::Asked);
        // Relaxed, both: the cell that asks brings it to the receiver.
        self.done.0.store(next, Ordering::Relaxed);
        self.state.store(LaneState::Asked as u32, Ordering::Relaxed);
        next
    }

    /// Takes the question back, if the receiver has not read it: `true` if it is no receiver's, and none will accept it.
    pub(super) fn withdraw(&self) -> bool {
        let (asked, withdrawn) = (LaneState::Asked as u32, LaneState::Withdrawn as u32);
        // Relaxed: it decides who says the last word. An accepted lane is ended by a cell in the inbox, which orders the rest.
        let withdraws = self.state.compare_exchange(asked, withdrawn, Ordering::Relaxed, Ordering::Relaxed);
        !matches!(withdraws, Err(state) if state >= LaneState::Open as u32)
    }

    /// The question has not reached anybody.
    pub(super) fn take_back(&self) {
        self.sent.used.set(LaneUse::None);
        self.state.store(LaneState::Idle as u32, Ordering::Relaxed);
    }

    pub(super) fn to(&self) -> u64 {
        self.sent.to.get()
    }

    pub(super) fn used(&self) -> LaneUse {
        self.sent.used.get()
    }

    pub(super) fn set_used(&self, used: LaneUse) {
        self.sent.used.set(used);
    }

    /// Whether nothing has been numbered since this was last asked.
    pub(super) fn was_quiet(&self) -> bool {
        let next = self.sent.next.get();
        self.sent.next_then.replace(next) == next
    }

    /// Numbers a message that goes by the inbox.
    #[inline]
    pub(super) fn number(&self) -> u64 {
        let number = self.sent.next.get();
        self.sent.next.set(number + 1);
        number
    }

    /// Whether the next message has a slot: it is free, and its cell at home.
    #[inline(always)]
    pub(super) fn room(&self) -> Room {
        let next = self.sent.next.get();
        if next - self.sent.done.get() >= self.slot_count() {
            // Acquire: pairs with `say_done`, so that the receiver has read the slots.
            self.sent.done.set(self.done.0.load(Ordering::Acquire));
            if next - self.sent.done.get() >= self.slot_count() {
                return Room::Full;
            }
        }
        if self.cell(next).is(State::Home) { Room::Free } else { Room::Kept }
    }

    /// Fills the next slot, which is [free](Self::room), and tells the receiver, which [never sleeps](Self::is_unwatched).
    #[inline(always)]
    pub(super) fn send(&self, facts: Facts, said: (u64, u64), fill: impl FnOnce(*mut u8)) {
        // Release: what the slot says is written before.
        self.send_by(facts, said, fill, |slot, word| slot.store(word, Ordering::Release));
    }

    /// As [`send`](Self::send), to a receiver that may sleep: the sender then looks whether it does.
    #[inline]
    pub(super) fn send_watched(&self, facts: Facts, said: (u64, u64), fill: impl FnOnce(*mut u8)) {
        self.send_by(facts, said, fill, |slot, word| {
            // Release: as above. Acquire: pairs with a look that comes before, so that the sender sees that the receiver sleeps.
            slot.swap(word, Ordering::AcqRel);
        });
    }

    /// `said` is the tag, or what stands in its place, and the immediate data.
    #[inline(always)]
    fn send_by(
        &self,
        facts: Facts,
        (tag, data): (u64, u64),
        fill: impl FnOnce(*mut u8),
        tell: impl FnOnce(&AtomicU64, u64),
    ) {
        let next = self.sent.next.get();
        let slot = self.slot(next);
        slot.tag.set(tag);
        slot.data.set(data);
        fill(slot.room());
        tell(&slot.word, next << NUMBER_SHIFT | facts.0);
        self.sent.next.set(next + 1);
        prefetch_for_writing(self.slot(next + 1));
    }
}

/// Whether there is room for a short message in a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Free,
    /// The receiver has yet to read as many messages as there are slots.
    Full,
    /// The message that had the slot waits in its cell.
    Kept,
}

/// For the receiver alone.
impl Lane {
    /// Answers the sender's question: `true` if the lane is the receiver's now, which may sleep if it is `watched`.
    pub(super) fn accept(&self, watched: bool) -> bool {
        let open = if watched { LaneState::OpenWatched } else { LaneState::Open } as u32;
        let asked = LaneState::Asked as u32;
        // Relaxed: a sender sees by it that it may number messages, and nothing that the receiver has written.
        let accepted = self.state.compare_exchange(asked, open, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if !accepted {
            self.leave();
        }
        accepted
    }

    /// Gives the lane back to the sender: the receiver does not touch it any more.
    ///
    /// Release: what was read of it was read before.
    pub(super) fn leave(&self) {
        self.state.store(LaneState::Idle as u32, Ordering::Release);
    }

    /// For a control of the model.
    #[cfg(all(test, loom_model))]
    pub(super) fn leave_without_release(&self) {
        self.state.store(LaneState::Idle as u32, Ordering::Relaxed);
    }

    /// What has come under this number, if it came by the lane.
    #[inline(always)]
    pub(super) fn arrived(&self, number: u64) -> Option<(&Slot, Facts)> {
        let slot = self.slot(number);
        // Acquire: pairs with `send`.
        let word = slot.word.load(Ordering::Acquire);
        (word >> NUMBER_SHIFT == number).then_some((slot, Facts(word)))
    }

    /// Whether something has come under this number: for a look that decides nothing but whether to look closer.
    #[inline(always)]
    pub(super) fn may_have(&self, number: u64) -> bool {
        self.slot(number).word.load(Ordering::Relaxed) >> NUMBER_SHIFT == number
    }

    /// Whether something has come under this number, for a receiver that is about to [sleep](super::sleeper): it comes before this look
    /// and is found, or behind it, and its sender sees what the receiver did before.
    pub(super) fn has_for_sleeper(&self, number: u64) -> bool {
        // A step that changes nothing. Release: pairs with `send`.
        self.slot(number).word.fetch_add(0, Ordering::Release) >> NUMBER_SHIFT == number
    }

    /// Fetches the slots that come soon.
    #[inline(always)]
    pub(super) fn prefetch(&self, number: u64) {
        const AHEAD: u64 = 4;
        prefetch(self.slot(number + AHEAD));
    }

    /// The receiver is done with all messages before this number: it tells the sender once in a quarter of the ring.
    #[inline(always)]
    pub(super) fn say_done(&self, number: u64) {
        if number & u64::from(self.mask >> 2) == 0 {
            // Release: what was read from slots, and what became of their cells, was before.
            self.done.0.store(number, Ordering::Release);
        }
    }
}

#[inline(always)]
fn prefetch(slot: &Slot) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom_model)))]
    // SAFETY: it reads nothing that the program sees, and the address is valid besides; every x86_64 has it.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(core::ptr::from_ref(slot).cast());
    }
    let _ = slot;
}

#[inline(always)]
fn prefetch_for_writing(slot: &Slot) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom_model)))]
    // SAFETY: it writes nothing, and the address is valid besides; processors that have no such instruction do nothing.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) core::ptr::from_ref(slot), options(nostack, preserves_flags, readonly));
    }
    let _ = slot;
}
