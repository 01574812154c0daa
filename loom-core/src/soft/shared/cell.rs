#![allow(unsafe_code, reason = "cells change hands between threads")]

use core::cell::Cell;

use crate::util::sync::{AtomicBool, AtomicU32, Ordering};
use crate::vocabulary::CompletionFlags;

/// Description of a message. With separate `Cell`s, a receiver reads only the fields that it needs.
#[derive(Debug)]
pub(crate) struct Message {
    /// Lower half of [`flags`](Self::flags).
    flags: Cell<u32>,
    /// [`number_in_pair`] of a [numbered](super::lane) message, otherwise zero.
    pub(crate) in_pair: Cell<u32>,
    pub(crate) from: Cell<u64>,
    pub(crate) tag: Cell<u64>,
    pub(crate) data: Cell<u64>,
    pub(crate) len: Cell<usize>,
    /// Address behind the cell or in the sender's buffer.
    pub(crate) bytes: Cell<*const u8>,
}

/// Marks a notice about one of the sender's [lanes](super::lane).
pub(crate) const LANE_NEWS: CompletionFlags = CompletionFlags::from_bits_retain(1 << 31);

#[expect(clippy::cast_possible_truncation, reason = "half of the number")]
#[inline]
pub(crate) const fn number_in_pair(number: u64) -> u32 {
    (number << 1 | 1) as u32
}

impl Message {
    #[inline(always)]
    pub(crate) fn flags(&self) -> CompletionFlags {
        CompletionFlags::from_bits_retain(self.flags.get().into())
    }

    #[expect(clippy::cast_possible_truncation, reason = "flags of completions are among the lower bits")]
    #[inline(always)]
    pub(crate) fn set_flags(&self, flags: CompletionFlags) {
        self.flags.set(flags.bits() as u32);
    }

    #[inline]
    pub(crate) fn set_written(&self, from: u64, len: usize, data: u64) {
        let remote = CompletionFlags::REMOTE_WRITE.union(CompletionFlags::REMOTE_CQ_DATA);
        self.set_flags(CompletionFlags::RMA.union(remote));
        self.set_number(None);
        self.from.set(from);
        self.tag.set(0);
        self.data.set(data);
        self.len.set(len);
        self.bytes.set(core::ptr::null());
    }

    #[inline(always)]
    pub(crate) fn set_number(&self, number: Option<u64>) {
        self.in_pair.set(number.map_or(0, number_in_pair));
    }
}

/// State of a cell, and the protocol to revoke an offer.
///
/// ```text
///            sender             receiver
/// HOME  ──►  EAGER    ───────►  (copied out)               ──► HOME
///       ──►  OFFERED  ───────►  COPYING ──► DONE           ──► returned ──► HOME
///               │                REFUSED (receiver closed) ──► returned ──► HOME
///               └─ cancel, close: REVOKED ──► (skipped)    ──► returned ──► HOME
/// ```
///
/// After [notice](Revocations) by the sender, it also searches its unexpected messages.
///
/// The receiver sends eager cells home, the sender returned cells after reading their result.
///
/// Only `OFFERED` is contended: of the receiver's claim and the sender's revocation, both
/// compare-and-swaps, one succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum State {
    Home,
    /// The bytes are in the cell.
    Eager,
    /// The bytes are in the sender's buffer.
    Offered,
    Copying,
    Done,
    /// The buffer is the sender's again.
    Revoked,
    /// The receiver has closed without copying.
    Refused,
}

/// Room for eager bytes follows in memory.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct MessageCell {
    pub(crate) link: AtomicU32,
    state: AtomicU32,
    /// Written before the push, read after the cell is taken.
    pub(crate) message: Message,
    /// Delay by a fault plan, in looks.
    pub(crate) looks: Cell<u32>,
    pub(crate) number: u32,
}

#[cfg(not(loom_model))]
const _: () = assert!(size_of::<MessageCell>() == 64, "a cell's head is one cache line");

// SAFETY: `link` and `state` are atomic, `number` never changes. The sender uses the other fields
// while the cell is at home, the receiver from inbox to return. Lists and the state order the two.
unsafe impl Sync for MessageCell {}

impl MessageCell {
    pub(crate) fn new(number: u32) -> Self {
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

    /// Acquire: pairs with `come_home` and `finish`, so that the receiver is done with the cell and
    /// the buffer.
    #[inline]
    pub(crate) fn is(&self, state: State) -> bool {
        self.state.load(Ordering::Acquire) == state as u32
    }

    #[inline]
    pub(crate) fn set(&self, state: State) {
        self.state.store(state as u32, Ordering::Relaxed);
    }

    /// Returns the cell to its owner. Release: reads of the cell come before.
    #[inline]
    pub(crate) fn come_home(&self) {
        self.state.store(State::Home as u32, Ordering::Release);
    }

    /// Accepts or refuses an offer. Returns `true` if the offer still stood.
    ///
    /// Relaxed: decides which side has the buffer. A sender that is too late [waits for the
    /// copy](Self::wait_for_copy) or for the returned cell, and both acquire.
    #[inline]
    pub(crate) fn claim(&self, state: State) -> bool {
        self.state.compare_exchange(State::Offered as u32, state as u32, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Release: the copy comes before.
    #[inline]
    pub(crate) fn finish(&self) {
        self.state.store(State::Done as u32, Ordering::Release);
    }

    /// The buffer is then the sender's: no receiver copies twice.
    pub(crate) fn wait_for_copy(&self) {
        while self.is(State::Copying) {
            crate::util::sync::spin_loop();
        }
    }
}

/// Notice to a receiver that offers to it were revoked. A revoked offer among its unexpected
/// messages may never match, and its cell would not come home.
///
/// The receiver clears the notice before it searches. It therefore has to check each cell that it
/// takes from the inbox afterwards.
#[derive(Debug)]
pub(crate) struct Revocations {
    pending: AtomicBool,
    looks: AtomicU32,
}

impl Revocations {
    pub(crate) fn new() -> Self {
        Revocations { pending: AtomicBool::new(false), looks: AtomicU32::new(0) }
    }

    /// Gives notice after the revocation.
    ///
    /// Release: the receiver sees the offer revoked. A store instead of a swap would end the
    /// release sequence of an earlier, unread notice. Acquire: pairs with an earlier
    /// `are_pending_for_sleeper`, so that the sender sees that the receiver sleeps.
    pub(crate) fn notify(&self) {
        self.pending.swap(true, Ordering::AcqRel);
    }

    /// Returns `true` after a notice, for a receiver about to [sleep](super::sleeper). The sender
    /// of a later notice sees the receiver's earlier writes.
    pub(crate) fn are_pending_for_sleeper(&self) -> bool {
        // Changes no bits. Release: pairs with `notify`.
        self.pending.fetch_or(false, Ordering::Release)
    }

    #[inline]
    pub(crate) fn are_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn take(&self) -> bool {
        // Acquire: pairs with `notify`.
        let taken = self.pending.load(Ordering::Relaxed) && self.pending.swap(false, Ordering::Acquire);
        if taken {
            self.looks.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    pub(crate) fn looks(&self) -> u32 {
        self.looks.load(Ordering::Relaxed)
    }
}
