//! A key-value server and its clients, in straight-line async code.
//!
//! ```text
//! cargo run --release --example kv -- demo                      server and clients in one process; needs nothing but memory
//! cargo run --release --features libfabric --example kv -- serve --provider 'tcp;ofi_rxm'
//! cargo run --release --features libfabric --example kv -- put colour blue
//! cargo run --release --features libfabric --example kv -- get colour
//! cargo run --release --features libfabric --example kv -- put big - < FILE
//! ```
//!
//! What it shows:
//!
//! - **Messages for what is short.** A request is one message and so is its reply: a [header](wire) of fixed length, the key, and a value of up
//!   to 4 KiB. Bytes that are no request are answered with an error.
//! - **RMA for what is long.** A client has one registered region, and each request tells where it is. For `get` the server writes
//!   the value into it, and replies when the write has been delivered; for `put` it reads the value from it. No value is copied into
//!   messages, and the server's memory is reserved before a value is fetched.
//! - **Futures in place of a state machine.** The [server] is a loop that receives, serves and replies, 16 times beside each other. A
//!   client that is slow or gone holds up one of them, for ten seconds at most.
//! - **One program over every transport.** What serves and asks is generic over [`Transport`](loom_core::Transport). Addresses are exchanged
//!   over TCP (`bootstrap`) in the same runtime of tokio.
//!
//! Read [`server`] first, then [`client`] and [`wire`].
//!
//! | file | what it holds |
//! |---|---|
//! | `wire` | requests and replies as bytes |
//! | `store` | values in memory of a bounded size |
//! | `node` | an endpoint with a queue of its own, and its driver |
//! | `server`, `client` | the two sides |
//! | `demo` | both in one thread, over the software transport |
//! | `bootstrap`, `libfabric` | how processes learn each other's addresses; providers |
//! | `options` | what the user says |

#![forbid(unsafe_code)]

#[cfg(feature = "libfabric")]
mod bootstrap;
mod client;
mod demo;
#[cfg(feature = "libfabric")]
mod libfabric;
mod node;
mod options;
mod server;
mod store;
#[cfg(test)]
mod tests;
mod wire;

use std::process::ExitCode;

use options::Command;

/// Why the program ends before its time. Every error turns into it by `?`.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The options are wrong.
    Usage(String),
    /// There is no value for the key.
    #[cfg_attr(not(feature = "libfabric"), allow(dead_code, reason = "the demo finds all of its keys"))]
    NotFound,
    Failed(String),
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Failed(error.to_string())
    }
}

fn main() -> ExitCode {
    let Err(failure) = run() else { return ExitCode::SUCCESS };
    match failure {
        Failure::Usage(text) => {
            eprintln!("kv: {text}\nTry `--help`.");
            return ExitCode::from(2);
        }
        Failure::NotFound => eprintln!("kv: there is no value for this key"),
        Failure::Failed(text) => eprintln!("kv: {text}"),
    }
    ExitCode::FAILURE
}

fn run() -> Result<(), Failure> {
    match options::parse(lexopt::Parser::from_env())? {
        Command::Help => print!("{}", options::HELP),
        Command::Demo(demo) => println!("{}", on_this_thread(demo::play(demo))??),
        #[cfg(feature = "libfabric")]
        Command::Serve(options) => on_this_thread(libfabric::serve(&options))??,
        #[cfg(feature = "libfabric")]
        Command::Ask { server, question } => on_this_thread(libfabric::ask(server, question))??,
        #[cfg(not(feature = "libfabric"))]
        Command::Serve(_) | Command::Ask { .. } => {
            return Err(Failure::Usage(
                "processes need libfabric; build with `--features libfabric`, or run `demo`".into(),
            ));
        }
    }
    Ok(())
}

/// Runs a future in a runtime of this thread.
fn on_this_thread<F: Future>(future: F) -> std::io::Result<F::Output> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future))
}
