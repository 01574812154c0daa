//! The thread of a queue sleeps, and peers wake it up: [`Sleeper`] is the queue's side, [`Watch`] is where peers look for one.
//!
//! What a peer brings is brought by a step on some word of the receiver's: the inbox, the word of revocations, the list of returned
//! cells, the slot of a lane. It has to be found by a thread that is just about to sleep, or that thread has to be woken up.
//!
//! ```text
//!            sleeper                                peer
//! says that it sleeps                    brings something: changes the word
//! touches the word, by a step            looks whether the receiver sleeps
//!   that changes nothing                 if so: takes what it says, and rings
//! if there is nothing: sleeps
//! ```
//!
//! Both steps on the word read, change and write it at once. The sleeper's releases, the peer's acquires and releases. So one of them comes first. If it is the
//! peer's, the sleeper finds what was brought. If it is the sleeper's, the peer acquires what it has released: that it sleeps. There is no
//! third case, and no order of all threads is needed, neither by fences nor by sequential consistency. On x86-64 the peer's step
//! costs the same with less order. The look behind it is a load from the line of the word (of a lane or a returned cell, from that of
//! the inbox).
//!
//! There are two words that say that a thread sleeps. That of each port ([`Watch`]) lies in the network, so that every peer may look at it.
//! That of the queue ([`Sleeper`]) may be gone with the queue: peers reach it through a door of the port. Each is taken by one peer:
//! many peers wake a sleeper once. Who takes it rings after the sleeper has said it anew; a peer that comes later and finds it taken leaves
//! the ringing to that one.

#![allow(unsafe_code, reason = "peers reach the sleeper of a queue through a door")]

use core::cell::Cell;
use core::ffi::c_int;
use core::ptr::NonNull;

use super::gate::Gate;
use super::waker::{self, Bell, Left};
use crate::sync::{AtomicBool, AtomicU32, Ordering};
use crate::vocabulary::{Errno, WaitObj};

/// How a thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Sleeps {
    /// In a call of this transport.
    InCall = 1,
    /// In a call of its own, on the descriptor.
    OnDescriptor = 2,
}

const AWAKE: u32 = 0;

/// What a queue has that can be slept on.
#[derive(Debug)]
pub(super) struct Sleeper {
    /// How the thread sleeps, or [`AWAKE`].
    asleep: AtomicU32,
    /// Whether there was a signal since the thread last began to sleep.
    signalled: AtomicBool,
    bell: Bell,
}

impl Sleeper {
    /// One for a queue that is opened so, if there is [a bell for it](waker::exists_for).
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn new(wait: WaitObj) -> Result<Self, Errno> {
        let bell = Bell::new(wait)?;
        Ok(Sleeper { asleep: AtomicU32::new(AWAKE), signalled: AtomicBool::new(false), bell })
    }

    /// The thread is about to sleep. Then it says so at its [ports](Watch::say_asleep), and looks at what they have. `false` if there was
    /// a signal: it does not sleep, and hears of that once. For the thread of the queue.
    pub(super) fn say_asleep(&self, how: Sleeps) -> bool {
        // A signal is shown however the thread sleeps. Relaxed: one that is not seen here is shown for longer.
        if how == Sleeps::OnDescriptor || self.signalled.load(Ordering::Relaxed) {
            // Before: what is shown from here on is for this sleep.
            self.bell.hide();
        }
        // Release: who takes it shows the descriptor after it was hidden. For peers, the steps that look release it, too.
        self.asleep.store(how as u32, Ordering::Release);
        // A step like those of the ports' words: a signal comes before it and is found here, or comes behind it and finds a sleeper.
        !self.signalled.swap(false, Ordering::AcqRel)
    }

    /// The thread does not sleep after all, or not any more. A peer may be waking it up nevertheless: then it sleeps for nothing once.
    pub(super) fn say_awake(&self) {
        self.asleep.store(AWAKE, Ordering::Relaxed);
    }

