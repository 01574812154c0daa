//! Measures which algorithm of each collective is faster, by size, and prints the table that says so: for `TeamAttr::with_table`.
//!
//! ```text
//! cargo run --release --example tune_collectives                             threads, over memory
//! cargo run --release --example tune_collectives --features libfabric -- --provider shm --members 4
//! tune_collectives --provider 'tcp;ofi_rxm' --members 16 --rank R --at HOST:PORT --node ADDRESS      on each host, by a launcher
//! ```
//!
//! Over a provider the members are processes, which this program starts, unless each has its rank from a launcher. They meet at an address of rank 0.
//! A machine with fewer cores than members measures its scheduler.

#![forbid(unsafe_code)]

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use loom_core::allocator_api2::alloc::Global;
use loom_fabric::{Deadline, Domain, Error, Network, NetworkAttr, Transport, loom_core};
use loom_group::bootstrap::{Board, Bootstrap, InProcess, Slots};
use loom_group::collective::{CollectiveError, Combine, Element, Running, Sum, Team, TeamAttr};
use loom_group::exchange::Record;
use loom_group::schedule::{Switch, Table};
use loom_group::{PeerIndex, Prepared};

const HELP: &str = "\
Measures which algorithm of each collective is faster, and prints the table of it.

    --provider NAME    soft (default: threads), or a provider of libfabric (processes; with the feature `libfabric`)
    --members N        how many members (default 2)
    --packet BYTES     the capacity of a packet (default 8192)
    --longest BYTES    the longest message (default 262144)
    --node ADDRESS     the address of this host on the fabric (default 127.0.0.1; shm has none)
    --rank R           this is member R; otherwise this program starts all of them
    --at ADDRESS:PORT  where member 0 listens for the others
    --help
";

/// The longest wait for the other members.
const LIMIT: Duration = Duration::from_secs(60);
/// Of what is measured, the fastest of so many counts: the machine does other work, too.
const ROUNDS: u32 = 5;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone)]
struct Options {
    provider: String,
    members: u32,
    packet: usize,
    longest: usize,
    #[cfg_attr(not(feature = "libfabric"), allow(dead_code, reason = "threads have none"))]
    node: String,
    rank: Option<u32>,
    #[cfg_attr(not(feature = "libfabric"), allow(dead_code, reason = "threads meet in memory"))]
    at: Option<SocketAddr>,
}

fn options() -> Result<Option<Options>, Failure> {
    use lexopt::prelude::*;

    let (provider, node) = ("soft".into(), "127.0.0.1".into());
    let mut options = Options { provider, members: 2, packet: 8 << 10, longest: 256 << 10, node, rank: None, at: None };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("provider") => options.provider = parser.value()?.string()?,
            Long("members") => options.members = parser.value()?.parse()?,
            Long("packet") => options.packet = parser.value()?.parse()?,
            Long("longest") => options.longest = parser.value()?.parse()?,
            Long("node") => options.node = parser.value()?.string()?,
            Long("rank") => options.rank = Some(parser.value()?.parse()?),
            Long("at") => options.at = Some(parser.value()?.parse()?),
            Long("help") | Short('h') => return Ok(None),
            _ => return Err(argument.unexpected().into()),
        }
    }
    if options.members < 2 || options.packet < 64 || options.longest < 64 {
        return Err("there are two members or more, and packets and messages of 64 bytes or more".into());
    }
    if options.rank.is_some() && options.at.is_none() {
        return Err("a member with a rank needs --at, where member 0 listens".into());
    }
    Ok(Some(options))
}

/// A deadline that leaves the processor to the other members: there may be more members than cores.
#[derive(Clone, Copy)]
struct Yielding(Instant);

fn soon() -> Yielding {
    Yielding(Instant::now() + LIMIT)
}

impl Deadline for Yielding {
    fn passed(&mut self) -> bool {
        thread::yield_now();
        self.0.passed()
    }
}

type Members<'g, T> = Team<'g, 'static, T, Vec<u8>, Global>;
type Started<'t, 'b, T, E, C> = Result<Running<'t, 'b, 'static, T, Vec<u8>, Global, E, C>, CollectiveError>;

fn finish<T: Transport, E: Element, C: Combine<E>>(running: Started<'_, '_, T, E, C>) -> Result<(), Failure> {
    Ok(running.map_err(Error::from)?.wait(soon()).map_err(Error::from)?)
}

/// Runs a collective, of an input and an output.
type Run<T> = fn(&Members<'_, T>, count: usize, &mut [u64], &mut [u64]) -> Result<(), Failure>;

/// A collective that has two algorithms, of blocks of `count` elements; and its place in the table.
struct Tuned<T: Transport + 'static> {
    name: &'static str,
    run: Run<T>,
    place: fn(&mut Table) -> &mut Switch,
    /// Whether its buffers have a block for each member.
    blocks: bool,
}

