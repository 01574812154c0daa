//! Scatter and gather: one member sends a message to each of the others, and takes an answer from each.
//!
//! ```text
//! cargo run --release --example scatter_gather                               threads, over memory
//! cargo run --release --example scatter_gather --features libfabric -- --provider shm
//! cargo run --release --example scatter_gather --features libfabric -- --provider 'tcp;ofi_rxm' --workers 4
//! ```
//!
//! Over memory the workers are threads, which share a network. Over a provider of libfabric they are processes, which this program
//! starts: a worker prints its address, and reads that of the first member from its standard input. Every byte is checked.

#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use loom_fabric::{Caps, Deadline, Domain, EndpointAddr, Error, Hints, Network, NetworkAttr, Tag, Transport};
use loom_group::{Outcome, PeerIndex, Place, Prepared, Summary};

const HELP: &str = "\
Scatters messages of several sizes to workers, and gathers their answers.

    --provider NAME    soft (default: threads), or a provider of libfabric (processes; with the feature `libfabric`)
    --workers N        how many workers (default 3)
    --rounds N         rounds of each size (default 50)
    --garble           one byte of the workers' last answer is wrong, which has to be found
    --help
";

const SIZES: [usize; 7] = [8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20];
const ANSWER: Tag = Tag(1);
/// The first rounds of a size make connections and touch memory.
const WARM_UP: u32 = 3;
/// The longest wait for the other side.
const LIMIT: Duration = Duration::from_secs(30);
/// Answers are received by peer. Of messages without a tag, some providers do not grant that.
const CAPS: Caps = Caps::MSG.union(Caps::TAGGED).union(Caps::DIRECTED_RECV);

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone)]
struct Options {
    provider: String,
    workers: u32,
    rounds: u32,
    garble: bool,
    /// This process is a worker of this number.
    #[cfg_attr(not(feature = "libfabric"), allow(dead_code, reason = "workers are threads"))]
    worker: Option<u32>,
}

fn options() -> Result<Option<Options>, Failure> {
    use lexopt::prelude::*;

    let mut options = Options { provider: "soft".into(), workers: 3, rounds: 50, garble: false, worker: None };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("provider") => options.provider = parser.value()?.string()?,
            Long("workers") => options.workers = parser.value()?.parse()?,
            Long("rounds") => options.rounds = parser.value()?.parse()?,
            Long("garble") => options.garble = true,
            // Given by this program to the processes that it starts.
            Long("worker") => options.worker = Some(parser.value()?.parse()?),
            Long("help") | Short('h') => return Ok(None),
            _ => return Err(argument.unexpected().into()),
        }
    }
    if !(1..=64).contains(&options.workers) || options.rounds == 0 {
        return Err("there are 1 to 64 workers, and at least one round".into());
    }
    Ok(Some(options))
}

/// Waits end after a while, or when another thread has failed.
struct Until<'f> {
    deadline: Instant,
    failed: &'f AtomicBool,
}

impl<'f> Until<'f> {
    fn new(failed: &'f AtomicBool) -> Self {
        Until { deadline: Instant::now() + LIMIT, failed }
    }
}

impl Deadline for Until<'_> {
    fn passed(&mut self) -> bool {
        // There may be more members than cores.
        thread::yield_now();
        self.failed.load(Ordering::Relaxed) || self.deadline.passed()
    }
}

/// The bytes of a message to a worker, or of its answer, whose bits are the opposite.
fn byte(worker: u32, round: u32, at: usize) -> u8 {
    let [low, high, ..] = at.to_le_bytes();
    let [worker, ..] = worker.to_le_bytes();
    let [round, ..] = round.to_le_bytes();
    low ^ high.wrapping_mul(31) ^ worker.wrapping_mul(67) ^ round
}

fn is_right(bytes: &[u8], flip: u8, worker: u32, round: u32) -> bool {
    bytes.iter().enumerate().all(|(at, it)| *it == byte(worker, round, at) ^ flip)
}