    /// Wakes the thread up, if it sleeps.
    pub(super) fn wake(&self) {
        // One step, so that one peer rings. Acquire: the descriptor was hidden before. A peer that finds it taken leaves nothing to be
        // seen: the sleeper looks for itself.
        match self.asleep.swap(AWAKE, Ordering::Acquire) {
            how if how == Sleeps::InCall as u32 => self.bell.ring(),
            how if how == Sleeps::OnDescriptor as u32 => self.bell.show(),
            _ => {}
        }
    }

    /// Wakes the thread up, or else keeps it from sleeping the next time; the descriptor becomes readable.
    pub(super) fn signal(&self) {
        // Release: what was done before the signal. Acquire: pairs with a look that comes before, so that a sleeper is found.
        if !self.signalled.swap(true, Ordering::AcqRel) {
            self.bell.show();
        }
        self.wake();
    }

    /// Sleeps in a call, until it is woken up or the time is over: whether it was woken up. It may be so for nothing.
    pub(super) fn sleep(&self, left: &Left) -> bool {
        self.bell.wait(left)
    }

    /// # Errors
    /// `ENOSYS` if there is none.
    pub(super) fn descriptor(&self) -> Result<c_int, Errno> {
        self.bell.descriptor()
    }

    #[cfg(all(test, loom_model))]
    pub(super) fn bell(&self) -> &Bell {
        &self.bell
    }
}

/// Where the peers of a port look whether its thread sleeps.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Watch {
    /// Looked at by every peer that brings something.
    asleep: AtomicBool,
    /// Open while the port's endpoint is, if a queue of it can be slept on.
    door: Gate,
    /// Those of the queues of the endpoint, one of them if they are one.
    sleepers: [Cell<Option<NonNull<Sleeper>>>; 2],
}

// SAFETY: `sleepers` is written while the door is closed, by the owner, and read by users inside. What it points to is `Sync`.
unsafe impl Sync for Watch {}

/// The number of the door: a peer that is late may wake up the sleeper of the next endpoint, for nothing.
const DOOR: u64 = 0;

impl Watch {
    pub(super) fn new() -> Self {
        Watch { asleep: AtomicBool::new(false), door: Gate::new(), sleepers: [const { Cell::new(None) }; 2] }
    }

    /// Lets peers wake up those who sleep on the queues of an endpoint that is opened now; whether there are any. For the owner alone.
    ///
    /// # Safety
    /// They stay where they are until [`close`](Self::close) returns.
    pub(super) unsafe fn open(&self, sleepers: [Option<&Sleeper>; 2]) -> bool {
        if sleepers.iter().all(Option::is_none) {
            return false;
        }
        for (place, sleeper) in self.sleepers.iter().zip(sleepers) {
            place.set(sleeper.map(NonNull::from_ref));
        }
        self.door.open(DOOR);
        true
    }

    /// Lets peers wake it up no more, and waits for those that are doing it. For the owner alone.
    pub(super) fn close(&self) {
        if self.door.is_open() {
            self.asleep.store(false, Ordering::Relaxed);
            self.door.close();
        }
    }

    /// The thread of the port is about to sleep: it looks at what has come to the port only after this. For the owner alone.
    pub(super) fn say_asleep(&self) {
        // Release: a peer that is late, and takes this, finds at the queue that it sleeps. Else it would take this, and not that, and
        // other peers would leave the ringing to it. (The model checker does not see that: a swap of its finds whatever was stored before
        // in time.) For other peers, the steps that look release it.
        self.asleep.store(true, Ordering::Release);
    }

    /// Wakes up the thread of the port, if it sleeps. For a peer, after the step that has brought something, which acquires.
    #[inline(always)]
    pub(super) fn wake(&self) {
        // Relaxed: see the step before.
        if waker::EXISTS && self.asleep.load(Ordering::Relaxed) {
            self.wake_sleeper();
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_sleeper(&self) {
        // Acquire: pairs with `say_asleep`, so that the queue's word is found. One step, as in `Sleeper::wake`.
        if !self.asleep.swap(false, Ordering::Acquire) {
            return;
        }
        let Some(_user) = self.door.enter(DOOR) else { return };
        for place in &self.sleepers {
            if let Some(sleeper) = place.get() {
                // SAFETY: the sleeper stays where it is until `close` returns, which waits for this user: the promise of `open`.
                unsafe { sleeper.as_ref() }.wake();
            }
        }
    }
}
