//! The software transport.

mod atomics;
mod close;
mod faults;
mod iovecs;
mod keys;
mod lanes;
mod modes;
mod multi;
mod peek;
mod peer_counters;
mod query;
mod sleeping;
mod strict;
mod threads;
mod turns;
