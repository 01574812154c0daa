#[cfg(not(loom_model))]
pub(crate) use core::sync::atomic::{AtomicU32, Ordering};
#[cfg(loom_model)]
pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};
