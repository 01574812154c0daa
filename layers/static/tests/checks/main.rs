#![cfg(feature = "std")]
#![allow(missing_docs, clippy::unwrap_used, reason = "tests fail by panicking")]

mod profiles;
mod queries;
mod refusals;
