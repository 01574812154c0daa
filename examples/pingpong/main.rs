//! Ping-pong: verifies every byte, then measures latency and bandwidth, over the software transport or libfabric.
//!
//! ```text
//! cargo run --release --example pingpong
//! cargo run --release --example pingpong -- --help
//! ```
//!
//! What is measured is written once, generic over [`Transport`](loom_core::transport::Transport); the transports differ
//! in how a domain is opened, and in nothing else.
//!
//! | file | what it holds |
//! |---|---|
//! | `options`, `failure`, `report` | what the user says and sees |
//! | `soft`, `libfabric` | opening a domain of each transport |
//! | `open` | from a domain to sides: registered memory, queue, endpoint, the peer's address |
//! | `side`, `hold` | one side of the game: what it posts, and what it does with completions; where its buffers are |
//! | `game`, `bout` | verification, warm-up, measurement; what both sides know of them |
//! | `payload` | buffers, and the pattern in them |
//! | `session`, `link`, `bootstrap`, `frame` | waiting; talking to the other side through a channel or TCP |

#![forbid(unsafe_code)]

#[cfg_attr(not(feature = "libfabric"), allow(dead_code, reason = "two processes need libfabric"))]
mod bootstrap;
mod bout;
mod failure;
mod frame;
mod game;
mod hold;
#[cfg(feature = "libfabric")]
mod libfabric;
mod link;
mod open;
mod options;
mod payload;
mod report;
mod session;
mod side;
mod soft;

use std::io::{self, Write};
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use failure::Failure;
use options::{Command, Options, TransportKind};
use report::Report;

fn main() -> ExitCode {
    let Err(failure) = run() else { return ExitCode::SUCCESS };
    let mut stderr = io::stderr();
    // A message that cannot be written is lost; the exit status tells the rest.
    let _ = match &failure {
        Failure::OutputClosed => Ok(()),
        Failure::Interrupted => writeln!(stderr, "interrupted"),
        Failure::Usage(_) => writeln!(stderr, "pingpong: {failure}\nTry `--help`."),
        _ => writeln!(stderr, "pingpong: {failure}"),
    };
    ExitCode::from(failure.status())
}

fn run() -> Result<(), Failure> {
    let options = match options::parse(lexopt::Parser::from_env())? {
        Command::Help => return Ok(write!(io::stdout(), "{}", options::HELP)?),
        Command::Run(options) => options,
    };
    let interrupted = watch_for_signals()?;
    let mut report = Report::new(options.json);
    match options.transport {
        TransportKind::Soft => soft::run(&options, &interrupted, &mut report)?,
        TransportKind::Libfabric => run_libfabric(&options, &interrupted, &mut report)?,
    }
    report.end()
}

/// The first Ctrl-C asks the waiting loops to end; a second one ends the process at once.
///
/// The handler replaces what was there before instead of calling it: libraries that libfabric loads (PSM) install
/// handlers which end the process, endpoints open or not.
fn watch_for_signals() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            process::exit(failure::INTERRUPTED.into());
        }
    })
    .map_err(Failure::when("installing the signal handler"))?;
    Ok(interrupted)
}

#[cfg(feature = "libfabric")]
fn run_libfabric(options: &Options, interrupted: &Arc<AtomicBool>, report: &mut Report) -> Result<(), Failure> {
    libfabric::run(options, interrupted, report)
}

#[cfg(not(feature = "libfabric"))]
fn run_libfabric(_: &Options, _: &Arc<AtomicBool>, _: &mut Report) -> Result<(), Failure> {
    Err(Failure::Usage(
        "this program was built without the libfabric transport; build it with\n    \
         cargo run --release --features libfabric --example pingpong -- --transport libfabric ..."
            .into(),
    ))
}
