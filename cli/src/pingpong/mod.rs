pub(crate) mod report;

use clap::{Args, ValueEnum};

use crate::failure::Failure;
use crate::play;
use crate::play::setup::{MAX_ROUNDS, Measure, Meeting, Op, Setup, is_soft, usage};
use crate::{signals, text};
use report::Table;

/// Sends messages back and forth: verifies every byte, then measures half round trips and
/// bandwidth.
///
/// Times are half round trips on a clock that is read once per round; bandwidth is the size by the
/// median.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// What is sent
    #[arg(long, value_enum, default_value = "all")]
    op: Ops,

    /// Sizes in bytes, with K, M or G for KiB, MiB and GiB
    #[arg(long, value_name = "LIST", default_value = "1,8,64,512,1K,4K,16K,64K,256K,1M,2M,4M")]
    sizes: String,

    /// Measured rounds of each size [default: as many as fit into a quarter of a second]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_ROUNDS))]
    iterations: Option<u64>,

    /// The provider: soft (the software transport), loom-tcp (TCP in Rust), or one that `loom info`
    /// names: shm, 'tcp;ofi_rxm' [default: soft]
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,

    /// The transport, as it was chosen before `--provider soft`; `libfabric` without a provider is
    /// libfabric's first one
    #[arg(long, value_enum, hide = true)]
    transport: Option<Transport>,

    /// 1: both endpoints in one thread; 2: a thread for each [default: 2]
    #[arg(long, value_name = "N", conflicts_with_all = ["listen", "connect"], value_parser = clap::value_parser!(u8).range(1..=2))]
    threads: Option<u8>,

    #[command(flatten)]
    meeting: Meeting,

    /// One JSON object instead of the table
    #[arg(long)]
    json: bool,

    /// Send one wrong byte, to see that verification finds it
    #[arg(long, value_name = "OFFSET")]
    corrupt: Option<usize>,
}

const EXAMPLES: &str = "\
Examples:
  loom pingpong
  loom pingpong --threads 1 --op tagged --sizes 1,64,4K
  loom pingpong --provider 'tcp;ofi_rxm' --json
  loom pingpong --provider shm --listen             in one terminal, and in another
  loom pingpong --provider shm --connect 127.0.0.1:47593

Exit status: 0 done, 1 failed, 2 wrong options, 130 interrupted.";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Ops {
    All,
    Message,
    Tagged,
    /// RMA with immediate data
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Transport {
    Soft,
    Libfabric,
}

impl Arguments {
    fn transport(&self) -> Result<Transport, Failure> {
        let transport = |is_soft| if is_soft { Transport::Soft } else { Transport::Libfabric };
        let named = self.provider.as_deref().map(is_soft).transpose()?.map(transport);
        match (named, self.transport) {
            (Some(named), Some(transport)) if named != transport => {
                Err(usage("--transport has no such provider: leave it out, --provider is enough"))
            }
            (named, transport) => Ok(named.or(transport).unwrap_or(Transport::Soft)),
        }
    }

    fn setup(&self) -> Result<Setup, Failure> {
        let sizes = text::sizes(&self.sizes).map_err(|error| usage(format!("--sizes: {error}")))?;
        if self.transport()? == Transport::Soft {
            self.meeting.check_soft()?;
        }
        if self.corrupt.is_some_and(|offset| sizes.iter().all(|size| *size <= offset)) {
            return Err(usage("--corrupt takes the offset of a byte in one of the sizes"));
        }
        Ok(Setup {
            ops: match self.op {
                Ops::All => Op::ALL.to_vec(),
                Ops::Message => vec![Op::Message],
                Ops::Tagged => vec![Op::Tagged],
                Ops::Write => vec![Op::Write],
            },
            sizes,
            measure: Measure::Trips,
            iterations: self.iterations,
            place: self.meeting.place_or(self.threads),
            provider: self.provider.clone(),
            node: self.meeting.node.clone(),
            timeout: self.meeting.timeout,
            corrupt: self.corrupt,
        })
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let setup = arguments.setup()?;
    let interrupted = signals::watch()?;
    setup.warn_of_one_core();
    let mut table = Table::new(arguments.json, setup.cores());
    let played = match arguments.transport()? {
        Transport::Soft => play::over_soft(&setup, &interrupted, &mut table),
        Transport::Libfabric => play::over_libfabric(&setup, &interrupted, &mut table),
    };
    table.clear_progress();
    match played {
        Ok(()) => table.end(false),
        Err(Failure::Interrupted) => table.end(true).and(Err(Failure::Interrupted)),
        Err(failure) => Err(failure),
    }
}
