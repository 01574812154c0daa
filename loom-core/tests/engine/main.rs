//! The engines: tables and matchers, without a transport.

#![cfg(feature = "std")]
#![allow(
    missing_docs,
    unsafe_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "tests use `std`, fail by panicking, and share modules with fuzz targets"
)]

mod address_table;
mod arrivals;
mod op_table;
mod peer_table;
mod tag_matcher;
