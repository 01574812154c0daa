//! Cells: where messages are while they travel. A cell belongs to the endpoint that sends; it is lent to the
//! receiver with the message, and comes back.

#![allow(unsafe_code, reason = "cells change hands between threads")]

use core::cell::Cell;

use crate::sync::{AtomicBool, AtomicU32, Ordering};
use crate::vocabulary::CompletionFlags;

/// What a receiver learns of a message. A cell for each fact: a receiver reads what it needs when it needs it.
#[derive(Debug)]
pub(super) struct Message {
    /// The lower half of [`flags`](Self::flags).
    flags: Cell<u32>,
    /// Its number among those for its receiver, if these are [numbered](super::lane): what [`number_in_pair`] makes of it.
    in_pair: Cell<u32>,
    /// The sender: its fabric address.
    pub(super) from: Cell<u64>,
    pub(super) tag: Cell<u64>,
    pub(super) data: Cell<u64>,
    pub(super) len: Cell<usize>,
    /// Where the bytes are: behind the cell, or in the sender's buffer.
    pub(super) bytes: Cell<*const u8>,
}

/// In the flags of a cell that brings no message: what its sender says of one of its [lanes](super::lane).
pub(super) const LANE_NEWS: CompletionFlags = CompletionFlags::from_bits_retain(1 << 31);

/// What a cell says of a message's number in its pair: half of it, which is enough to tell it from those that are under way at the
/// same time; zero is for messages that are not numbered.
#[expect(clippy::cast_possible_truncation, reason = "half of the number")]
#[inline]
pub(super) const fn number_in_pair(number: u64) -> u32 {
    (number << 1 | 1) as u32
}

impl Message {
    /// What the receiver's completion reports; with `REMOTE_WRITE` it is not a message, but the news that memory was written, and with
    /// [`LANE_NEWS`] not even that.
    #[inline(always)]
    pub(super) fn flags(&self) -> CompletionFlags {
        CompletionFlags::from_bits_retain(self.flags.get().into())
    }

    #[expect(clippy::cast_possible_truncation, reason = "flags of completions are among the lower bits")]
    #[inline(always)]
    pub(super) fn set_flags(&self, flags: CompletionFlags) {
        self.flags.set(flags.bits() as u32);
    }

    /// Makes it the news that a peer has written `len` bytes.
    #[inline]
    pub(super) fn tell_written(&self, from: u64, len: usize, data: u64) {
        let remote = CompletionFlags::REMOTE_WRITE.union(CompletionFlags::REMOTE_CQ_DATA);
        self.set_flags(CompletionFlags::RMA.union(remote));
        self.set_number(None);
        self.from.set(from);
        self.tag.set(0);
        self.data.set(data);
        self.len.set(len);
        self.bytes.set(core::ptr::null());
    }

    /// Its number among those for its receiver, as [`number_in_pair`] says it; zero if it has none.
    #[inline(always)]
    pub(super) fn in_pair(&self) -> u32 {
        self.in_pair.get()
    }

    /// Gives it a number, or none.
    #[inline(always)]
    pub(super) fn set_number(&self, number: Option<u64>) {
        self.in_pair.set(number.map_or(0, number_in_pair));
    }
}

/// Where a cell is in its life. It is the protocol by which a sender can take back what it has offered.
///
/// ```text
///            sender             receiver
/// HOME  ──►  EAGER    ───────►  (copied out)               ──► HOME
///       ──►  OFFERED  ───────►  COPYING ──► DONE           ──► returned ──► HOME
///               │                REFUSED (receiver closed) ──► returned ──► HOME
///               └─ cancel, close: REVOKED ──► (skipped)    ──► returned ──► HOME
/// ```
///
/// A receiver skips a revoked cell when it looks at it: on its way from the inbox, when a receive meets it, and where no
/// receive may ever meet it, among the messages without a receive, when the sender has left [word](Revocations).
///
/// The receiver itself sends an eager cell home; of those that are returned the sender does it, when it has seen how they
/// ended.
///
/// Only `OFFERED` is contended: the receiver claims it and the sender revokes it with compare-and-swap, so that one
/// of the two succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum State {
    /// The cell is its owner's.
    Home,
    /// The bytes are in the cell.
    Eager,
    /// The bytes are in the sender's buffer.
    Offered,
    /// The receiver copies from the sender's buffer.
    Copying,
    /// The receiver has copied.
    Done,
    /// The sender's buffer is the sender's again.
    Revoked,
    /// The receiver has closed without copying.
    Refused,
}

/// A cell's head. Its room for eager bytes follows in memory.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct MessageCell {
    /// The link of the [list](super::list) that the cell is on.
    pub(super) link: AtomicU32,
    state: AtomicU32,
    /// Written by the sender before the cell is pushed, read by the receiver after it was taken.
    pub(super) message: Message,
    /// For a plan of faults: how long the message is late.
    pub(super) looks: Cell<u32>,
    /// The cell's own number.
    pub(super) number: u32,
}

