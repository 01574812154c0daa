//! Scatter and gather: member 0 sends a message to each worker, and receives an answer from each.
//! All bytes are verified.
//!
//! ```text
//! cargo run --release --example scatter_gather                          threads, over memory
//! cargo run --release --example scatter_gather --features libfabric -- --provider 'tcp;ofi_rxm' --workers 4
//! ```

#![forbid(unsafe_code)]

mod common;
#[path = "common/members.rs"]
mod members;

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use loom_fabric::loom_core::allocator_api2::alloc::Global;
use loom_fabric::{Caps, Domain, Error, Hints, Tag, Transport};
use loom_group::bootstrap::Bootstrap;
use loom_group::{Group, Outcome, PeerIndex, Place, Prepared, Summary};

use common::Failure;
use members::{Member, Ranks, soon};

const HELP: &str = "\
Scatters messages of several sizes to workers, and gathers their answers.

    --provider NAME    soft (default), or a provider of libfabric
    --workers N        number of workers (default 3)
    --rounds N         rounds of each size (default 50)
    --garble           changes a byte of each worker's last answer: the program must fail
    --rank N --at ADDRESS:PORT    this process is member N, and member 0 listens at the address
";

const SIZES: [usize; 7] = [8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20];
const ANSWER: Tag = Tag(1);
/// Rounds of each size that connect and touch memory first.
const WARM_UP: u32 = 3;
/// Answers are received by peer. Over some providers, untagged messages are not.
const CAPS: Caps = Caps::MSG.union(Caps::TAGGED).union(Caps::DIRECTED_RECV);

struct Scatter {
    rounds: u32,
    garble: bool,
}

impl Member for Scatter {
    fn run<T: Transport + 'static>(
        &self,
        domain: &Domain<'static, T>,
        ranks: &mut dyn Bootstrap,
    ) -> Result<String, Failure> {
        let members = usize::try_from(ranks.size())?;
        let prepared = Prepared::<T, Vec<u8>, _>::open(domain, members, 2 * members)?;
        let addresses = members::exchange(ranks, prepared.address()?)?;
        let group = prepared.connect(addresses).map_err(Error::from)?;
        let text = match ranks.rank() {
            0 => self.first(&group)?,
            rank => self.worker(&group, rank)?,
        };
        members::part(ranks, group.cq())?;
        Ok(text)
    }
}

impl Scatter {
    fn first<T: Transport>(&self, group: &Group<'static, T, Vec<u8>, Global>) -> Result<String, Failure> {
        let workers: Vec<_> = group.peers().skip(1).collect();
        let mut places: Vec<_> = workers.iter().map(|_| Place::EMPTY).collect();
        let mut table = format!("{:>9} {:>12} {:>12}\n", "bytes", "us", "MB/s");
        for size in sizes(group) {
            let (mut messages, mut rooms) = (vec![vec![0; size]; workers.len()], vec![vec![0; size]; workers.len()]);
            let mut time = Duration::ZERO;
            for round in 0..WARM_UP + self.rounds {
                for (worker, message) in workers.iter().zip(&mut messages) {
                    fill(message, 0, worker.0, round);
                }
                let begin = Instant::now();
                let sends = workers.iter().copied().zip(messages.drain(..));
                complete("scatter", group.scatter_send(sends, &mut places, soon())?, &places)?;
                messages.extend(places.iter_mut().filter_map(|place| place.take().into_buf()));
                let gathered = group.scope(&mut places, |scope| {
                    for (worker, room) in workers.iter().zip(rooms.drain(..)) {
                        // The scope has a place for each worker.
                        let _ = scope.tagged_recv(*worker, ANSWER, room);
                    }
                    scope.finish(soon())
                })?;
                time += if round < WARM_UP { Duration::ZERO } else { begin.elapsed() };

                complete("gather", gathered, &places)?;
                for (worker, place) in workers.iter().zip(&mut places) {
                    let Outcome::Done { buf, transfer } = place.take() else { continue };
                    verify(&buf[..transfer.len], size, !0, worker.0, round)?;
                    rooms.push(buf);
                }
            }
            let seconds = time.as_secs_f64() / f64::from(self.rounds);
            // Each worker receives and sends `size` bytes.
            let bytes = f64::from(u32::try_from(2 * workers.len() * size)?);
            writeln!(table, "{size:>9} {:>12.1} {:>12.1}", seconds * 1e6, bytes / seconds / 1e6)?;
        }
        Ok(table)
    }

