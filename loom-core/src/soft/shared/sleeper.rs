//! Sleep of a queue's thread, and its wake-up by peers. [`Sleeper`] belongs to the queue.
//!
//! A peer delivers by a step on a [word](crate::soft::progress::sleep) of the receiver.
//!
//! ```text
//!            sleeper                                peer
//! says that it sleeps                    brings something: changes the word
//! touches the word, by a step            looks whether the receiver sleeps
//!   that changes nothing                 if so: takes what it says, and rings
//! if there is nothing: sleeps
//! ```
//!
//! Both steps on the word are read-modify-write operations. The sleeper's step releases, and the
//! peer's step acquires and releases. If the peer's step comes first, the sleeper finds the
//! delivery. Otherwise, the peer acquires that the receiver sleeps.
//!
//! Two words record that a thread sleeps. The word of each port ([`Watch`]) lies in the network.
//! The word of the queue ([`Sleeper`]) may disappear with the queue, so peers reach it through a
//! door of the port. The peer that takes a word wakes the sleeper.

#![allow(unsafe_code, reason = "peers reach the sleeper of a queue through a door")]

use core::cell::Cell;
use core::ffi::c_int;
use core::ptr::NonNull;

use super::gate::Gate;
use super::waker::{self, Bell, Left};
use crate::util::sync::{AtomicBool, AtomicU32, Ordering};
use crate::vocabulary::{Errno, WaitObj};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Sleeps {
    InCall = 1,
    OnDescriptor = 2,
}

const AWAKE: u32 = 0;

#[derive(Debug)]
pub(crate) struct Sleeper {
    /// Kind of sleep, or [`AWAKE`].
    asleep: AtomicU32,
    signalled: AtomicBool,
    bell: Bell,
}

impl Sleeper {
    pub(crate) fn new(wait: WaitObj) -> Result<Self, Errno> {
        let bell = Bell::new(wait)?;
        Ok(Sleeper { asleep: AtomicU32::new(AWAKE), signalled: AtomicBool::new(false), bell })
    }

    /// Announces that the queue's thread is about to sleep. Returns `false` if a signal came, which
    /// this consumes.
    pub(crate) fn set_asleep(&self, how: Sleeps) -> bool {
        if how == Sleeps::OnDescriptor || self.signalled.load(Ordering::Relaxed) {
            self.bell.hide();
        }
        // Release: a peer that takes this value shows the descriptor after it was hidden. The
        // polling steps also release it for peers.
        self.asleep.store(how as u32, Ordering::Release);
        // Like the steps on the ports' words: an earlier signal is found here, a later signal finds
        // a sleeper.
        !self.signalled.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn set_awake(&self) {
        self.asleep.store(AWAKE, Ordering::Relaxed);
    }

    pub(crate) fn wake(&self) {
        // One step, so that one peer rings. Acquire: the descriptor was hidden before. If the word
        // is taken, the sleeper polls by itself.
        match self.asleep.swap(AWAKE, Ordering::Acquire) {
            how if how == Sleeps::InCall as u32 => self.bell.ring(),
            how if how == Sleeps::OnDescriptor as u32 => self.bell.show(),
            _ => {}
        }
    }

    pub(crate) fn signal(&self) {
        // Release: the work before the signal. Acquire: pairs with an earlier swap in `set_asleep`,
        // so that `wake` finds the sleeper.
        if !self.signalled.swap(true, Ordering::AcqRel) {
            self.bell.show();
        }
        self.wake();
    }

    pub(crate) fn sleep(&self, left: &Left) -> bool {
        self.bell.wait(left)
    }

    pub(crate) fn descriptor(&self) -> Result<c_int, Errno> {
        self.bell.descriptor()
    }

    #[cfg(all(test, loom_model))]
    pub(crate) fn bell(&self) -> &Bell {
        &self.bell
    }
}

/// Word by which peers of a port find that its thread sleeps.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Watch {
    asleep: AtomicBool,
    /// Open while the port's endpoint is open, if a queue of the endpoint can be slept on.
    door: Gate,
    /// Sleepers of the endpoint's queues, or one of them if the queues are the same.
    sleepers: [Cell<Option<NonNull<Sleeper>>>; 2],
}

// SAFETY: the owner writes `sleepers` while the door is closed. Users inside read it. Sleepers are
// `Sync`.
unsafe impl Sync for Watch {}

/// Number of the door. A late peer may wake up the next endpoint's sleeper, without need.
const DOOR: u64 = 0;

impl Watch {
    pub(crate) fn new() -> Self {
        Watch { asleep: AtomicBool::new(false), door: Gate::new(), sleepers: [const { Cell::new(None) }; 2] }
    }

    /// Returns `true` if any exists.
    ///
    /// # Safety
    /// The sleepers stay in place until [`close`](Self::close) returns.
    pub(crate) unsafe fn open(&self, sleepers: [Option<&Sleeper>; 2]) -> bool {
        if sleepers.iter().all(Option::is_none) {
            return false;
        }
        for (place, sleeper) in self.sleepers.iter().zip(sleepers) {
            place.set(sleeper.map(NonNull::from_ref));
        }
        self.door.open(DOOR);
        true
    }

    pub(crate) fn close(&self) {
        if self.door.is_open() {
            self.asleep.store(false, Ordering::Relaxed);
            self.door.close();
        }
    }

    pub(crate) fn set_asleep(&self) {
        // Release: a late peer that takes this flag finds the queue's word set.
        self.asleep.store(true, Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn wake(&self) {
        // Relaxed: the delivering step acquires.
        if waker::EXISTS && self.asleep.load(Ordering::Relaxed) {
            self.wake_sleeper();
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_sleeper(&self) {
        // Acquire: pairs with `set_asleep`, so that the queue's word is found. One step, as in
        // `Sleeper::wake`.
        if !self.asleep.swap(false, Ordering::Acquire) {
            return;
        }
        let Some(_user) = self.door.enter(DOOR) else { return };
        for place in &self.sleepers {
            if let Some(sleeper) = place.get() {
                // SAFETY: the caller of `open` keeps the sleeper in place until `close` returns,
                // which waits for this user.
                unsafe { sleeper.as_ref() }.wake();
            }
        }
    }
}
