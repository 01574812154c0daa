//! The atomics of the software transport: the real ones, or those of the model checker.

#[cfg(not(loom_model))]
pub(super) use core::hint::spin_loop;
#[cfg(not(loom_model))]
pub(super) use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
#[cfg(loom_model)]
pub(super) use loom::hint::spin_loop;
#[cfg(loom_model)]
pub(super) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
