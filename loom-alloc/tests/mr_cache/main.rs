//! The cache of registrations, over the software transport, which refuses buffers whose region is not open or does not cover
//! them.

#![allow(unsafe_code, missing_docs, clippy::unwrap_used, reason = "tests: they fail by panicking")]

mod defects;
mod memory_use;
mod random;
mod rules;
#[cfg(all(feature = "os", target_os = "linux"))]
mod userfaultfd;
mod world;