/// The collectives that have two algorithms. Every member gives its rank.
fn tuned<T: Transport + 'static>() -> [Tuned<T>; 6] {
    [
        Tuned {
            name: "broadcast",
            run: |team, count, _, output| finish(team.broadcast(0, &mut output[..count])),
            place: |table| &mut table.broadcast,
            blocks: false,
        },
        Tuned {
            name: "all_reduce",
            run: |team, count, input, output| finish(team.all_reduce(Sum, &input[..count], &mut output[..count])),
            place: |table| &mut table.all_reduce,
            blocks: false,
        },
        Tuned {
            name: "gather",
            run: |team, count, input, output| {
                let all = if team.rank() == 0 { output.len() } else { 0 };
                finish(team.gather(0, &input[..count], &mut output[..all]))
            },
            place: |table| &mut table.gather,
            blocks: true,
        },
        Tuned {
            name: "scatter",
            run: |team, count, input, output| {
                let all = if team.rank() == 0 { input.len() } else { 0 };
                finish(team.scatter(0, &input[..all], &mut output[..count]))
            },
            place: |table| &mut table.scatter,
            blocks: true,
        },
        Tuned {
            name: "all_gather",
            run: |team, count, input, output| finish(team.all_gather(&input[..count], output)),
            place: |table| &mut table.all_gather,
            blocks: true,
        },
        Tuned {
            name: "all_to_all",
            run: |team, _, input, output| finish(team.all_to_all(input, output)),
            place: |table| &mut table.all_to_all,
            blocks: true,
        },
    ]
}

/// A member measures, with the others, and returns what member 0 prints.
fn member<T: Transport + 'static>(
    domain: &Domain<'static, T>,
    bootstrap: &mut dyn Bootstrap,
    options: &Options,
) -> Result<String, Failure> {
    let (rank, members) = (bootstrap.rank(), usize::try_from(options.members)?);
    let prepared = Prepared::<T, Vec<u8>, _>::open(domain, members, 64)?;
    let mut mine = [0; Record::max_len(0)];
    let len = Record::new(prepared.address()?, 0, 0, &[]).encode(&mut mine)?;
    let mut memory = vec![0; Slots::memory_len(members, Record::max_len(0))];
    let mut all = Slots::new(&mut memory, options.members);
    bootstrap.all_gather(&mine[..len], &mut all, &mut soon())?;
    let addresses: Vec<_> =
        all.iter().map(|bytes| Ok(Record::decode(bytes)?.address().clone())).collect::<Result<_, Failure>>()?;
    let group = prepared.connect(addresses).map_err(Error::from)?;

    let longest = options.longest * members;
    // A team for each side of the switches.
    let sides = [Switch::NEVER, Switch::ALWAYS].map(Table::of);
    let mut teams = Vec::new();
    for (number, table) in (1..).zip(sides) {
        let attr = TeamAttr::new(number).with_packets(16).with_scratch(longest).with_table(table);
        let packets = std::iter::repeat_with(|| Vec::with_capacity(options.packet));
        let team = Team::open(&group, attr, (0..options.members).map(PeerIndex), rank, packets);
        teams.push(team.map_err(Error::from)?);
    }

    let mut table = Table::of(Switch::NEVER);
    let mut text = format!("{:>12} {:>9} {:>11} {:>11}\n", "collective", "bytes", "short us", "long us");
    for tuned in tuned::<T>() {
        // From the longest down: the first size at which the algorithm for long messages does not win ends the search.
        let mut from = None;
        let mut rows = Vec::new();
        for bytes in std::iter::successors(Some(64), |bytes| Some(bytes * 4)).take_while(|it| *it <= options.longest) {
            let count = bytes / 8;
            let length = if tuned.blocks { count * members } else { count };
            let (mut input, mut output) = (vec![u64::from(rank); length], vec![0; length]);
            let mut best = [Duration::MAX; 2];
            let count_of_runs = u32::try_from((1 << 20) / (bytes * members)).unwrap_or(1).clamp(2, 200);
            for round in 0..=ROUNDS {
                for (team, best) in teams.iter().zip(&mut best) {
                    finish(team.barrier())?;
                    let begin = Instant::now();
                    for _ in 0..count_of_runs {
                        (tuned.run)(team, count, &mut input, &mut output)?;
                    }
                    finish(team.barrier())?;
                    // The first round makes connections and touches memory.
                    if round > 0 {
                        *best = begin.elapsed().min(*best);
                    }
                }
            }
            let [short, long] = best.map(|time| time.as_secs_f64() * 1e6 / f64::from(count_of_runs));
            rows.push(format!("{:>12} {bytes:>9} {short:>11.2} {long:>11.2}\n", tuned.name));
            // Of a whole buffer, where the table counts all blocks.
            let counted = if tuned.name == "all_gather" { bytes * members } else { bytes };
            from = if long < short { from.or(Some(counted)) } else { None };
        }
        text.extend(rows);
        if let Some(bytes) = from {
            *(tuned.place)(&mut table) = Switch { bytes, members: options.members };
        }
    }
    // What this member has sent goes out as it waits for the others.
    finish(teams[0].barrier())?;
    bootstrap.barrier(&mut Driving(soon(), || {
        let _ = group.cq().progress();
    }))?;
    Ok(format!("{text}\nOf {} members, for TeamAttr::with_table:\n\n{table:#?}\n", options.members))
}

