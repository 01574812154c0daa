//! Ping-pong in straight-line code, on an executor of one's choice: what the executor costs, and what sleeping does.
//!
//! ```text
//! cargo run --release --example async_pingpong
//! cargo run --release --example async_pingpong -- --executor tokio-sleep
//! cargo run --release --example async_pingpong --features libfabric -- --provider 'tcp;ofi_rxm' --executor tokio-busy
//! ```
//!
//! Two sides on one thread, each with a queue of its own: one sends and waits for the answer, the other answers. Every byte is checked. The
//! sides know nothing of the executor; it is chosen in [`play`]. loom's own, `LocalExecutor`, has a task for each.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::future::Future;
use std::io::{self, Write};
use std::pin::{Pin, pin};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use loom_async::tokio::Mode;
use loom_async::{LocalExecutor, tokio as runtime};
use loom_core::driver::Drive;
use loom_fabric::{
    Av, Cq, CqAttr, Domain, Endpoint, Error, Info, Network, NetworkAttr, Peer, Source, Transport, loom_core,
};
use loom_fabric::{CqDriver, Unclaimed};

const HELP: &str = "\
Ping-pong between two sides on one thread.

    --executor NAME    own (default): a LocalExecutor; tokio-busy, tokio-sleep, or tokio-hybrid: spins for 50 us, then sleeps
    --provider NAME    soft (default), or a provider of libfabric (with the feature `libfabric`)
    --rounds N         how often there and back (default 20000)
    --size BYTES       of a message (default 64)
    --help
";

/// What runs both sides.
#[derive(Clone, Copy)]
enum Executor {
    Own,
    Tokio(Mode),
}

impl Executor {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "own" => Executor::Own,
            "tokio-busy" => Executor::Tokio(Mode::Busy),
            "tokio-sleep" => Executor::Tokio(Mode::Sleep),
            "tokio-hybrid" => Executor::Tokio(Mode::Hybrid { spin: Duration::from_micros(50) }),
            _ => return None,
        })
    }

    const fn sleeps(self) -> bool {
        matches!(self, Executor::Tokio(Mode::Sleep | Mode::Hybrid { .. }))
    }
}

struct Options {
    executor: (String, Executor),
    provider: String,
    rounds: u32,
    size: usize,
}

fn options() -> Result<Option<Options>, Box<dyn std::error::Error>> {
    use lexopt::prelude::*;

    let mut options =
        Options { executor: ("own".into(), Executor::Own), provider: "soft".into(), rounds: 20_000, size: 64 };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("executor") => {
                let name = parser.value()?.string()?;
                let executor =
                    Executor::named(&name).ok_or_else(|| format!("there is no executor '{name}': see --help"))?;
                options.executor = (name, executor);
            }
            Long("provider") => options.provider = parser.value()?.string()?,
            Long("rounds") => options.rounds = parser.value()?.parse()?,
            Long("size") => options.size = parser.value()?.parse()?,
            Long("help") | Short('h') => return Ok(None),
            _ => return Err(argument.unexpected().into()),
        }
    }
    Ok(Some(options))
}

/// One side: its endpoint, and what drives it.
struct Side<T: Transport + 'static> {
    driver: CqDriver<'static, T, Vec<u8>>,
    endpoint: Endpoint<'static, T, Vec<u8>>,
    peer: Peer,
}

impl<T: Transport + 'static> Side<T> {
    async fn send(&self, message: Vec<u8>) -> Result<Vec<u8>, Error> {
        Ok(self.driver.run(message, |buf| self.endpoint.send(self.peer, buf)).await?.into_result()?.0)
    }

    async fn receive(&self, room: Vec<u8>) -> Result<Vec<u8>, Error> {
        Ok(self.driver.run(room, |buf| self.endpoint.recv(Source::Any, buf)).await?.into_result()?.0)
    }
}

/// Sends, and waits for the answer.
async fn asks<T: Transport>(side: &Side<T>, rounds: u32, size: usize) -> Result<(), Error> {
    let mut buf = vec![0; size];
    for round in 0..rounds {
        let [byte, ..] = round.to_le_bytes();
        buf.fill(byte);
        buf = side.send(buf).await?;
        buf.fill(!byte);
        buf = side.receive(buf).await?;
        assert!(buf.iter().all(|it| *it == byte), "an answer has other bytes");
    }
    Ok(())
}

