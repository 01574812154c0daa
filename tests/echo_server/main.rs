//! Echo server of several hundred peers in one thread of tokio, beside a plain TCP socket: every byte of the echoes is checked, clients die in
//! the middle of messages, processes are killed, and the server drains while messages are in flight.
//!
//! Over libfabric's `tcp` the peers have connections. The software transport has none: each client gets an endpoint of its own at the
//! server, and the two exchange addresses, and the end of each other, through channels. The server is the same code.

#![allow(missing_docs, reason = "a test program")]

mod admin;
mod client;
mod connection;
#[cfg(feature = "libfabric")]
mod libfabric;
mod self_test;
mod server;
mod soft;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// Environment variable of a process that is a client: the address of its server.
const SERVER: &str = "LOOM_ECHO_SERVER";
const CLIENTS: u16 = 200;

/// Cause of a failed test. Every error converts into it.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure(format!("{error:#}"))
    }
}

fn trial(name: &str, self_test: fn(u16) -> Result<String, Failure>) -> Trial {
    Trial::test(name, move || {
        println!("{}", self_test(CLIENTS).map_err(|Failure(text)| text)?);
        Ok(())
    })
}

fn main() -> ExitCode {
    #[cfg(feature = "libfabric")]
    if let Ok(server) = std::env::var(SERVER) {
        let played = server.parse().map_err(Failure::from).and_then(libfabric::run_client);
        return if played.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let trials = vec![
        trial("soft::clients_are_served_and_drained", soft::self_test),
        #[cfg(feature = "libfabric")]
        trial("tcp::clients_are_served_and_drained", libfabric::self_test),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
