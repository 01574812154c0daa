//! Lanes: rings of [slots](Slot) for short messages to one receiver.
//!
//! A sender reaches a receiver by two routes: the receiver's inbox, and a lane for short messages.
//! Once the lane is open, the sender *numbers* messages of both routes, and the receiver delivers
//! them by number. Each endpoint owns a few lanes for sending (`soft/delivery/lane_requests.rs`)
//! and reads accepted ones (`soft/delivery/lane.rs`).
//!
//! A full lane refuses short messages while its receiver advances. After 1024 refusals, and if the
//! sender may sleep, they use the slower inbox.
//!
//! A message without a receive moves from its slot to the slot's cell. The slot stays occupied
//! until a receive takes the message.
//!
//! # Ownership of a lane
//!
//! ```text
//! IDLE ──request (sender)──► REQUESTED ──accept (receiver)──► OPEN or OPEN_WATCHED ──leave (receiver)──► IDLE
//!                          │ ├──leave (receiver, refusing)──► IDLE
//!                          │ └──cancel_request (sender, inbox full)──► IDLE
//!                          └──withdraw (sender)──► WITHDRAWN ──leave (receiver)──► IDLE
//! ```
//!
//! The receiver of a watched lane may [sleep](super::shared::sleeper). The sender then fills slots
//! with a read-modify-write and checks for a sleeper.
//!
//! [`LaneUse`] is the sender's. After a refusal, a lane is idle while its use is `Requested`.
//!
//! An idle lane is its sender's. The sender requests and ends a lane by a cell in the inbox. The
//! receiver leaves when it reads the end, or when it closes.

#![allow(unsafe_code, reason = "slots change hands between threads")]

pub(crate) mod arrivals;
pub(crate) mod routes;

use core::cell::{Cell, UnsafeCell};
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use super::shared::cell::{MessageCell, State};
use crate::util::sync::{AtomicU32, AtomicU64, Ordering};
use crate::vocabulary::{CompletionFlags, ImmediateData};

pub(super) const SLOT_BYTES: usize = 104;

pub(super) const MOST_SLOTS: u32 = 256;

/// Word of a slot: its message's number and kind. It hands the slot from the sender to the
/// receiver.
///
/// | bits | content |
/// | --- | --- |
/// | 0 to 6 | length in bytes, or 127 for the notice of an RMA write |
/// | 7 | message has immediate data |
/// | 8 | message is tagged |
/// | 9 to 63 | number of the message |
///
/// Message `n` uses slot `n & mask`. The word never returns to an earlier value:
///
/// ```text
///  0 or n - slots ──send (sender)──► n ──send of n + slots, once `done` is above n──► n + slots
///  sender's slot                     receiver's slot
/// ```
///
/// The receiver returns the slot by [`Lane::report_done`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotWord(u64);

const LEN: u64 = (1 << 7) - 1;
const WITH_DATA: u64 = 1 << 7;
const TAGGED: u64 = 1 << 8;
const NUMBER_SHIFT: u32 = 9;

const _: () = assert!((SLOT_BYTES as u64) < LEN, "the word has room for the length");

impl SlotWord {
    /// Notice of an RMA write, the length of which is in the slot's `tag`.
    pub(super) const RMA_NOTICE: SlotWord = SlotWord(LEN | WITH_DATA);

    #[inline(always)]
    pub(super) const fn of(len: usize, tag: Option<u64>, data: Option<ImmediateData>) -> (Self, (u64, u64)) {
        debug_assert!(len <= SLOT_BYTES, "longer messages go by the inbox");
        let (tagged, tag) = if let Some(tag) = tag { (TAGGED, tag) } else { (0, 0) };
        let (with_data, data) = if let Some(ImmediateData(data)) = data { (WITH_DATA, data) } else { (0, 0) };
        (SlotWord(len as u64 | tagged | with_data), (tag, data))
    }

    #[inline(always)]
    const fn numbered(self, number: u64) -> Self {
        SlotWord(number << NUMBER_SHIFT | self.0)
    }

    #[inline(always)]
    const fn number(self) -> u64 {
        self.0 >> NUMBER_SHIFT
    }

    #[inline(always)]
    pub(super) const fn is_rma_notice(self) -> bool {
        self.0 & LEN == LEN
    }

    #[inline(always)]
    pub(super) const fn len(self) -> usize {
        (self.0 & LEN) as usize
    }

    #[inline(always)]
    pub(super) const fn is_tagged(self) -> bool {
        self.0 & TAGGED != 0
    }

