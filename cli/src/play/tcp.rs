use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use loom_core::info::Hints;
use loom_tcp::TcpAttr;

use super::libfabric;
use crate::failure::Failure;
use crate::play::setup::{Report, Setup};

pub(crate) const NAME: &str = "loom-tcp";

pub(super) fn run(setup: &Setup, interrupted: &Arc<AtomicBool>, report: &mut dyn Report) -> Result<(), Failure> {
    let node = setup.node.as_deref();
    let hints = Hints { caps: setup.caps(), node, listen: node.is_some(), ..Hints::default() };
    let info = loom_tcp::query(&hints, TcpAttr::DEFAULT)
        .map_err(|error| Failure::Unavailable(format!("{NAME}: {error:#}")))?;
    libfabric::play("TCP in Rust", &info, setup, interrupted, report)
}
