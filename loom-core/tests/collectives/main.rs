//! Collective operations over the software transport.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests: they use `std`, and fail by panicking")]

mod leaving;
mod objects;
mod reference;
mod rules;
mod threads;
mod world;
