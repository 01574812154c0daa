//! Atomics for state that threads share: those of `core`, or of the model checker.

#[cfg(not(loom_model))]
pub(crate) use core::hint::spin_loop;
#[cfg(not(loom_model))]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
#[cfg(loom_model)]
pub(crate) use loom::hint::spin_loop;
#[cfg(loom_model)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
