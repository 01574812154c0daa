pub(crate) mod bootstrap;
mod bout;
pub(crate) mod cores;
mod flow;
pub(crate) mod frame;
pub(crate) mod game;
mod hold;
pub(crate) mod libfabric;
pub(crate) mod link;
pub(crate) mod open;
pub(crate) mod payload;
pub(crate) mod row;
pub(crate) mod session;
pub(crate) mod setup;
mod side;
pub(crate) mod soft;
pub(crate) mod tcp;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::failure::Failure;
use loom_fabric::ofi::Library;
use setup::{Report, Setup};

pub(crate) fn over_soft(setup: &Setup, interrupted: &Arc<AtomicBool>, report: &mut dyn Report) -> Result<(), Failure> {
    soft::run(setup, interrupted, report)
}

/// Libfabric offers only endpoints in shared memory.
pub(crate) const NO_ADDRESS: &str = "--node: endpoints over shm and sm2 have no address to choose; leave --node out";

/// Default providers of `loom bench` that this machine has.
///
/// Two processes need at least one.
pub(crate) fn usual_providers(one_process: bool) -> Result<Vec<&'static str>, Failure> {
    libfabric::usual(one_process)
}

pub(crate) fn library() -> Option<String> {
    Library::get().ok().map(|library| library.version().to_string())
}

/// Over a provider of libfabric, or TCP in Rust.
pub(crate) fn over_libfabric(
    setup: &Setup,
    interrupted: &Arc<AtomicBool>,
    report: &mut dyn Report,
) -> Result<(), Failure> {
    match setup.provider.as_deref() {
        Some(tcp::NAME) => tcp::run(setup, interrupted, report),
        _ => libfabric::run(setup, interrupted, report),
    }
}
