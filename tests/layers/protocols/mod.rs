//! Protocol traits. One generic function for each trait moves data and verifies it over every kind
//! of endpoint, over tagged messages of a carrier, and over the protocol of `examples/framed.rs`,
//! which wraps any of these.

#[allow(dead_code, reason = "its main function is the example's")]
#[path = "../../../examples/framed.rs"]
mod example;

mod bad_frames;
mod framed;
pub(crate) mod generic;
#[cfg(feature = "libfabric")]
pub(crate) mod libfabric;
mod soft;
