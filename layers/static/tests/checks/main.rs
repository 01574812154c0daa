//! Queries and profiles over the software transport.

#![cfg(feature = "std")]
#![allow(missing_docs, clippy::unwrap_used, reason = "tests fail by panicking")]

mod profiles;
mod queries;
