#![cfg(feature = "std")]
#![allow(
    missing_docs,
    unsafe_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests use `std`, fail by panicking, and share modules with fuzz targets"
)]

mod bootstrap;
mod collectives;
mod exchange;
mod group;
mod provided;
mod schedules;
mod stories;
mod teams;
