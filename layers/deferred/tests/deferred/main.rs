//! Deferred work over the software transport.

#![cfg(feature = "std")]
#![allow(
    missing_docs,
    unsafe_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "tests use `std`, fail by panicking, and share modules with a fuzz target"
)]

mod chains;
#[path = "../../../../loom-core/tests/it/executor.rs"]
mod executor;
mod futures;
#[path = "../../../../loom-core/tests/it/memory.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod memory;
mod pair;
mod sleeping;
mod work_table;
