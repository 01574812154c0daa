//! The implementation of [`Signals`].

#![allow(unsafe_code, reason = "implements the unsafe trait `Signals`")]

use loom_core::transport::Signals;
use loom_core::vocabulary::Errno;

use super::queue::{self, Cq, Signal};
use super::threading::Shared;
use super::transport::Ofi;

// SAFETY: `level` says why threads may signal while another uses the queue.
unsafe impl Signals for Ofi<Shared> {
    type Signal = Signal;

    unsafe fn cq_signal_of(cq: &Cq<Shared>) -> Signal {
        queue::signal_of(cq)
    }

    unsafe fn cq_signal(signal: &Signal) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        unsafe { queue::signal(signal) }
    }
}
