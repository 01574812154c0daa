//! One at a time: who changes an address vector, and who opens or closes one of its connectionless endpoints.
//!
//! Providers walk the endpoints of a vector while they insert an address, some without a lock, and follow what one of them has only once it
//! is enabled and until it closes (`sm2-insertion-beside-what-was-not-enabled-crashes`; `ofi_rxm` of libfabric 2.5 crashes beside one that closes).
//!
//! Vectors have their turns from a table, so that two may have the same, and wait for each other while a name is looked up or an endpoint
//! closes; a thread never takes two. Endpoints that are neighbours, and their vectors, have the turn of [`shm_registry`](super::shm_registry).

#![allow(unsafe_code, reason = "releases locks in a forked child")]

use super::process::Raw;
use super::sys;

static TURNS: [spin::Mutex<()>; 64] = [const { spin::Mutex::new(()) }; 64];

/// The turn of a vector.
#[derive(Clone, Copy, Debug)]
pub(super) struct AvLock(&'static spin::Mutex<()>);

/// Releases every turn, which other threads of the parent may have held when it forked.
///
/// # Safety
/// This process has one thread, which has taken no turn.
pub(super) unsafe fn release() {
    for turn in &TURNS {
        // SAFETY: the caller's promise.
        unsafe { turn.force_unlock() };
    }
}

impl AvLock {
    pub(super) fn of(av: Raw<sys::fid_av>) -> Self {
        // Allocators align blocks of that size at least so.
        let [first, ..] = &TURNS;
        AvLock(TURNS.get(av.pointer().addr().get() / 64 % TURNS.len()).unwrap_or(first))
    }

    pub(super) fn take<R>(self, call: impl FnOnce() -> R) -> R {
        let _turn = self.0.lock();
        call()
    }
}
