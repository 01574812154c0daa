//! Ping-pong: verifies every byte, then measures latency and bandwidth, over the software transport or libfabric.
//!
//! ```text
//! cargo run --release --example pingpong
//! cargo run --release --example pingpong -- --help
//! ```
//!
//! It is `loom pingpong`, whose code is in `cli/src/play` and `cli/src/pingpong`. What is measured is written once, generic over
//! [`Transport`](loom_fabric::Transport); the transports differ in how a domain is opened, and in nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1);
    loom_fabric_cli::run(["loom".into(), "pingpong".into()].into_iter().chain(arguments))
}
