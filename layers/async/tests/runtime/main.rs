#![cfg(feature = "std")]
#![allow(
    missing_docs,
    unsafe_code,
    clippy::cast_possible_truncation,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "tests use `std`, fail by panicking, and share modules with fuzz targets"
)]

mod allocations;
#[path = "../common/mod.rs"]
mod common;
#[path = "../../../../loom-core/tests/it/memory.rs"]
mod memory;
mod runtimes;
mod stories;
mod streams;
mod tasks;
mod timers;
#[cfg(feature = "tokio")]
mod tokio;
mod wakers;
mod windows;
