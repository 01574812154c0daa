//! Tests of libfabric's own features, over the providers of this machine.

#![allow(missing_docs, unsafe_code, clippy::unwrap_used, reason = "tests fail by panicking")]

mod accelerator;
mod counters;
mod device;
mod discovery;
mod full_table;
mod gone_addresses;
mod group_connections;
mod groups;
mod headers;
#[cfg(not(libfabric_linked))]
mod loading;
#[cfg(feature = "log")]
mod log;
#[cfg(not(libfabric_linked))]
mod open_then_fail;
mod profiles;
mod raw;
mod regions;
mod shm_processes;
mod symmetric;
mod thread_bounds;
