//! Mappings, pools, arenas, caches of registrations, and registered buffers.

#![allow(
    missing_docs,
    unsafe_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "tests use `std`, fail by panicking, and share modules with fuzz targets"
)]

#[cfg(all(feature = "os", target_os = "linux"))]
mod mapping;
mod mr_cache;
mod registered;
#[path = "../../../loom-core/tests/it/scripted.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod scripted;
mod stories;
