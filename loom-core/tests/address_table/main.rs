//! The address table alone, beside a list of who is there.

#![allow(unsafe_code, missing_docs, clippy::unwrap_used, reason = "tests: they fail by panicking")]

mod memory;
mod random;
mod rules;
mod world;
