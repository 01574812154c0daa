//! loom in the loop of another program: one thread polls loom's executor and does its own work,
//! without sleep or allocation.
//!
//! ```text
//! cargo run --release --example embedded_runtime
//! cargo run --release --features libfabric --example embedded_runtime -- --provider 'tcp;ofi_rxm'
//! ```
//!
//! Clients send requests on a schedule, and servers answer. The program prints the distribution of
//! the times from due request to answer.

#![deny(unsafe_code)]

mod common;
#[allow(unsafe_code, reason = "a global allocator")]
#[path = "common/heap.rs"]
mod heap;
#[path = "common/histogram.rs"]
mod histogram;

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::process::ExitCode;
use std::time::Duration;

use loom_async::LocalExecutor;
use loom_async::clock::{Clock, StdClock};
use loom_async::timers::Timers;
use loom_fabric::{Caps, Domain, Error, Hints, Info, Peer, Program, Source, Tag, Transport};

use common::{Failure, Node};
use histogram::Histogram;

const HELP: &str = "\
    --provider NAME    soft (default), loom-tcp, or a provider of libfabric
    --seconds N        running time (default 2)
    --interval N       microseconds between two requests (default 20)
";

/// Each lane has a client and a server, with its own tag.
const LANES: u32 = 16;
const MESSAGE: usize = 64;

type Buffers = [Vec<u8>; 2];

struct Lanes<T: Transport + 'static> {
    client: Node<T>,
    server: Node<T>,
    to_client: Peer,
    to_server: Peer,
    timers: Timers<StdClock>,
    runtime: Runtime,
    requests: u32,
    answered: Cell<u32>,
    times: RefCell<Histogram>,
    running: Cell<u32>,
    failed: Cell<Option<Error>>,
}

impl<T: Transport> Lanes<T> {
    async fn ask(&self, lane: u32, [mut request, mut room]: Buffers) -> Result<Buffers, Error> {
        let (Node { driver, endpoint, .. }, tag) = (&self.client, Tag(lane.into()));
        for number in (lane..self.requests).step_by(LANES as usize) {
            let due = self.runtime.interval * number;
            self.timers.sleep_until(due).await;
            if self.timers.clock().now() >= self.runtime.time {
                break;
            }
            // Posted first, so that the answer has a receive.
            let answer = driver.post(room, |room| endpoint.tagged_recv(Source::Any, tag, room)).await?;
            for (at, byte) in (0..).zip(&mut request) {
                *byte = number.wrapping_mul(2 * at + 1).to_le_bytes()[0];
            }
            let sent = driver.run(request, |request| endpoint.tagged_send(self.to_server, tag, request)).await?;
            request = sent.into_result()?.0;
            room = driver.finish(answer).await?.into_result()?.0;
            if room != request {
                return Err(Error::Invalid("an answer has other bytes"));
            }
            let time = self.timers.clock().now().saturating_sub(due);
            self.times.borrow_mut().record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
            self.answered.set(self.answered.get() + 1);
        }
        Ok([request, room])
    }

    async fn serve(&self, lane: u32, mut buf: Vec<u8>) -> Result<Buffers, Error> {
        let (Node { driver, endpoint, .. }, tag) = (&self.server, Tag(lane.into()));
        loop {
            buf = driver.run(buf, |room| endpoint.tagged_recv(Source::Any, tag, room)).await?.into_result()?.0;
            buf = driver.run(buf, |answer| endpoint.tagged_send(self.to_client, tag, answer)).await?.into_result()?.0;
        }
    }

    async fn run(&self, lane: u32, buffers: Buffers, buf: Vec<u8>) {
        let ended = tokio::select! {
            biased;
            ended = self.ask(lane, buffers) => ended,
            ended = self.serve(lane, buf) => ended,
        };
        match &ended {
            Ok(_) => self.running.set(self.running.get() - 1),
            Err(error) => self.failed.set(Some(*error)),
        }
        // Keeps the buffers: they are freed after the measurement.
        pending().await
    }
}

struct Runtime {
    time: Duration,
    interval: Duration,
}

impl Program for Runtime {
    type Output = Result<String, Failure>;

    fn run<T: Transport + 'static>(self, info: &Info<T>) -> Self::Output {
        let domain = Domain::open(info)?;
        let (client, server) = (Node::open(&domain)?, Node::open(&domain)?);
        let to_client = server.av.insert(&client.endpoint.address()?)?;
        let to_server = client.av.insert(&server.endpoint.address()?)?;
        let requests = u32::try_from(self.time.as_nanos() / self.interval.as_nanos())?;
        let lanes = Lanes {
            client,
            server,
            to_client,
            to_server,
            timers: Timers::new(StdClock::new()),
            runtime: self,
            requests,
            answered: Cell::new(0),
            times: RefCell::new(Histogram::new()),
            running: Cell::new(LANES),
            failed: Cell::new(None),
        };
        let buf = || vec![0; MESSAGE];
        let executor = LocalExecutor::new(LANES as usize)?;
        for lane in 0..LANES {
            executor.spawn(lanes.run(lane, [buf(), buf()], buf())).map_err(Error::from)?;
        }
        let drivers = (&lanes.client.driver, &lanes.server.driver, &lanes.timers);
        let ((turns, jobs), calls) = heap::watched(|| {
            let (mut turns, mut jobs) = (0_u64, 0_u32);
            while lanes.running.get() > 0 && lanes.failed.get().is_none() {
                executor.round(&drivers);
                turns += 1;
                // Other work of the program: a job each millisecond.
                let now = lanes.timers.clock().now();
                jobs += u32::from(now >= Duration::from_millis(1) * jobs);
                if now > lanes.runtime.time + Duration::from_secs(5) {
                    lanes.failed.set(Some(Error::Invalid("a request has no answer in time")));
                }
            }
            (turns, jobs)
        });
        lanes.failed.get().map_or(Ok(()), Err)?;
        if calls > 0 {
            return Err(format!("{calls} calls of the allocator after the start").into());
        }
        let times = lanes.times.borrow();
        let [p50, p99, p999] = [500_000, 990_000, 999_000].map(|of_million| times.quantile(of_million));
        Ok(format!(
            "{turns} turns, {jobs} jobs, {} of {requests} requests in time, no call of the allocator\n\
             from due to answered, in ns: p50 {p50}, p99 {p99}, p99.9 {p999}, longest {}\n",
            lanes.answered.get(),
            times.longest
        ))
    }
}

fn main() -> ExitCode {
    common::exit("embedded_runtime", run_options())
}

fn run_options() -> Result<String, Failure> {
    use lexopt::prelude::*;

    let (mut provider, mut seconds, mut interval) = ("soft".to_owned(), 2, 20);
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("provider") => provider = parser.value()?.string()?,
            Long("seconds") => seconds = parser.value()?.parse()?,
            Long("interval") => interval = parser.value()?.parse::<u64>()?.max(1),
            Long("help") | Short('h') => return Ok(HELP.into()),
            _ => return Err(argument.unexpected().into()),
        }
    }
    let hints = Hints { caps: Caps::MSG | Caps::TAGGED, ..Hints::local(&provider) };
    common::over(&hints, Runtime { time: Duration::from_secs(seconds), interval: Duration::from_micros(interval) })
}

#[cfg(test)]
#[path = "../tests/examples/embedded_runtime.rs"]
mod tests;