#[cfg(not(loom_model))]
const _: () = assert!(size_of::<MessageCell>() == 64, "a cell's head is one cache line");

// SAFETY: `link` and `state` are atomic, `number` never changes. The other fields are used by one side at a time: the
// sender while the cell is at home, the receiver from taking it out of its inbox until it returns it; lists and the state
// order the two.
unsafe impl Sync for MessageCell {}

impl MessageCell {
    pub(super) fn new(number: u32) -> Self {
        MessageCell {
            link: AtomicU32::new(0),
            state: AtomicU32::new(State::Home as u32),
            message: Message {
                flags: Cell::new(0),
                in_pair: Cell::new(0),
                from: Cell::new(0),
                tag: Cell::new(0),
                data: Cell::new(0),
                len: Cell::new(0),
                bytes: Cell::new(core::ptr::null()),
            },
            looks: Cell::new(0),
            number,
        }
    }

    /// Whether the cell is in this state.
    ///
    /// Acquire: pairs with `come_home` and `finish`, so that the receiver is done with the cell, and with the buffer.
    #[inline]
    pub(super) fn is(&self, state: State) -> bool {
        self.state.load(Ordering::Acquire) == state as u32
    }

    /// Sets the state of a cell which no other thread looks at: before it is pushed, or after it has come back.
    #[inline]
    pub(super) fn set(&self, state: State) {
        self.state.store(state as u32, Ordering::Relaxed);
    }

    /// The cell is its owner's again.
    ///
    /// Release: what was read from the cell was read before.
    #[inline]
    pub(super) fn come_home(&self) {
        self.state.store(State::Home as u32, Ordering::Release);
    }

    /// The receiver wants the bytes, or refuses them: `true` if the offer still stands.
    ///
    /// Relaxed: it decides who has the buffer. The bytes in it came with the cell, through the inbox; a sender that is too late
    /// [waits for the copy](Self::wait_for_copy), or for the cell among those that are returned, and these acquire.
    #[inline]
    pub(super) fn claim(&self, state: State) -> bool {
        self.state.compare_exchange(State::Offered as u32, state as u32, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The receiver has copied.
    ///
    /// Release: the copy is over before the sender sees it.
    #[inline]
    pub(super) fn finish(&self) {
        self.state.store(State::Done as u32, Ordering::Release);
    }

    /// The sender wants its buffer back: `true` if the receiver had not begun to copy, and now never will.
    pub(super) fn revoke(&self) -> bool {
        self.claim(State::Revoked)
    }

    /// Waits while the receiver copies. For the sender, after a revocation that came too late: its buffer is its own again when
    /// this returns, because no receiver begins a second copy.
    pub(super) fn wait_for_copy(&self) {
        while self.is(State::Copying) {
            crate::sync::spin_loop();
        }
    }
}

/// Word to a receiver that offers made to it were revoked since it last looked. One that lies among its unexpected
/// messages may be met by no receive ever, and would keep its cell from home.
///
/// The receiver clears the word before it looks for revoked cells. A cell that it gets to see only afterwards, on its
/// way from the inbox, it therefore has to look at by itself.
///
/// It is also the word that messages are on their way which are [delayed](super::faults), so that the receiver looks at them.
#[derive(Debug)]
pub(super) struct Revocations {
    told: AtomicBool,
    /// How often word was taken.
    looks: AtomicU32,
}

impl Revocations {
    pub(super) fn new() -> Self {
        Revocations { told: AtomicBool::new(false), looks: AtomicU32::new(0) }
    }

    /// Leaves word, after the revocation.
    ///
    /// Release: the thread that clears the word sees the offer revoked. A swap, where a store would cut off the release of
    /// another sender's word that has not been read yet. Acquire: pairs with a look that comes before, so that who leaves word sees that
    /// the receiver sleeps.
    pub(super) fn tell(&self) {
        self.told.swap(true, Ordering::AcqRel);
    }

    /// Whether there is word, for a receiver that is about to [sleep](super::sleeper): word comes before this look and is found, or comes
    /// behind it and its sender sees what the receiver did before.
    pub(super) fn are_told_for_sleeper(&self) -> bool {
        // A step that changes nothing. Release: pairs with `tell`.
        self.told.fetch_or(false, Ordering::Release)
    }

    /// Whether there may be word.
    #[inline]
    pub(super) fn are_told(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }

    /// Whether there is word; it is cleared. For the receiver alone.
    #[inline]
    pub(super) fn take(&self) -> bool {
        // Acquire: pairs with `tell`. One step, so that no word is cleared unread.
        let taken = self.told.load(Ordering::Relaxed) && self.told.swap(false, Ordering::Acquire);
        if taken {
            // Nothing is read by what it says.
            self.looks.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// How often word was taken.
    pub(super) fn looks(&self) -> u32 {
        self.looks.load(Ordering::Relaxed)
    }
}
