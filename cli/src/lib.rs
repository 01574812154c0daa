//! `loom`, the command.

#![forbid(unsafe_code)]

mod bench;
mod doctor;
mod failure;
mod info;
mod manual;
mod media;
#[cfg(target_os = "linux")]
mod mxl;
mod pingpong;
mod play;
mod plot;
mod progress;
mod signals;
mod text;
mod transfer;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What this machine can do over libfabric and over loom's software transport, what is missing, and
/// how fast it is.
#[derive(Debug, Parser)]
#[command(name = "loom", bin_name = "loom", version, about, after_help = STATUS)]
struct Loom {
    #[command(subcommand)]
    command: Command,
}

const STATUS: &str = "Exit status: 0 done, 1 failed, 2 wrong options, 130 interrupted.";

#[derive(Debug, Subcommand)]
enum Command {
    Info(info::Arguments),
    Doctor(doctor::Arguments),
    Bench(bench::Arguments),
    Pingpong(pingpong::Arguments),
    Transfer(transfer::Arguments),
    Media(media::Arguments),
    #[cfg(target_os = "linux")]
    Mxl(mxl::Arguments),
    Completions(manual::Completions),
    Man(manual::Man),
}

/// Runs the command with these arguments, beginning with the program's name.
///
/// # Examples
///
/// ```
/// let status = loom_fabric_cli::run(["loom", "info", "--provider", "soft"].map(Into::into));
/// assert_eq!(format!("{status:?}"), format!("{:?}", std::process::ExitCode::SUCCESS));
/// ```
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let loom = match Loom::try_parse_from(arguments) {
        Ok(loom) => loom,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let done = match &loom.command {
        Command::Info(arguments) => info::run(arguments),
        Command::Doctor(arguments) => doctor::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
        Command::Pingpong(arguments) => pingpong::run(arguments),
        Command::Transfer(arguments) => transfer::run(arguments),
        Command::Media(arguments) => media::run(arguments),
        #[cfg(target_os = "linux")]
        Command::Mxl(arguments) => mxl::run(arguments),
        Command::Completions(arguments) => manual::completions(arguments),
        Command::Man(arguments) => manual::man(arguments),
    };
    let Err(failure) = done else { return ExitCode::SUCCESS };
    if let Some(text) = failure.text() {
        let _ = writeln!(io::stderr(), "loom: {text}");
    }
    ExitCode::from(failure.status())
}