/// The sizes that the transport can send.
fn sizes<T: Transport + 'static>(domain: &Domain<'static, T>) -> impl Iterator<Item = usize> {
    let longest = domain.info().attributes().endpoint.max_msg_size;
    SIZES.into_iter().filter(move |size| *size <= longest)
}

/// The first error of a request, unless all of them are done.
fn complete<T: Transport>(what: &str, summary: Summary, places: &[Place<'static, T, Vec<u8>>]) -> Result<(), Failure> {
    if summary.is_complete() {
        return Ok(());
    }
    for place in places {
        let peer = place.peer();
        match place.outcome() {
            Outcome::Failed { error, .. } => return Err(format!("{what}, {peer}: {error}").into()),
            Outcome::NotPosted { error, .. } => return Err(format!("{what}, {peer}: not posted: {error}").into()),
            Outcome::InFlight(_) => return Err(format!("{what}, {peer}: no end within {LIMIT:?}").into()),
            _ => {}
        }
    }
    Err(format!("{what} has not ended").into())
}

/// The first member: scatters and gathers. Returns the lines of its table.
fn first<T: Transport + 'static>(
    domain: &Domain<'static, T>,
    options: &Options,
    failed: &AtomicBool,
    exchange: impl FnOnce(EndpointAddr) -> Result<Vec<EndpointAddr>, Failure>,
) -> Result<String, Failure> {
    let count = usize::try_from(options.workers)?;
    let prepared = Prepared::<T, Vec<u8>, _>::open(domain, count, 2 * count)?;
    let workers = exchange(prepared.address()?)?;
    let group = prepared.connect(workers).map_err(Error::from)?;
    let mut places: Vec<_> = (0..count).map(|_| Place::EMPTY).collect();
    let peers = || (0..options.workers).map(PeerIndex);

    let mut table = format!("{:>9} {:>12} {:>12}\n", "bytes", "us", "MB/s");
    for size in sizes(domain) {
        let mut buffers = vec![vec![0; size]; 2 * count];
        let mut time = Duration::ZERO;
        for round in 0..WARM_UP + options.rounds {
            let mut rooms = buffers.split_off(count);
            for (PeerIndex(worker), message) in peers().zip(&mut buffers) {
                message.iter_mut().enumerate().for_each(|(at, it)| *it = byte(worker, round, at));
            }

            let begin = Instant::now();
            let summary = group.scatter_send(peers().zip(buffers.drain(..)), &mut places, Until::new(failed))?;
            complete("scatter", summary, &places)?;
            buffers.extend(places.iter_mut().filter_map(|place| place.take().into_buf()));
            let summary = group.scope(&mut places, |scope| {
                for (peer, room) in peers().zip(rooms.drain(..)) {
                    // There is a place for each.
                    let _ = scope.tagged_recv(peer, ANSWER, room);
                }
                scope.finish(Until::new(failed))
            })?;
            time += if round < WARM_UP { Duration::ZERO } else { begin.elapsed() };

            complete("gather", summary, &places)?;
            for (PeerIndex(worker), place) in peers().zip(&mut places) {
                let Outcome::Done { buf, transfer } = place.take() else { continue };
                if transfer.len() != size || !is_right(&buf, !0, worker, round) {
                    return Err(format!("the answer of peer {worker}, {size} bytes, has other bytes").into());
                }
                buffers.push(buf);
            }
        }
        let seconds = time.as_secs_f64() / f64::from(options.rounds);
        // There and back.
        let bytes = f64::from(u32::try_from(2 * count * size)?);
        writeln!(table, "{size:>9} {:>12.1} {:>12.1}", seconds * 1e6, bytes / seconds / 1e6)?;
    }
    Ok(table)
}

