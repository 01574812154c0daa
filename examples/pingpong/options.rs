//! What the user asks for.

use std::ffi::OsString;
use std::time::Duration;

use lexopt::Arg::Long;
use lexopt::{Parser, ValueExt};
use loom_core::vocabulary::Caps;

use crate::failure::Failure;
use crate::report::size_text;

const DEFAULT_LISTEN: &str = "127.0.0.1:47593";

/// The default: 1 B to 4 MiB.
const DEFAULT_SIZES: [usize; 12] =
    [1, 8, 64, 512, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20, 4 << 20];

const MAX_SIZE: usize = 1 << 30;
const MAX_SIZES: usize = 64;
pub(crate) const MAX_ROUNDS: u64 = 10_000_000;
const MAX_TIMEOUT: f64 = 3600.0;

pub(crate) const HELP: &str = "\
Sends messages back and forth: verifies every byte, then measures half round trips and bandwidth.

Usage: pingpong [OPTIONS]

What to measure:
  --op OP              message, tagged, write (RMA with immediate data) or all [all]
  --sizes LIST         sizes in bytes, with K or M for KiB and MiB [1,8,64,512,1K,4K,16K,64K,256K,1M,2M,4M]
  --iterations N       measured rounds of each size [as many as fit into a quarter of a second]

Where:
  --transport NAME     soft (needs nothing but memory) or libfabric [soft]
  --threads N          1: both endpoints in one thread; 2: a thread for each [2]
  --provider NAME      libfabric's provider, as fi_info names it: shm, 'tcp;ofi_rxm' [libfabric's first]
  --node ADDRESS       this side's address, for providers that have one [127.0.0.1]
  --listen [ADDR:PORT] wait for another process, with libfabric [127.0.0.1:47593]
  --connect ADDR:PORT  play with the process that listens there, with libfabric; this side prints the results

Besides:
  --timeout SECONDS    give up when nothing happens for so long [10]
  --json               one JSON object instead of the table
  --corrupt OFFSET     send one wrong byte, to see that verification finds it
  --help               this text

Times are half round trips on a clock that is read once per round; bandwidth is the size by the median.

Examples:
  pingpong
  pingpong --threads 1 --op tagged --sizes 1,64,4K
  pingpong --transport libfabric --provider 'tcp;ofi_rxm' --json
  pingpong --transport libfabric --provider shm --listen             in one terminal, and in another
  pingpong --transport libfabric --provider shm --connect 127.0.0.1:47593

Exit status: 0 done, 1 failed, 2 wrong options, 130 interrupted.
";

/// What is sent back and forth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Message,
    Tagged,
    Write,
}

impl Op {
    const ALL: [Op; 3] = [Op::Message, Op::Tagged, Op::Write];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Op::Message => "message",
            Op::Tagged => "tagged",
            Op::Write => "write",
        }
    }

    /// What a provider must grant for it.
    pub(crate) fn caps(self) -> Caps {
        match self {
            Op::Message => Caps::MSG,
            Op::Tagged => Caps::TAGGED,
            Op::Write => Caps::RMA,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransportKind {
    Soft,
    Libfabric,
}

/// Where the two sides are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    OneThread,
    TwoThreads,
    /// The other side is a process that will connect.
    Listen(String),
    /// The other side is a process that listens.
    Connect(String),
}

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) ops: Vec<Op>,
    pub(crate) sizes: Vec<usize>,
    pub(crate) iterations: Option<u64>,
    pub(crate) transport: TransportKind,
    pub(crate) place: Place,
    pub(crate) provider: Option<String>,
    pub(crate) node: Option<String>,
    pub(crate) timeout: Duration,
    pub(crate) json: bool,
    pub(crate) corrupt: Option<usize>,
}

impl Options {
    pub(crate) fn caps(&self) -> Caps {
        self.ops.iter().map(|op| op.caps()).fold(Caps::empty(), Caps::union)
    }
}

pub(crate) enum Command {
    Help,
    Run(Options),
}

