mod children;
pub(crate) mod drawing;
pub(crate) mod machine;
mod report;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;

use crate::failure::Failure;
use crate::play;
use crate::play::setup::{MAX_ROUNDS, Measure, Meeting, Op, Place, Setup, usage};
use crate::{signals, text};
use drawing::Drawing;
use report::Bench;

/// Measures latency, message rate and bandwidth by provider and size.
///
/// Tagged messages, of which some are verified byte by byte before each measurement. Latency is
/// half a round trip of one message; the rate and the bandwidth are of batches of messages that
/// follow each other, with up to 64 in flight. Figures are medians, with the first and the third
/// quartile.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Providers, between commas: soft (the software transport), loom-tcp (TCP in Rust), and those
    /// that `loom info` names [default: soft, shm and tcp;ofi_rxm, as far as they are here; shm of
    /// libfabric 2 needs two processes]
    #[arg(long, value_name = "LIST")]
    provider: Option<String>,

    /// Sizes in bytes, with K, M or G for KiB, MiB and GiB
    #[arg(long, value_name = "LIST", default_value = "8,64,512,4K,64K,1M,4M")]
    sizes: String,

    /// Rounds, and messages of a batch, of each measurement [default: as many as fit into its time]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_ROUNDS))]
    iterations: Option<u64>,

    /// 1: two threads of one process; 2: two processes of this host (with libfabric) [default: 1]
    #[arg(long, value_name = "N", conflicts_with_all = ["listen", "connect"], value_parser = clap::value_parser!(u8).range(1..=2))]
    processes: Option<u8>,

    #[command(flatten)]
    meeting: Meeting,

    /// One JSON object instead of the table
    #[arg(long)]
    json: bool,

    /// Draw latency, rate and bandwidth by size into this file
    #[arg(long, value_name = "FILE", conflicts_with = "listen")]
    svg: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  loom bench
  loom bench --provider soft,'tcp;ofi_rxm'
  loom bench --provider shm,'tcp;ofi_rxm' --processes 2
  loom bench --provider 'tcp;ofi_rxm' --node 10.0.0.1 --listen 10.0.0.1:47593       on one host, and on another
  loom bench --provider 'tcp;ofi_rxm' --node 10.0.0.2 --connect 10.0.0.1:47593

Exit status: 0 done, 1 failed, 2 wrong options, 130 interrupted: the results until then are printed.";

impl Arguments {
    fn setups(&self) -> Result<Vec<Setup>, Failure> {
        let sizes = text::sizes(&self.sizes).map_err(|error| usage(format!("--sizes: {error}")))?;
        let across = self.processes == Some(2) || self.meeting.place().is_some();
        let providers: Vec<&str> = match &self.provider {
            Some(list) => list.split(',').map(str::trim).collect(),
            None => self.usual_providers(across)?,
        };
        if providers.iter().any(|name| name.is_empty()) {
            return Err(usage("--provider takes names between commas; `loom info` has them"));
        }
        if across && providers.contains(&"soft") {
            return Err(usage(
                "the software transport lives in the memory of one process: between two, name providers of libfabric, such as \
                 --provider shm",
            ));
        }
        if self.meeting.node.is_some() && providers.contains(&"soft") {
            return Err(usage(
                "the software transport has no addresses of this machine: --node is for providers of libfabric",
            ));
        }
        if self.meeting.place().is_some() && providers.len() > 1 {
            return Err(usage("--listen and --connect take one provider at a time"));
        }
        let setup = |provider: &str| Setup {
            ops: vec![Op::Tagged],
            sizes: sizes.clone(),
            measure: Measure::TripsAndFlow,
            iterations: self.iterations,
            place: self.meeting.place().unwrap_or(Place::TwoThreads),
            provider: (provider != "soft").then(|| provider.to_owned()),
            node: self.meeting.node.clone(),
            timeout: self.meeting.timeout,
            corrupt: None,
        };
        Ok(providers.into_iter().map(setup).collect())
    }

    fn usual_providers(&self, across: bool) -> Result<Vec<&'static str>, Failure> {
        if self.meeting.place().is_some() || self.meeting.node.is_some() {
            return Err(usage(
                "--listen, --connect and --node need a provider of libfabric, such as --provider 'tcp;ofi_rxm'",
            ));
        }
        let mut providers = if across { Vec::new() } else { vec!["soft"] };
        providers.extend(play::usual_providers(!across)?);
        Ok(providers)
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let setups = arguments.setups()?;
    let drawing = arguments.svg.as_deref().map(Drawing::open).transpose()?;
    let interrupted = signals::watch()?;
    let mut bench = Bench::new(arguments.json);
    let by_default = arguments.provider.is_none();
    let mut ended = Ok(());
    for setup in setups {
        let provider = setup.provider.clone();
        let Err(failure) = measure(setup, arguments.processes == Some(2), &interrupted, &mut bench) else { continue };
        if !by_default || matches!(failure, Failure::Interrupted | Failure::OutputClosed) {
            ended = Err(failure);
            break;
        }
        bench.progress.clear();
        let _ = writeln!(io::stderr(), "loom: {}: {failure:#}", provider.as_deref().unwrap_or("soft"));
        ended = ended.and(Err(failure));
    }
    bench.progress.clear();
    if !matches!(ended, Err(Failure::OutputClosed)) && !matches!(arguments.meeting.place(), Some(Place::Listen(_))) {
        bench.end(matches!(ended, Err(Failure::Interrupted)), ended.as_ref().err())?;
        if let Some(drawing) = drawing
            && !bench.is_empty()
        {
            drawing.write(&bench.draw())?;
        }
    }
    match ended {
        Ok(()) | Err(Failure::Interrupted | Failure::OutputClosed) => ended,
        Err(_) if by_default => Err(Failure::Said),
        Err(_) => ended,
    }
}

fn measure(
    mut setup: Setup,
    two_processes: bool,
    interrupted: &Arc<AtomicBool>,
    bench: &mut Bench,
) -> Result<(), Failure> {
    if setup.provider.is_none() {
        return play::over_soft(&setup, interrupted, bench);
    }
    if !two_processes {
        return play::over_libfabric(&setup, interrupted, bench);
    }
    let mut child = children::listener(&setup)?;
    setup.place = Place::Connect(child.address()?);
    play::over_libfabric(&setup, interrupted, bench)?;
    child.wait()
}
