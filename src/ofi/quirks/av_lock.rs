//! Serialises changes of an address vector with opening and closing its endpoints.
//!
//! During an insertion, providers walk the vector's endpoints, some without a lock, and follow
//! state that only an enabled, open endpoint has
//! (`sm2-insertion-beside-what-was-not-enabled-crashes`, and `ofi_rxm` of libfabric 2.5 crashes
//! beside an endpoint that closes).
//!
//! Vectors with one lock wait for each other. Neighbours and their vectors use the lock of
//! [`shm_registry`](super::shm_registry).

#![allow(unsafe_code, reason = "releases locks in a forked child")]

use crate::ofi::raw::Raw;
use crate::ofi::sys;

static TURNS: [spin::Mutex<()>; 64] = [const { spin::Mutex::new(()) }; 64];

#[derive(Clone, Copy, Debug)]
pub(crate) struct AvLock(&'static spin::Mutex<()>);

/// # Safety
/// This process has one thread, which holds no lock.
pub(crate) unsafe fn release() {
    for turn in &TURNS {
        // SAFETY: the caller guarantees that the only thread holds no lock.
        unsafe { turn.force_unlock() };
    }
}

impl AvLock {
    pub(crate) fn of(av: Raw<sys::fid_av>) -> Self {
        // Vectors are at least 64 bytes apart: these numbers differ.
        let [first, ..] = &TURNS;
        AvLock(TURNS.get(av.pointer().addr().get() / 64 % TURNS.len()).unwrap_or(first))
    }

    pub(crate) fn take<R>(self, call: impl FnOnce() -> R) -> R {
        let _turn = self.0.lock();
        call()
    }
}
