//! The objects: over the software transport, and over transports that follow a script.

#![cfg(feature = "std")]
#![allow(
    missing_docs,
    unsafe_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "tests use `std`, fail by panicking, and share modules with fuzz targets"
)]

mod answers;
mod collectives;
mod completions;
#[path = "../common/executor.rs"]
mod executor;
mod futures;
mod handles;
mod handles_held;
#[cfg(feature = "log")]
mod log;
#[path = "../common/memory.rs"]
mod memory;
mod regions;
#[path = "../common/scripted.rs"]
mod scripted;
#[cfg(feature = "serde")]
mod serde;
