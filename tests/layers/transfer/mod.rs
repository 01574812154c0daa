//! Transfers over the software transport, also with faults, and over providers of libfabric.
//! Topology of machines.

#![allow(clippy::cast_possible_truncation, reason = "small numbers")]

mod agent;
mod ends;
mod faults;
mod messages;
mod moving;
mod sides;
mod silence;
mod topology;