pub(crate) fn parse(mut parser: Parser) -> Result<Command, Failure> {
    let mut options = Options {
        ops: Op::ALL.to_vec(),
        sizes: DEFAULT_SIZES.to_vec(),
        iterations: None,
        transport: TransportKind::Soft,
        place: Place::TwoThreads,
        provider: None,
        node: None,
        timeout: Duration::from_secs(10),
        json: false,
        corrupt: None,
    };
    let (mut threads, mut listen, mut connect) = (None, None, None);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("help") | lexopt::Arg::Short('h') => return Ok(Command::Help),
            Long("op") => options.ops = ops(&text(parser.value()?)?)?,
            Long("sizes") => options.sizes = sizes(&text(parser.value()?)?)?,
            Long("iterations") => {
                options.iterations = Some(number("--iterations", &text(parser.value()?)?, MAX_ROUNDS)?)
            }
            Long("threads") => threads = Some(number("--threads", &text(parser.value()?)?, 2)?),
            Long("transport") => options.transport = transport(&text(parser.value()?)?)?,
            Long("provider") => options.provider = Some(text(parser.value()?)?),
            Long("node") => options.node = Some(text(parser.value()?)?),
            Long("listen") => listen = Some(text(listen_value(&mut parser))?),
            Long("connect") => connect = Some(text(parser.value()?)?),
            Long("timeout") => options.timeout = timeout(&text(parser.value()?)?)?,
            Long("json") => options.json = true,
            Long("corrupt") => {
                options.corrupt = Some(text(parser.value()?)?.parse().map_err(|_| usage("--corrupt takes an offset"))?)
            }
            other => return Err(other.unexpected().into()),
        }
    }
    options.place = match (threads, listen, connect) {
        (None | Some(2), None, None) => Place::TwoThreads,
        (Some(_), None, None) => Place::OneThread,
        (None, Some(at), None) => Place::Listen(at),
        (None, None, Some(to)) => Place::Connect(to),
        (None, Some(_), Some(_)) => return Err(usage("--listen and --connect exclude each other")),
        (Some(_), _, _) => return Err(usage("--threads is for one process: not with --listen or --connect")),
    };
    if options.transport == TransportKind::Soft {
        if matches!(options.place, Place::Listen(_) | Place::Connect(_)) {
            return Err(usage(
                "the software transport lives in the memory of one process; --listen and --connect need --transport libfabric",
            ));
        }
        if options.provider.is_some() || options.node.is_some() {
            return Err(usage("--provider and --node need --transport libfabric"));
        }
    }
    if options.corrupt.is_some_and(|offset| options.sizes.iter().all(|size| *size <= offset)) {
        return Err(usage("--corrupt takes the offset of a byte in one of the sizes"));
    }
    Ok(Command::Run(options))
}

/// The address after `--listen`, if there is one.
fn listen_value(parser: &mut Parser) -> OsString {
    let separate =
        |parser: &mut Parser| parser.try_raw_args()?.next_if(|next| !next.to_string_lossy().starts_with('-'));
    parser.optional_value().or_else(|| separate(parser)).unwrap_or_else(|| DEFAULT_LISTEN.into())
}

fn usage(text: impl Into<String>) -> Failure {
    Failure::Usage(text.into())
}

fn text(value: OsString) -> Result<String, Failure> {
    Ok(value.string()?)
}

fn number(option: &str, text: &str, max: u64) -> Result<u64, Failure> {
    let number = text.parse().ok().filter(|number| (1..=max).contains(number));
    number.ok_or_else(|| usage(format!("{option} takes a number from 1 to {max}, not `{text}`")))
}

fn ops(text: &str) -> Result<Vec<Op>, Failure> {
    if text == "all" {
        return Ok(Op::ALL.to_vec());
    }
    let op = Op::ALL.into_iter().find(|op| op.name() == text);
    Ok(vec![op.ok_or_else(|| usage(format!("--op is message, tagged, write or all, not `{text}`")))?])
}

fn transport(text: &str) -> Result<TransportKind, Failure> {
    match text {
        "soft" => Ok(TransportKind::Soft),
        "libfabric" => Ok(TransportKind::Libfabric),
        _ => Err(usage(format!("--transport is soft or libfabric, not `{text}`"))),
    }
}

fn timeout(text: &str) -> Result<Duration, Failure> {
    let seconds = text.parse().ok().filter(|seconds: &f64| *seconds > 0.0 && *seconds <= MAX_TIMEOUT);
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| usage(format!("--timeout takes seconds, more than 0 and up to {MAX_TIMEOUT}, not `{text}`")))
}

fn sizes(list: &str) -> Result<Vec<usize>, Failure> {
    let sizes: Vec<usize> = list.split(',').map(size).collect::<Result<_, _>>()?;
    if sizes.len() > MAX_SIZES {
        return Err(usage(format!("--sizes takes up to {MAX_SIZES} sizes")));
    }
    Ok(sizes)
}

fn size(text: &str) -> Result<usize, Failure> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let size = digits.parse::<usize>().ok().and_then(|count| count.checked_mul(unit));
    size.filter(|size| (1..=MAX_SIZE).contains(size)).ok_or_else(|| {
        usage(format!("--sizes takes sizes from 1 B to {}, like 1,64,4K,1M; not `{text}`", size_text(MAX_SIZE)))
    })
}

impl From<lexopt::Error> for Failure {
    fn from(error: lexopt::Error) -> Self {
        Failure::Usage(error.to_string())
    }
}
