//! What is to be played, and where.

use std::time::Duration;

use clap::{Args, ValueEnum};
use loom_core::vocabulary::Caps;

use crate::failure::Failure;
use crate::play::cores;

pub(crate) const DEFAULT_LISTEN: &str = "127.0.0.1:47593";
pub(crate) const MAX_ROUNDS: u64 = 10_000_000;
const MAX_TIMEOUT: f64 = 3600.0;

/// What is sent back and forth.
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

    /// What a provider must grant for it.
    pub(crate) fn caps(self) -> Caps {
        match self {
            Op::Message => Caps::MSG,
            Op::Tagged => Caps::TAGGED,
            Op::Write => Caps::RMA,
        }
    }
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

impl Place {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Place::OneThread => "one thread",
            Place::TwoThreads => "two threads",
            Place::Listen(_) | Place::Connect(_) => "two processes",
        }
    }

    #[cfg(feature = "libfabric")]
    pub(crate) fn is_one_process(&self) -> bool {
        matches!(self, Place::OneThread | Place::TwoThreads)
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Half round trips.
    Trips,
    /// Half round trips, and messages that follow each other.
    TripsAndFlow,
}

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) ops: Vec<Op>,
    pub(crate) sizes: Vec<usize>,
    pub(crate) measure: Measure,
    /// Measured rounds of each size; as many as there is time for if none.
    pub(crate) iterations: Option<u64>,
    pub(crate) place: Place,
    /// A provider of libfabric; libfabric's first one if none.
    pub(crate) provider: Option<String>,
    /// This side's address, for providers that have one.
    pub(crate) node: Option<String>,
    pub(crate) timeout: Duration,
    /// Where to put a wrong byte.
    pub(crate) corrupt: Option<usize>,
}

impl Setup {
    /// The processors of two threads.
    pub(crate) fn cores(&self) -> Option<[usize; 2]> {
        if self.place == Place::TwoThreads { cores::two() } else { None }
    }

    pub(crate) fn caps(&self) -> Caps {
        self.ops.iter().map(|op| op.caps()).fold(Caps::empty(), Caps::union)
    }
}

/// How a process meets the other one.
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
    /// Where the sides are, if in two processes.
    pub(crate) fn place(&self) -> Option<Place> {
        self.listen.clone().map(Place::Listen).or_else(|| self.connect.clone().map(Place::Connect))
    }
}

fn timeout(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| *seconds > 0.0 && *seconds <= MAX_TIMEOUT);
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("takes seconds, more than 0 and up to {MAX_TIMEOUT}, not `{text}`"))
}

pub(crate) fn usage(text: impl Into<String>) -> Failure {
    Failure::Usage(text.into())
}

/// How results are shown.
pub(crate) trait Report {
    /// The transport is open.
    fn begin(&mut self, transport: &str, provider: &str, place: &Place) -> Result<(), Failure>;
    /// This is measured next.
    fn next(&mut self, op: Op, size: usize);
    /// A result, as soon as it is known.
    fn row(&mut self, row: super::row::Row) -> Result<(), Failure>;
}
