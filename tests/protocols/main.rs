//! Protocol traits: one generic function for each of them moves data and verifies it, over every kind of endpoint, over tagged messages of a
//! carrier, and over the protocol of `examples/framed.rs`, which wraps any of these.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests: they fail by panicking")]

#[allow(dead_code, reason = "its main function is the example's")]
#[path = "../../examples/framed.rs"]
mod example;
#[allow(dead_code, reason = "waits and patterns are all that is needed of it")]
use support::posting;

mod bad_frames;
mod framed;
mod generic;
#[cfg(feature = "libfabric")]
mod libfabric;
mod soft;
mod updates;
