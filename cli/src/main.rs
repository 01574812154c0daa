//! `loom`, the command.

use std::process::ExitCode;

fn main() -> ExitCode {
    loom_fabric_cli::run(std::env::args_os())
}
