//! What the user says.

use std::time::Duration;

use lexopt::Arg::Long;
use lexopt::{Parser, ValueExt};

pub(crate) const HELP: &str = "\
A busy-polled runtime with a client, a server and a housekeeper on one thread.

Usage: embedded_runtime [OPTIONS]

  --seconds N        how long it runs [2]
  --interval MICROS  how often a request is due [20]
  --budget N         most completions of a task in one turn [16]
  --core N           bind the thread to this processor [the one that it starts on]
  --provider NAME    over a provider of libfabric instead of the software transport: shm, 'tcp;ofi_rxm'
  --help             this text
";

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) time: Duration,
    pub(crate) interval: Duration,
    pub(crate) budget: u32,
    pub(crate) core: Option<usize>,
    pub(crate) provider: Option<String>,
}

impl Options {
    pub(crate) const DEFAULT: Options = Options {
        time: Duration::from_secs(2),
        interval: Duration::from_micros(20),
        budget: 16,
        core: None,
        provider: None,
    };
}

/// `None` if it is help that is wanted.
pub(crate) fn parse(mut parser: Parser) -> Result<Option<Options>, lexopt::Error> {
    let mut options = Options::DEFAULT;
    while let Some(argument) = parser.next()? {
        match argument {
            Long("seconds") => options.time = Duration::from_secs(positive(&mut parser)?.into()),
            Long("interval") => options.interval = Duration::from_micros(positive(&mut parser)?.into()),
            Long("budget") => options.budget = positive(&mut parser)?,
            Long("core") => options.core = Some(parser.value()?.parse()?),
            Long("provider") => options.provider = Some(parser.value()?.string()?),
            Long("help") => return Ok(None),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(options))
}

fn positive(parser: &mut Parser) -> Result<u32, lexopt::Error> {
    let number = parser.value()?.parse()?;
    if number == 0 { Err("a number above zero is needed".into()) } else { Ok(number) }
}
