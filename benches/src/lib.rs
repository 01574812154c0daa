//! Harness that measures loom, and its measurements.
//!
//! Compared sides run in one process, in short rounds that alternate ([`contest`]), so that a busy
//! neighbour affects all sides equally. Each round gives a figure for each side and a ratio for
//! each pair. The report contains their median with the spread of the rounds ([`statistics`]), or
//! `noisy` if the rounds scatter too far.
//!
//! - [`statistics`]: medians, quartiles, ratios, and their limits of noise.
//! - [`contest`]: sides that alternate.
//! - [`cores`]: threads bound to a core, and the far end of a side that needs two threads.
//! - [`report`]: results of a run, as a table, as `metric` lines and as JSON.
//! - [`platform`]: the machine and the versions.
//! - [`compare`]: regressions between two reports.
//! - [`page`]: the pages' figures and drawings, made of reports.
//! - `sides`: implementations of the operations of one thread: loom, and C.
//! - [`sets`]: the measurements.

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
