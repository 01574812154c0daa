//! The tag matcher alone, beside lists that are walked from their beginning.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests: they fail by panicking")]

mod random;
mod rules;
mod world;