/// Sends back what comes.
async fn answers<T: Transport>(side: &Side<T>, rounds: u32, size: usize) -> Result<(), Error> {
    let mut buf = vec![0; size];
    for _ in 0..rounds {
        buf = side.receive(buf).await?;
        buf = side.send(buf).await?;
    }
    Ok(())
}

/// Opens both sides, and runs them.
fn play<T: Transport + 'static>(info: &Info<T>, options: &Options) -> Result<Duration, Box<dyn std::error::Error>> {
    let (executor, rounds, size) = (options.executor.1, options.rounds, options.size);
    let domain = Domain::open(info)?;
    let av = Av::open(&domain, 2)?;
    let attr = if executor.sleeps() { CqAttr::new(16).with_fd() } else { CqAttr::new(16) };
    let cq_a = Cq::open(&domain, attr).map_err(|error| format!("{}: the queue: {error}", options.provider))?;
    let cq_b = Cq::open(&domain, attr)?;
    let (a, b) = (cq_a.endpoint(&av)?, cq_b.endpoint(&av)?);
    let (to_a, to_b) = (av.insert(&a.address()?)?, av.insert(&b.address()?)?);
    let a = Side { driver: CqDriver::open(&cq_a, Unclaimed::Drop)?, endpoint: a, peer: to_b };
    let b = Side { driver: CqDriver::open(&cq_b, Unclaimed::Drop)?, endpoint: b, peer: to_a };

    // The first rounds make connections.
    let mut time = Duration::ZERO;
    for rounds in [100, rounds] {
        let (drivers, asks, answers) = ((&a.driver, &b.driver), asks(&a, rounds, size), answers(&b, rounds, size));
        let begin = Instant::now();
        match executor {
            Executor::Own => as_tasks(&drivers, [pin!(asks), pin!(answers)])?,
            Executor::Tokio(mode) => {
                let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                let both = async { futures_util::try_join!(asks, answers) };
                tokio.block_on(runtime::run(drivers, mode, both))??;
            }
        }
        time = begin.elapsed();
    }
    Ok(time)
}

/// One side, whatever its type.
type Playing<'a> = Pin<&'a mut dyn Future<Output = Result<(), Error>>>;

/// Runs each side as a task of its own; the first error ends both.
fn as_tasks(drive: &impl Drive, sides: [Playing<'_>; 2]) -> Result<(), Error> {
    async fn plays(side: Playing<'_>, failed: &Cell<Option<Error>>) {
        if let Err(error) = side.await {
            failed.set(Some(error));
        }
    }
    let failed = Cell::new(None);
    let executor = LocalExecutor::new(sides.len())?;
    for side in sides {
        executor.spawn(plays(side, &failed))?;
    }
    while !executor.is_empty() && failed.get().is_none() {
        executor.round(drive);
    }
    failed.get().map_or(Ok(()), Err)
}

#[cfg(feature = "libfabric")]
fn over_libfabric(options: &Options) -> Result<Duration, Box<dyn std::error::Error>> {
    use loom_fabric::{Caps, Hints, Local, Ofi};

    let hints = Hints { caps: Caps::MSG, ..Hints::local(&options.provider) };
    let info = Ofi::<Local>::query(&hints)?.next().ok_or("there is no such provider here")?;
    play(&info, options)
}

#[cfg(not(feature = "libfabric"))]
fn over_libfabric(options: &Options) -> Result<Duration, Box<dyn std::error::Error>> {
    Err(format!("{} is a provider of libfabric: --features libfabric", options.provider).into())
}

fn main() -> ExitCode {
    match run() {
        Ok(text) => {
            // Whoever has stopped reading does not miss it.
            let _ = write!(io::stdout(), "{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "async_pingpong: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String, Box<dyn std::error::Error>> {
    let Some(options) = options()? else { return Ok(HELP.into()) };
    let time = match options.provider.as_str() {
        "soft" => play(&Network::new(NetworkAttr::default())?.info(), &options)?,
        _ => over_libfabric(&options)?,
    };
    let (name, rounds) = (&options.executor.0, options.rounds.max(1));
    let (size, provider) = (options.size, &options.provider);
    let figure = time.as_secs_f64() * 1e9 / f64::from(rounds);
    Ok(format!(
        "{rounds} rounds of {size} bytes over {provider}, {name}: {:?} each\nmetric async_pingpong.{name}.ns {figure:.0} ns\n",
        time / rounds
    ))
}
