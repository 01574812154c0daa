//! The software transport where it insists on what hardware asks for.

#![allow(missing_docs, unsafe_code, clippy::unwrap_used, reason = "tests: they use `std`, and fail by panicking")]

mod arrays;
mod contexts;
mod local;
mod prefixes;
mod writes;
