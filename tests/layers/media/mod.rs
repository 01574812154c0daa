//! Media flows: grains and samples from an initiator to targets that come, go, and fall behind.

#![allow(clippy::cast_possible_truncation, reason = "small numbers")]

mod grains;
mod mxl;
mod random;
mod samples;
mod sequences;
mod targets;
mod world;
