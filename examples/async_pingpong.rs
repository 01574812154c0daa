//! Ping-pong in straight-line code, on an executor of one's choice. All bytes are verified.
//!
//! ```text
//! cargo run --release --example async_pingpong
//! cargo run --release --example async_pingpong -- --executor tokio-sleep
//! cargo run --release --example async_pingpong --features libfabric -- --provider 'tcp;ofi_rxm' --executor tokio-busy
//! ```
//!
//! Only [`play`](Pingpong::play) depends on the executor.

#![forbid(unsafe_code)]

mod common;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use loom_async::block_on;
use loom_async::tokio::{Mode, run};
use loom_fabric::{Caps, Domain, Error, Hints, Info, Peer, Program, Source, Transport};

use common::{Failure, Node};

const HELP: &str = "\
Ping-pong between two sides on one thread.

    --executor NAME    own (default): loom's. tokio-busy polls, tokio-sleep sleeps, tokio-hybrid polls
                       for 50 us and then sleeps
    --provider NAME    soft (default), loom-tcp, or a provider of libfabric
    --rounds N         number of rounds (default 20000)
    --size BYTES       size of a message (default 64)
";

async fn ask<T: Transport>(node: &Node<T>, to: Peer, rounds: u32, size: usize) -> Result<(), Error> {
    let Node { driver, endpoint, .. } = node;
    let mut buf = vec![0; size];
    for round in 0..rounds {
        let [byte, ..] = round.to_le_bytes();
        buf.fill(byte);
        buf = driver.run(buf, |message| endpoint.send(to, message)).await?.into_result()?.0;
        buf.fill(!byte);
        buf = driver.run(buf, |room| endpoint.recv(Source::Any, room)).await?.into_result()?.0;
        if buf.iter().any(|it| *it != byte) {
            return Err(Error::Invalid("an answer has other bytes"));
        }
    }
    Ok(())
}

async fn answer<T: Transport>(node: &Node<T>, to: Peer, rounds: u32, size: usize) -> Result<(), Error> {
    let Node { driver, endpoint, .. } = node;
    let mut buf = vec![0; size];
    for _ in 0..rounds {
        buf = driver.run(buf, |room| endpoint.recv(Source::Any, room)).await?.into_result()?.0;
        buf = driver.run(buf, |message| endpoint.send(to, message)).await?.into_result()?.0;
    }
    Ok(())
}

struct Pingpong {
    executor: String,
    /// Mode of tokio. `None` is loom's.
    mode: Option<Mode>,
    rounds: u32,
    size: usize,
}

impl Pingpong {
    fn play<T: Transport>(&self, [a, b]: [&Node<T>; 2], peers: [Peer; 2], rounds: u32) -> Result<Duration, Failure> {
        let drivers = (&a.driver, &b.driver);
        let (asks, answers) = (ask(a, peers[1], rounds, self.size), answer(b, peers[0], rounds, self.size));
        let both = async { tokio::try_join!(asks, answers) };
        let begin = Instant::now();
        match self.mode {
            None => block_on(&drivers, both)?,
            Some(mode) => common::block_on(async { Ok(run(drivers, mode, both).await??) })?,
        };
        Ok(begin.elapsed())
    }
}

impl Program for Pingpong {
    type Output = Result<String, Failure>;

    fn run<T: Transport + 'static>(self, info: &Info<T>) -> Self::Output {
        let domain = Domain::open(info)?;
        let (a, b) = (Node::open(&domain)?, Node::open(&domain)?);
        if self.mode.is_some_and(|mode| mode != Mode::Busy) && a.mode == Mode::Busy {
            return Err(format!("{}: the queue has no descriptor to sleep on", info.provider()).into());
        }
        let peers = [b.av.insert(&a.endpoint.address()?)?, a.av.insert(&b.endpoint.address()?)?];
        // The first rounds connect.
        self.play([&a, &b], peers, 100)?;
        let time = self.play([&a, &b], peers, self.rounds)?;
        let Pingpong { executor, rounds, size, .. } = &self;
        let nanos = time.as_secs_f64() * 1e9 / f64::from(*rounds);
        Ok(format!("{rounds} rounds of {size} bytes over {}, {executor}: {nanos:.0} ns each\n", info.provider()))
    }
}

fn main() -> ExitCode {
    common::exit("async_pingpong", run_options())
}

fn run_options() -> Result<String, Failure> {
    use lexopt::prelude::*;

    let mut provider = "soft".to_owned();
    let mut pingpong = Pingpong { executor: "own".into(), mode: None, rounds: 20_000, size: 64 };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("executor") => pingpong.executor = parser.value()?.string()?,
            Long("provider") => provider = parser.value()?.string()?,
            Long("rounds") => pingpong.rounds = parser.value()?.parse()?,
            Long("size") => pingpong.size = parser.value()?.parse()?,
            Long("help") | Short('h') => return Ok(HELP.into()),
            _ => return Err(argument.unexpected().into()),
        }
    }
    pingpong.mode = match pingpong.executor.as_str() {
        "own" => None,
        "tokio-busy" => Some(Mode::Busy),
        "tokio-sleep" => Some(Mode::Sleep),
        "tokio-hybrid" => Some(Mode::Hybrid { spin: Duration::from_micros(50) }),
        other => return Err(format!("unknown executor {other}: see --help").into()),
    };
    common::over(&Hints { caps: Caps::MSG, ..Hints::local(&provider) }, pingpong)
}