/// A deadline that drives a queue meanwhile.
struct Driving<F>(Yielding, F);

impl<F: FnMut()> Deadline for Driving<F> {
    fn passed(&mut self) -> bool {
        (self.1)();
        self.0.passed()
    }
}

/// Members in threads of this process, over memory.
fn over_memory(options: &Options) -> Result<String, Failure> {
    let endpoints = u16::try_from(options.members)?;
    let network = Network::new(NetworkAttr { endpoints, ..NetworkAttr::DEFAULT })?;
    let domain = &Domain::open(&network.info())?;
    let board = &Board::open(options.members, Record::max_len(0))?;
    thread::scope(|threads| {
        let members: Vec<_> = (0..options.members)
            .map(|rank| threads.spawn(move || member(domain, &mut InProcess::join(board, rank)?, options)))
            .collect();
        let mut texts = Vec::new();
        for member in members {
            texts.push(member.join().map_err(|_| "a member has panicked")??);
        }
        texts.into_iter().next().ok_or_else(|| "there is no member".into())
    })
}

/// Members in processes of their own, over a provider of libfabric.
#[cfg(feature = "libfabric")]
mod processes {
    use std::net::{SocketAddr, TcpListener};
    use std::process::{Child, Command, Stdio};

    use loom_fabric::{Caps, Domain, Hints, Local, Ofi};
    use loom_group::bootstrap::{Tcp, TcpAttr};

    use crate::{Failure, Options, member, soon};

    /// A member. It is killed if it is still there when this is dropped.
    struct Process(Child);

    impl Process {
        fn start(options: &Options, rank: u32, at: SocketAddr) -> Result<Self, Failure> {
            let mut command = Command::new(std::env::current_exe()?);
            for (name, value) in [
                ("--provider", options.provider.clone()),
                ("--members", options.members.to_string()),
                ("--packet", options.packet.to_string()),
                ("--longest", options.longest.to_string()),
                ("--node", options.node.clone()),
                ("--rank", rank.to_string()),
                ("--at", at.to_string()),
            ] {
                command.args([name, &value]);
            }
            Ok(Process(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?))
        }
    }

    impl Drop for Process {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    pub(crate) fn play(options: &Options) -> Result<String, Failure> {
        let mut attr = TcpAttr {
            rendezvous: options.at.unwrap_or(([127, 0, 0, 1], 0).into()),
            size: options.members,
            limit: 1 << 10,
            job: 0,
        };
        let mut processes = Vec::new();
        let mut bootstrap = match options.rank {
            Some(rank) => Tcp::open(&attr, rank, &mut soon())?,
            None => {
                let listener = TcpListener::bind(attr.rendezvous)?;
                attr.rendezvous = listener.local_addr()?;
                for rank in 1..options.members {
                    processes.push(Process::start(options, rank, attr.rendezvous)?);
                }
                Tcp::host(listener, &attr, &mut soon())?
            }
        };
        let hints = Hints { caps: Caps::MSG | Caps::TAGGED, ..Hints::at(&options.provider, &options.node) };
        let info = Ofi::<Local>::query(&hints)?.next().ok_or("there is no such provider here")?;
        let text = member(&Domain::open(&info)?, &mut bootstrap, options)?;
        for process in &mut processes {
            if !process.0.wait()?.success() {
                return Err("a member has failed".into());
            }
        }
        Ok(text)
    }
}

#[cfg(feature = "libfabric")]
fn over_libfabric(options: &Options) -> Result<String, Failure> {
    processes::play(options)
}

#[cfg(not(feature = "libfabric"))]
fn over_libfabric(options: &Options) -> Result<String, Failure> {
    Err(format!("{} is a provider of libfabric: --features libfabric", options.provider).into())
}

fn main() -> ExitCode {
    match run() {
        Ok(text) => {
            // A reader that has gone does not miss it.
            let _ = write!(io::stdout(), "{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "tune_collectives: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String, Failure> {
    let Some(options) = options()? else { return Ok(HELP.into()) };
    let text = if options.provider == "soft" { over_memory(&options)? } else { over_libfabric(&options)? };
    // The other members have measured the same.
    Ok(if options.rank.unwrap_or(0) == 0 { text } else { String::new() })
}
