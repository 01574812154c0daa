use std::time::Duration;

use clap::{Args, ValueEnum};
use loom_core::vocabulary::Caps;

use crate::failure::Failure;
use crate::play::cores;

pub(crate) const DEFAULT_LISTEN: &str = "127.0.0.1:47593";
pub(crate) const MAX_ROUNDS: u64 = 10_000_000;
const MAX_TIMEOUT: f64 = 3600.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Op {
    Message,
    Tagged,
    /// RMA with immediate data
    Write,
}

impl Op {
    pub(crate) const ALL: [Op; 3] = [Op::Message, Op::Tagged, Op::Write];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Op::Message => "message",
            Op::Tagged => "tagged",
            Op::Write => "write",
        }
    }

    pub(crate) fn caps(self) -> Caps {
        match self {
            Op::Message => Caps::MSG,
            Op::Tagged => Caps::TAGGED,
            Op::Write => Caps::RMA,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    OneThread,
    TwoThreads,
    Listen(String),
    Connect(String),
}

impl Place {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Place::OneThread => "one thread",
            Place::TwoThreads => "two threads",
            Place::Listen(_) | Place::Connect(_) => "two processes",
        }
    }

    pub(crate) fn is_one_process(&self) -> bool {
        matches!(self, Place::OneThread | Place::TwoThreads)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    Trips,
    TripsAndFlow,
}

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) ops: Vec<Op>,
    pub(crate) sizes: Vec<usize>,
    pub(crate) measure: Measure,
    /// Measured rounds of each size, or `None` to choose by time.
    pub(crate) iterations: Option<u64>,
    pub(crate) place: Place,
    pub(crate) provider: Option<String>,
    pub(crate) node: Option<String>,
    pub(crate) timeout: Duration,
    pub(crate) corrupt: Option<usize>,
}

impl Setup {
    pub(crate) fn cores(&self) -> Option<[usize; 2]> {
        if self.place == Place::TwoThreads { cores::two() } else { None }
    }

    pub(crate) fn warn_of_one_core(&self) {
        if self.place == Place::TwoThreads && self.cores().is_none() {
            eprintln!("loom: warning: both threads run on one processor: the times are those of its scheduler");
        }
    }

    pub(crate) fn caps(&self) -> Caps {
        self.ops.iter().map(|op| op.caps()).fold(Caps::empty(), Caps::union)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Meeting {
    /// Wait for another process at this address (with libfabric)
    #[arg(long, value_name = "ADDR:PORT", num_args = 0..=1, default_missing_value = DEFAULT_LISTEN, conflicts_with = "connect")]
    pub(crate) listen: Option<String>,

    /// Play with the process that listens there (with libfabric); this side prints the results
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) connect: Option<String>,

    /// This side's address, for providers that have one [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) node: Option<String>,

    /// Give up when nothing happens for this number of seconds
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = timeout)]
    pub(crate) timeout: Duration,
}

impl Meeting {
    pub(crate) fn place_or(&self, threads: Option<u8>) -> Place {
        let here = if threads == Some(1) { Place::OneThread } else { Place::TwoThreads };
        self.place().unwrap_or(here)
    }

    /// Refuses options of libfabric alone.
    pub(crate) fn check_soft(&self) -> Result<(), Failure> {
        if self.place().is_some() {
            return Err(usage(
                "the software transport lives in the memory of one process; --listen and --connect need a provider of libfabric, \
                 such as --provider shm",
            ));
        }
        if self.node.is_some() {
            return Err(usage(
                "the software transport has no addresses of this machine: --node is for providers of libfabric",
            ));
        }
        Ok(())
    }

    pub(crate) fn place(&self) -> Option<Place> {
        self.listen.clone().map(Place::Listen).or_else(|| self.connect.clone().map(Place::Connect))
    }
}

pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| *seconds > 0.0 && *seconds <= MAX_TIMEOUT);
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("takes seconds, more than 0 and up to {MAX_TIMEOUT}, not `{text}`"))
}

pub(crate) fn is_soft(provider: &str) -> Result<bool, Failure> {
    if provider.is_empty() || provider.contains(',') {
        return Err(usage("--provider takes one name; `loom bench` measures several"));
    }
    Ok(provider == "soft")
}

pub(crate) fn usage(text: impl Into<String>) -> Failure {
    Failure::Usage(text.into())
}

pub(crate) trait Report {
    fn begin(&mut self, transport: &str, provider: &str, place: &Place) -> Result<(), Failure>;
    fn next(&mut self, op: Op, size: usize);
    fn row(&mut self, row: super::row::Row) -> Result<(), Failure>;
}