    #[inline(always)]
    pub(super) const fn received(self) -> CompletionFlags {
        let kind = if self.is_tagged() { CompletionFlags::TAGGED } else { CompletionFlags::MSG };
        let with_data = self.0 & WITH_DATA != 0;
        let data = if with_data { CompletionFlags::REMOTE_CQ_DATA } else { CompletionFlags::empty() };
        kind.union(CompletionFlags::RECV).union(data)
    }
}

#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct Slot {
    word: AtomicU64,
    /// Of the message, or the length of an announced RMA write.
    pub(super) tag: Cell<u64>,
    pub(super) data: Cell<u64>,
    bytes: UnsafeCell<MaybeUninit<[u8; SLOT_BYTES]>>,
}

#[cfg(not(loom_model))]
const _: () = assert!(size_of::<Slot>() == 128, "a slot is two cache lines");

// SAFETY: `word` is atomic. The sender uses the other fields until it sets the word, then the
// receiver until it reports the slot as done.
unsafe impl Sync for Slot {}

impl Slot {
    pub(super) fn new() -> Self {
        let bytes = UnsafeCell::new(MaybeUninit::uninit());
        Slot { word: AtomicU64::new(0), tag: Cell::new(0), data: Cell::new(0), bytes }
    }

    pub(super) const fn room(&self) -> *mut u8 {
        self.bytes.get().cast()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum LaneState {
    Idle,
    Requested,
    Withdrawn,
    Open,
    /// The receiver may sleep.
    OpenWatched,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaneUse {
    /// Available for a request when idle.
    None,
    Requested,
    /// Messages to the peer are numbered.
    Numbered,
    /// Ended by the sender.
    Done,
}

/// Used by the sender's thread alone.
#[derive(Debug)]
#[repr(align(128))]
struct SenderState {
    /// Fabric address of the receiver.
    to: Cell<u64>,
    /// Never decreases, so that no slot holds a number twice.
    next: Cell<u64>,
    done_seen: Cell<u64>,
    /// `done_seen` when last full.
    full_at: Cell<u64>,
    patience: Cell<u32>,
    next_at_review: Cell<u64>,
    used: Cell<LaneUse>,
}

#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct Lane {
    /// Read with each message, seldom written.
    state: AtomicU32,
    mask: u32,
    pub(super) index: u32,
    slots: NonNull<Slot>,
    cells: NonNull<u8>,
    sender: SenderState,
    /// The receiver is done with messages below this number.
    done: DoneWord,
}

#[derive(Debug)]
#[repr(align(128))]
struct DoneWord(AtomicU64);

// SAFETY: `state` and `done` are atomic. Slots and cells are `Sync` and stay in place. One thread
// at a time uses `sender`, like `EndpointState::own` (T1).
unsafe impl Sync for Lane {}

/// One for each slot, one to request the lane, one to end it.
pub(super) const fn cells_of_lane(slots: u32) -> u32 {
    slots + 2
}

/// Distance between cells, in bytes.
pub(super) const LANE_CELL: usize = (size_of::<MessageCell>() + SLOT_BYTES).next_multiple_of(align_of::<MessageCell>());

impl Lane {
    /// # Safety
    /// `slots` and `cells` point to `count` empty slots and their [cells](cells_of_lane),
    /// `LANE_CELL` bytes apart. The lane owns both, and they stay while it is used.
    pub(super) unsafe fn new(index: u32, slots: NonNull<Slot>, count: u32, cells: NonNull<u8>) -> Self {
        debug_assert!(count.is_power_of_two(), "a mask finds the slot");
        Lane {
            state: AtomicU32::new(LaneState::Idle as u32),
            mask: count - 1,
            index,
            slots,
            cells,
            sender: SenderState {
                to: Cell::new(0),
                next: Cell::new(1),
                done_seen: Cell::new(1),
                full_at: Cell::new(0),
                patience: Cell::new(0),
                next_at_review: Cell::new(0),
                used: Cell::new(LaneUse::None),
            },
            done: DoneWord(AtomicU64::new(1)),
        }
    }

    pub(super) const fn slot_count(&self) -> u64 {
        self.mask as u64 + 1
    }

    #[expect(clippy::cast_possible_truncation, reason = "below the count of slots")]
    #[inline(always)]
    const fn place(&self, number: u64) -> usize {
        (number & self.mask as u64) as usize
    }

    #[inline(always)]
    fn slot(&self, number: u64) -> &Slot {
        // SAFETY: the mask keeps the index below the count, which the caller of `new` guarantees.
        let slot = unsafe { self.slots.add(self.place(number)) };
        // SAFETY: the caller of `new` guarantees that the slots stay.
        unsafe { slot.as_ref() }
    }

    #[inline(always)]
    fn cell_at(&self, at: usize) -> &MessageCell {
        // SAFETY: `at` is below `cells_of_lane`, the count that the caller of `new` guarantees.
        let cell = unsafe { self.cells.add(at * LANE_CELL) };
        // SAFETY: the caller of `new` guarantees that the cells stay.
        unsafe { cell.cast().as_ref() }
    }

    #[inline(always)]
    pub(super) fn cell(&self, number: u64) -> &MessageCell {
        self.cell_at(self.place(number))
    }

    pub(super) fn request_cell(&self) -> &MessageCell {
        self.cell_at(self.mask as usize + 1)
    }

    pub(super) fn ending_cell(&self) -> &MessageCell {
        self.cell_at(self.mask as usize + 2)
    }

    /// Relaxed: before reuse, the sender [acquires](Self::is_idle) the receiver's last write. A
    /// slot filled after `leave` is lost with the receiver.
    #[inline(always)]
    pub(super) fn is_open(&self) -> bool {
        self.state.load(Ordering::Relaxed) >= LaneState::Open as u32
    }

    #[inline(always)]
    pub(super) fn is_open_unwatched(&self) -> bool {
        self.state.load(Ordering::Relaxed) == LaneState::Open as u32
    }
}

// Sender.
impl Lane {
    /// Acquire: pairs with `leave`, so that the receiver is done with slots and cells.
    pub(super) fn is_idle(&self) -> bool {
        self.state.load(Ordering::Acquire) == LaneState::Idle as u32
    }

    pub(super) fn request(&self, to: u64) -> u64 {
        let next = self.sender.next.get();
        self.sender.to.set(to);
        self.sender.done_seen.set(next);
        self.sender.used.set(LaneUse::Requested);
        // Relaxed, both: the receiver acquires them with the request cell.
        self.done.0.store(next, Ordering::Relaxed);
        self.state.store(LaneState::Requested as u32, Ordering::Relaxed);
        next
    }

    /// Returns `false` if a receiver has accepted the lane.
    pub(super) fn withdraw(&self) -> bool {
        let (requested, withdrawn) = (LaneState::Requested as u32, LaneState::Withdrawn as u32);
        // Relaxed: decides which side ends the lane. An accepted one is ended by a cell in the
        // inbox, which orders the rest.
        let withdraws = self.state.compare_exchange(requested, withdrawn, Ordering::Relaxed, Ordering::Relaxed);
        !matches!(withdraws, Err(state) if state >= LaneState::Open as u32)
    }

    pub(super) fn cancel_request(&self) {
        self.sender.used.set(LaneUse::None);
        self.state.store(LaneState::Idle as u32, Ordering::Relaxed);
    }

    pub(super) fn to(&self) -> u64 {
        self.sender.to.get()
    }

    pub(super) fn used(&self) -> LaneUse {
        self.sender.used.get()
    }

    pub(super) fn set_used(&self, used: LaneUse) {
        self.sender.used.set(used);
    }

    /// Returns `true` if no message was sent since the last call.
    pub(super) fn take_quiet(&self) -> bool {
        let next = self.sender.next.get();
        self.sender.next_at_review.replace(next) == next
    }

    #[inline]
    pub(super) fn take_number(&self) -> u64 {
        let number = self.sender.next.get();
        self.sender.next.set(number + 1);
        number
    }

    #[inline(always)]
    pub(super) fn room(&self) -> Room {
        let next = self.sender.next.get();
        if next - self.sender.done_seen.get() >= self.slot_count() {
            // Acquire: pairs with `report_done`, so that the receiver has read the slots.
            self.sender.done_seen.set(self.done.0.load(Ordering::Acquire));
            if next - self.sender.done_seen.get() >= self.slot_count() {
                return Room::Full;
            }
        }
        if self.cell(next).is(State::Home) { Room::Free } else { Room::Occupied }
    }

    /// Returns `true` while the receiver may advance.
    pub(super) fn has_patience(&self) -> bool {
        const PATIENCE: u32 = 1024;
        let SenderState { done_seen, full_at, patience, .. } = &self.sender;
        if full_at.replace(done_seen.get()) != done_seen.get() {
            patience.set(PATIENCE);
        }
        let left = patience.get();
        patience.set(left.saturating_sub(1));
        left > 0
    }

    #[inline(always)]
    pub(super) fn try_send(
        &self,
        (len, tag, data): (usize, Option<u64>, Option<ImmediateData>),
        begin: impl FnOnce() -> bool,
        fill: impl FnOnce(*mut u8),
    ) -> Tried {
        if !self.is_open_unwatched() {
            return Tried::Watched;
        }
        match self.room() {
            Room::Free if begin() => {
                let (word, tag_and_data) = SlotWord::of(len, tag, data);
                self.send(false, word, tag_and_data, fill);
                Tried::Sent
            }
            Room::Free => Tried::Refused,
            room => Tried::NoRoom(room),
        }
    }

    #[inline(always)]
    pub(super) fn send(&self, watched: bool, word: SlotWord, (tag, data): (u64, u64), fill: impl FnOnce(*mut u8)) {
        let next = self.sender.next.get();
        let slot = self.slot(next);
        slot.tag.set(tag);
        slot.data.set(data);
        fill(slot.room());
        let word = word.numbered(next).0;
        if watched {
            // Release: publishes the slot's contents. Acquire: pairs with an earlier
            // `recheck_before_sleep`, so that the sender sees that the receiver sleeps.
            slot.word.swap(word, Ordering::AcqRel);
        } else {
            // Release: publishes the slot's contents.
            slot.word.store(word, Ordering::Release);
        }
        self.sender.next.set(next + 1);
        prefetch_for_writing(self.slot(next + 1));
    }
}

pub(super) enum Tried {
    Sent,
    Refused,
    /// The receiver may sleep, or has left.
    Watched,
    /// Not `Free`.
    NoRoom(Room),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Free,
    /// All slots hold unread messages.
    Full,
    /// The slot's last message waits in its cell.
    Occupied,
}

// Receiver.
impl Lane {
    pub(super) fn accept(&self, watched: bool) -> bool {
        let open = if watched { LaneState::OpenWatched } else { LaneState::Open } as u32;
        let requested = LaneState::Requested as u32;
        // Relaxed: the sender learns only that it may number messages.
        let accepted = self.state.compare_exchange(requested, open, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if !accepted {
            self.leave();
        }
        accepted
    }

    /// Release: the receiver's reads come before.
    pub(super) fn leave(&self) {
        self.state.store(LaneState::Idle as u32, Ordering::Release);
    }

    #[cfg(all(test, loom_model))]
    pub(super) fn leave_without_release(&self) {
        self.state.store(LaneState::Idle as u32, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn arrived(&self, number: u64) -> Option<(&Slot, SlotWord)> {
        let slot = self.slot(number);
        // Acquire: pairs with `send`.
        let word = SlotWord(slot.word.load(Ordering::Acquire));
        (word.number() == number).then_some((slot, word))
    }

    #[inline(always)]
    pub(super) fn may_have_arrived(&self, number: u64) -> bool {
        SlotWord(self.slot(number).word.load(Ordering::Relaxed)).number() == number
    }

    /// Like [`may_have_arrived`](Self::may_have_arrived). The sender of a later message sees the
    /// receiver's earlier writes.
    pub(super) fn recheck_before_sleep(&self, number: u64) -> bool {
        // Changes no bits. Release: pairs with `send`.
        SlotWord(self.slot(number).word.fetch_add(0, Ordering::Release)).number() == number
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, number: u64) {
        const AHEAD: u64 = 4;
        prefetch(self.slot(number + AHEAD));
    }

    /// The receiver is done with messages below `number`. Stored at each quarter of the ring, so
    /// that the cache line seldom moves.
    #[inline(always)]
    pub(super) fn report_done(&self, number: u64) {
        if number & u64::from(self.mask >> 2) == 0 {
            // Release: reads of slots and changes of their cells come before.
            self.done.0.store(number, Ordering::Release);
        }
    }
}

#[inline(always)]
fn prefetch(slot: &Slot) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom_model)))]
    // SAFETY: a prefetch has no visible effect, `slot` is valid, and every x86_64 supports it.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(core::ptr::from_ref(slot).cast());
    }
    let _ = slot;
}

#[inline(always)]
fn prefetch_for_writing(slot: &Slot) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom_model)))]
    // SAFETY: a prefetch has no visible effect, `slot` is valid, and unsupporting processors ignore
    // it.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) core::ptr::from_ref(slot), options(nostack, preserves_flags, readonly));
    }
    let _ = slot;
}
