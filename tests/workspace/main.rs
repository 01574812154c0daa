//! Errors, footprints and pages of all packages, and planted faults for the sanitizers.

#![cfg(feature = "std")]
#![allow(missing_docs, unsafe_code, clippy::unwrap_used, reason = "tests fail by panicking")]

mod controls;
mod errors;
mod footprint;
mod pages;
mod providers;
#[cfg(unix)]
mod soft_sleeping;
