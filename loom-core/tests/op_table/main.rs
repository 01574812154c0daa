//! The op table alone: each rule of its module documentation, then every short sequence of actions, then long random
//! ones.

#![allow(unsafe_code, missing_docs, clippy::unwrap_used, reason = "tests: they use `std`, and fail by panicking")]

mod explore;
mod random;
mod rules;
mod several;
mod world;
