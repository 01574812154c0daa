//! Media flows: grains and samples from an initiator to targets that come, go, and fall behind.

mod grains;
mod samples;
mod sequences;
mod targets;
mod world;