/// A worker: answers each message.
fn worker<T: Transport + 'static>(
    domain: &Domain<'static, T>,
    options: &Options,
    number: u32,
    failed: &AtomicBool,
    exchange: impl FnOnce(EndpointAddr) -> Result<EndpointAddr, Failure>,
) -> Result<(), Failure> {
    let prepared = Prepared::<T, Vec<u8>, _>::open(domain, 1, 2)?;
    let first = exchange(prepared.address()?)?;
    let group = prepared.connect([first]).map_err(Error::from)?;
    let (cq, first) = (group.cq(), PeerIndex(0));
    for size in sizes(domain) {
        let mut buf = vec![0; size];
        for round in 0..WARM_UP + options.rounds {
            let received = cq.post(buf, Until::new(failed), |room| group.recv_any(room))?;
            let (message, result) = cq.finish(received, Until::new(failed))?.into_parts();
            buf = message;
            if result?.len() != size || !is_right(&buf, 0, number, round) {
                return Err(format!("a message of {size} bytes to peer {number} has other bytes").into());
            }
            buf.iter_mut().for_each(|it| *it = !*it);
            if options.garble && round + 1 == WARM_UP + options.rounds {
                buf[size / 2] ^= 1;
            }
            let sent = cq.post(buf, Until::new(failed), |answer| group.tagged_send(first, ANSWER, answer))?;
            (buf, _) = cq.finish(sent, Until::new(failed))?.into_result()?;
        }
    }
    Ok(())
}

/// Workers in threads of this process, over memory.
fn over_memory(options: &Options) -> Result<String, Failure> {
    let endpoints = u16::try_from(options.workers + 1)?;
    let network = Network::new(NetworkAttr { endpoints, ..NetworkAttr::DEFAULT })?;
    let hints = Hints { caps: CAPS, ..Hints::default() };
    let info = network.query(&hints)?;
    let domain = &Domain::open(&info)?;
    let failed = &AtomicBool::new(false);
    let ends = |outcome: &Result<(), Failure>| failed.fetch_or(outcome.is_err(), Ordering::Relaxed);

    thread::scope(|threads| {
        let (tell_first, hear_workers) = channel();
        let mut tell_workers = Vec::new();
        let mut workers = Vec::new();
        for number in 0..options.workers {
            let tell_first = tell_first.clone();
            let (tell, hear) = channel::<EndpointAddr>();
            tell_workers.push(tell);
            workers.push(threads.spawn(move || {
                let outcome = worker(domain, options, number, failed, |address| {
                    tell_first.send((number, address))?;
                    Ok(hear.recv_timeout(LIMIT)?)
                });
                ends(&outcome);
                outcome
            }));
        }
        drop(tell_first);
        let table = first(domain, options, failed, |address| {
            let told = (0..options.workers).map(|_| hear_workers.recv_timeout(LIMIT)).collect::<Result<Vec<_>, _>>();
            let mut addresses = told?;
            addresses.sort_by_key(|(number, _)| *number);
            for tell in tell_workers.drain(..) {
                tell.send(address.clone())?;
            }
            Ok(addresses.into_iter().map(|(_, address)| address).collect())
        });
        failed.fetch_or(table.is_err(), Ordering::Relaxed);
        // Those that have not heard an address do not wait for it.
        drop(tell_workers);
        let mut outcomes = Vec::new();
        for worker in workers {
            outcomes.push(worker.join().map_err(|_| "a worker has panicked")?);
        }
        // The first member's error, if it has one, is the cause or comes of it.
        let table = table?;
        outcomes.into_iter().collect::<Result<(), _>>()?;
        Ok(table)
    })
}

