use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use loom_core::info::{Hints, Info};
use loom_tcp::{Tcp, TcpAttr};

use super::libfabric;
use crate::failure::Failure;
use crate::play::setup::{Report, Setup};

pub(crate) const NAME: &str = "loom-tcp";

pub(crate) const TITLE: &str = "TCP in Rust";

pub(super) fn run(setup: &Setup, interrupted: &Arc<AtomicBool>, report: &mut dyn Report) -> Result<(), Failure> {
    libfabric::play(TITLE, &find(setup)?, setup, interrupted, report)
}

pub(crate) fn find(setup: &Setup) -> Result<Info<Tcp>, Failure> {
    let node = setup.node.as_deref();
    let hints = Hints { caps: setup.caps(), node, listen: node.is_some(), ..Hints::default() };
    loom_tcp::query(&hints, TcpAttr::DEFAULT).map_err(|error| Failure::Unavailable(format!("{NAME}: {error:#}")))
}
