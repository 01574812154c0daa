#![allow(unsafe_code, reason = "implements the unsafe trait `Signals`")]

use loom_core::transport::Signals;
use loom_core::vocabulary::Errno;

use super::{Cq, Signal};
use crate::ofi::queue;
use crate::ofi::threading::Shared;
use crate::ofi::transport::Ofi;

// SAFETY: `threading` explains why a thread may signal while another uses the queue.
unsafe impl Signals for Ofi<Shared> {
    type Signal = Signal;

    unsafe fn cq_signal_of(cq: &Cq<Shared>) -> Signal {
        queue::signal_of(cq)
    }

    unsafe fn cq_signal(signal: &Signal) -> Result<(), Errno> {
        // SAFETY: the caller guarantees that the queue is open (H1).
        unsafe { queue::signal(signal) }
    }
}
