//! An echo server of several hundred connections, in one thread of tokio, beside plain TCP sockets.
//!
//! ```text
//! cargo run --example echo_server -- --self-test                          needs nothing but memory
//! cargo run --release --features libfabric --example echo_server -- --self-test
//! cargo run --release --features libfabric --example echo_server          a server, until Ctrl-C
//! cargo run --release --features libfabric --example echo_server -- --connect 127.0.0.1:47610
//! echo stats | nc -q1 127.0.0.1 47611                                     asks the server
//! ```
//!
//! What it shows:
//!
//! - **A server of connections.** libfabric's provider `tcp` with connection-oriented endpoints (`FI_EP_MSG`): one task takes events and
//!   accepts, and each peer has a task of its own, in straight-line code. A peer that dies ends its own task and no other.
//! - **Sockets beside the fabric.** The admin port is an ordinary `TcpListener` of tokio in the same thread. While nothing happens,
//!   the thread sleeps ([`Mode::Sleep`](loom_async::tokio::Mode)).
//! - **Draining.** Ctrl-C ends the server in order: requests for connections are rejected, each peer is served until it has been quiet for half a
//!   second, its connection is closed, and a summary is printed. A second Ctrl-C ends the process at once.
//! - **One program for two transports.** The software transport has no connections. Here each client gets an endpoint of its own at the
//!   server; the two exchange addresses, and learn of each other's end, through channels. All that follows is the same code.
//!
//! | file | what it holds |
//! |---|---|
//! | `options` | what the user says |
//! | `connection` | an endpoint that serves one peer, and how the task learns that the peer is gone |
//! | `server`, `admin` | the tasks of peers, draining; the admin port |
//! | `libfabric`, `soft` | where connections come from, at servers and at clients |
//! | `client` | what clients of the self-test do |
//! | `self_test` | the referee: server, clients in threads, and clients in processes that are killed |

#![forbid(unsafe_code)]

mod admin;
mod client;
mod connection;
#[cfg(feature = "libfabric")]
mod libfabric;
#[cfg(not(feature = "libfabric"))]
#[path = "no_libfabric.rs"]
mod libfabric;
mod options;
mod self_test;
mod server;
mod soft;

use std::process::ExitCode;

use options::{Command, TransportKind};

/// Why the program ends before its time. Every error turns into it by `?`.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The options are wrong.
    Usage(String),
    Failed(String),
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Failed(error.to_string())
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(text)) => {
            eprintln!("echo_server: {text}\nTry `--help`.");
            ExitCode::from(2)
        }
        Err(Failure::Failed(text)) => {
            eprintln!("echo_server: {text}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    match options::parse(lexopt::Parser::from_env())? {
        Command::Help => print!("{}", options::HELP),
        Command::Serve(options) => println!("{}", libfabric::run_server(&options)?),
        Command::Connect { to, messages } => libfabric::run_client(to, messages)?,
        Command::SelfTest { transport: TransportKind::Soft, peers } => println!("{}", soft::self_test(peers)?),
        Command::SelfTest { transport: TransportKind::Libfabric, peers } => {
            println!("{}", libfabric::self_test(peers, Some(std::env::current_exe()?))?);
        }
    }
    Ok(())
}

/// The first Ctrl-C has the server drain; a second one ends the process at once.
///
/// Called when libfabric has been loaded. The handler replaces what was there before, which that of `tokio::signal` would call besides: libraries that
/// libfabric loads (PSM) install handlers which end the process.
#[cfg_attr(
    not(feature = "libfabric"),
    allow(dead_code, reason = "without libfabric there is nothing but the self-test")
)]
fn drain_at_ctrl_c(begin_drain: tokio::sync::watch::Sender<bool>) -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(move || {
        if begin_drain.send_replace(true) {
            std::process::exit(130);
        }
        eprintln!("draining; Ctrl-C again ends at once");
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: u16 = 40;

    #[test]
    fn clients_are_served_and_drained_over_memory() {
        let summary = soft::self_test(FEW).unwrap_or_else(|failure| panic!("{failure:?}"));
        println!("{summary}");
    }

    #[cfg(feature = "libfabric")]
    #[test]
    fn clients_are_served_and_drained_over_connections() {
        let summary = libfabric::self_test(FEW, None).unwrap_or_else(|failure| panic!("{failure:?}"));
        println!("{summary}");
    }
}