    /// Answers each message with its bits inverted.
    fn worker<T: Transport>(&self, group: &Group<'static, T, Vec<u8>, Global>, rank: u32) -> Result<String, Failure> {
        let cq = group.cq();
        for size in sizes(group) {
            let mut buf = vec![0; size];
            for round in 0..WARM_UP + self.rounds {
                let received = cq.post(buf, soon(), |room| group.recv_any(room))?;
                let (message, transfer) = cq.finish(received, soon())?.into_result()?;
                buf = message;
                verify(&buf[..transfer.len], size, 0, rank, round)?;
                buf.iter_mut().for_each(|it| *it = !*it);
                if self.garble && round + 1 == WARM_UP + self.rounds {
                    buf[size / 2] ^= 1;
                }
                let sent = cq.post(buf, soon(), |answer| group.tagged_send(PeerIndex(0), ANSWER, answer))?;
                (buf, _) = cq.finish(sent, soon())?.into_result()?;
            }
        }
        Ok(String::new())
    }
}

fn sizes<T: Transport>(group: &Group<'static, T, Vec<u8>, Global>) -> impl Iterator<Item = usize> {
    let longest = group.domain().info().attributes().endpoint.max_msg_size;
    SIZES.into_iter().filter(move |size| *size <= longest)
}

/// Names the first request that is not complete.
fn complete<T: Transport>(what: &str, summary: Summary, places: &[Place<'static, T, Vec<u8>>]) -> Result<(), Failure> {
    let error = places.iter().find_map(|place| match place.outcome() {
        Outcome::Failed { error, .. } => Some(format!("{what}, {}: {error:#}", place.peer())),
        Outcome::NotPosted { error, .. } => Some(format!("{what}, {}: not posted: {error:#}", place.peer())),
        Outcome::InFlight(_) => Some(format!("{what}, {}: not complete in time", place.peer())),
        _ => None,
    });
    if summary.is_complete() { Ok(()) } else { Err(error.unwrap_or_else(|| what.into()).into()) }
}

/// Fills a message to a worker, or with `flip` its answer.
fn fill(bytes: &mut [u8], flip: u8, worker: u32, round: u32) {
    let [seed, ..] = (worker.wrapping_mul(67) ^ round).to_le_bytes();
    for (at, byte) in bytes.iter_mut().enumerate() {
        let [low, high, ..] = at.to_le_bytes();
        *byte = low ^ high.wrapping_mul(31) ^ seed ^ flip;
    }
}

fn verify(bytes: &[u8], size: usize, flip: u8, worker: u32, round: u32) -> Result<(), Failure> {
    let mut expected = vec![0; size];
    fill(&mut expected, flip, worker, round);
    let error = || format!("round {round}: the message of {size} bytes of worker {worker} has other bytes").into();
    if bytes == expected { Ok(()) } else { Err(error()) }
}

fn main() -> ExitCode {
    common::exit("scatter_gather", run())
}

fn run() -> Result<String, Failure> {
    use lexopt::prelude::*;

    let (mut provider, mut rank, mut at) = ("soft".to_owned(), None, ([127, 0, 0, 1], 0).into());
    let (mut workers, mut scatter) = (3, Scatter { rounds: 50, garble: false });
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("provider") => provider = parser.value()?.string()?,
            Long("workers") => workers = parser.value()?.parse()?,
            Long("rounds") => scatter.rounds = parser.value()?.parse()?,
            Long("garble") => scatter.garble = true,
            Long("rank") => rank = Some(parser.value()?.parse()?),
            Long("at") => at = parser.value()?.parse()?,
            Long("help") | Short('h') => return Ok(HELP.into()),
            _ => return Err(argument.unexpected().into()),
        }
    }
    if workers == 0 || scatter.rounds == 0 {
        return Err("--workers and --rounds must be at least 1".into());
    }
    let hints = Hints { caps: CAPS, ..Hints::local(&provider) };
    let table = members::run(&hints, Ranks { size: workers + 1, rank, at }, &scatter)?;
    if rank.is_some() {
        return Ok(table);
    }
    Ok(format!("{workers} workers over {provider}, means of {} rounds\n{table}", scatter.rounds))
}