/// Workers in processes of their own, over a provider of libfabric.
#[cfg(feature = "libfabric")]
mod processes {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, ChildStdin, Command, Stdio};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{Receiver, channel};
    use std::thread;

    use loom_fabric::{Domain, EndpointAddr, Hints, Local, Ofi};

    use crate::{CAPS, Failure, LIMIT, Options, first, worker};

    /// Whether the other side has failed.
    static FAILED: AtomicBool = AtomicBool::new(false);

    /// The last line of a worker's input.
    const OVER: &str = "over";

    /// A worker. It is killed if it is still there when this is dropped.
    struct Process {
        child: Child,
        stdin: Option<ChildStdin>,
        lines: Receiver<String>,
    }

    impl Process {
        fn start(options: &Options, number: u32) -> Result<Self, Failure> {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["--provider", &options.provider, "--workers", &options.workers.to_string()]);
            command.args(["--rounds", &options.rounds.to_string(), "--worker", &number.to_string()]);
            command.args(options.garble.then_some("--garble"));
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
            let stdin = child.stdin.take();
            let stdout = child.stdout.take().ok_or("a worker's output")?;
            let (tell, lines) = channel();
            // A read has no deadline: a thread reads, and ends with the worker.
            thread::spawn(move || {
                BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|it| tell.send(it))
            });
            Ok(Process { child, stdin, lines })
        }

        /// The worker ends after the last line of its input.
        fn end(mut self) -> Result<(), Failure> {
            writeln!(self.stdin.as_mut().ok_or("a worker's input")?, "{OVER}")?;
            // Its output ends when the worker has.
            while self.lines.recv_timeout(LIMIT).is_ok() {}
            match self.child.try_wait()? {
                Some(status) if !status.success() => Err("a worker has failed".into()),
                _ => Ok(()),
            }
        }
    }

    impl Drop for Process {
        fn drop(&mut self) {
            // It ends when its input does, and gives its shared memory back. If it is stuck, there is nothing else to do.
            drop(self.stdin.take());
            while self.lines.recv_timeout(LIMIT).is_ok() {}
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    fn domain(provider: &str) -> Result<Domain<'static, Ofi<Local>>, Failure> {
        let hints = Hints { caps: CAPS, ..Hints::local(provider) };
        let info = Ofi::<Local>::query(&hints)?.next().ok_or("there is no such provider here")?;
        Ok(Domain::open(&info)?)
    }

    pub(crate) fn play(options: &Options) -> Result<String, Failure> {
        if let Some(number) = options.worker {
            let mut over = None;
            worker(&domain(&options.provider)?, options, number, &FAILED, |address| {
                let mut out = std::io::stdout();
                writeln!(out, "{address}")?;
                out.flush()?;
                let mut line = String::new();
                std::io::stdin().read_line(&mut line)?;
                // Ends this side's waits if the first member has failed: its last line says that it has all answers.
                let (tell, hear) = channel();
                over = Some(hear);
                thread::spawn(move || {
                    let mut line = String::new();
                    let _ = std::io::stdin().read_line(&mut line);
                    FAILED.fetch_or(line.trim() != OVER, Ordering::Relaxed);
                    tell.send(())
                });
                Ok(line.trim().parse()?)
            })?;
            // Until then this side stays.
            over.ok_or("there was no exchange")?.recv_timeout(LIMIT)?;
            return Ok(String::new());
        }
        let domain = domain(&options.provider)?;
        let mut workers = Vec::new();
        for number in 0..options.workers {
            workers.push(Process::start(options, number)?);
        }
        let table = first(&domain, options, &FAILED, |address| {
            let mut addresses = Vec::new();
            for worker in &mut workers {
                let line = worker.lines.recv_timeout(LIMIT).map_err(|_| "a worker has not told its address")?;
                addresses.push(line.parse::<EndpointAddr>()?);
            }
            for worker in &mut workers {
                writeln!(worker.stdin.as_mut().ok_or("a worker's input")?, "{address}")?;
            }
            Ok(addresses)
        })?;
        workers.into_iter().try_for_each(Process::end)?;
        Ok(table)
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
            let _ = writeln!(io::stderr(), "scatter_gather: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String, Failure> {
    let Some(options) = options()? else { return Ok(HELP.into()) };
    let table = match options.provider.as_str() {
        "soft" => over_memory(&options)?,
        _ => over_libfabric(&options)?,
    };
    if options.worker.is_some() {
        return Ok(table);
    }
    let Options { provider, workers, rounds, .. } = &options;
    Ok(format!("scatter to {workers} workers and gather, over {provider}; means of {rounds} rounds\n{table}"))
}
