//! In place of `libfabric`, where the program was built without it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::Failure;
use crate::options::ServerOptions;

fn missing() -> Failure {
    Failure::Usage(
        "connections need libfabric; build with `--features libfabric`, or run `--self-test --transport soft`".into(),
    )
}

pub(crate) fn run_server(_: &ServerOptions) -> Result<Infallible, Failure> {
    Err(missing())
}

pub(crate) fn run_client(_: SocketAddr, _: u64) -> Result<(), Failure> {
    Err(missing())
}

pub(crate) fn self_test(_: u16, _: Option<PathBuf>) -> Result<Infallible, Failure> {
    Err(missing())
}
