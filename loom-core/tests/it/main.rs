//! Tests of the core: engines, objects, the software transport, and code that the types refuse.

#![cfg(feature = "std")]
#![allow(
    missing_docs,
    unsafe_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "tests use `std`, fail by panicking, and share modules with fuzz targets"
)]

mod daily_share;
mod engine;
mod executor;
mod memory;
mod objects;
mod refusals;
mod scripted;
mod soft;
mod vocabulary;
