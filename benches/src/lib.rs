//! The harness which measures loom, and what it measures.
//!
//! What is compared runs in one process, in short rounds that alternate ([`contest`]): a busy neighbour then hurts all sides
//! alike. Each round gives a figure for each side and a ratio for each pair; what is reported is their median with the
//! spread of the rounds ([`statistics`]). Rounds that scatter too far give no figure: the report says `noisy`.
//!
//! - [`statistics`]: medians, quartiles, ratios, and when they are too noisy.
//! - [`contest`]: sides that alternate.
//! - [`cores`]: threads kept on a core, and the far end of a side that needs two threads.
//! - [`report`]: what a run has found, as a table, as `metric` lines and as JSON.
//! - [`platform`]: the machine and the versions.
//! - [`compare`]: regressions between two reports.
//! - [`page`]: the pages' figures and drawings, made of reports.
//! - `sides`: who does the operations of one thread: loom, and C.
//! - [`sets`]: what is measured.

pub mod compare;
pub mod contest;
pub mod cores;
pub mod page;
pub mod platform;
pub mod report;
pub mod sets;
mod sides;
pub mod statistics;

/// Error of a measurement.
pub type Failure = Box<dyn std::error::Error>;
