//! What this machine can do: every offer of the software transport and of libfabric, as a table or as JSON.
//!
//! ```text
//! cargo run --release --example info --features libfabric
//! ```

#![allow(clippy::print_stdout, reason = "a program that prints")]

mod json;
mod offer;
mod options;
mod table;

use std::io::{self, Write};
use std::process::ExitCode;

use offer::Found;
use options::{HELP, Options, Show};

fn run(options: &Options) -> Result<String, String> {
    let found = offer::find(options)?;
    Ok(match options.show {
        Show::Help => HELP.to_owned(),
        Show::Json => json::text(&found),
        Show::Words => words(&found),
        Show::Table => table::text(&found),
    })
}

/// Everything in libfabric's words.
fn words(found: &Found) -> String {
    found.offers.iter().map(|offer| format!("{}\n---\n", offer.words)).collect()
}

fn main() -> ExitCode {
    let options = match options::read(lexopt::Parser::from_env()) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("info: {error}; --help tells what there is");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        // A reader that has seen enough, as `head` has, is no failure.
        Ok(text) => match io::stdout().lock().write_all(text.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                eprintln!("info: {error}");
                ExitCode::FAILURE
            }
            _ => ExitCode::SUCCESS,
        },
        Err(error) => {
            eprintln!("info: {error}");
            ExitCode::FAILURE
        }
    }
}
