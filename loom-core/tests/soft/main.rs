//! The software transport.

#![cfg(feature = "std")]
#![allow(
    missing_docs,
    unsafe_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "tests use `std`, fail by panicking, and share modules with fuzz targets"
)]

mod atomics;
mod close;
mod faults;
mod iovecs;
mod keys;
mod lanes;
#[path = "../common/memory.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod memory;
mod modes;
mod multi;
mod peek;
mod peer_counters;
mod sleeping;
mod strict;
mod threads;
mod turns;
