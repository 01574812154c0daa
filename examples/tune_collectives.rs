//! Measures which algorithm of each collective is faster, by size. Prints the table for
//! `TeamAttr::with_table`.
//!
//! ```text
//! cargo run --release --example tune_collectives
//! cargo run --release --example tune_collectives --features libfabric -- --provider shm --members 4
//! tune_collectives --provider 'tcp;ofi_rxm' --members 16 --rank R --at HOST:PORT --node ADDRESS    on each host
//! ```

#![forbid(unsafe_code)]

mod common;
#[path = "common/members.rs"]
mod members;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use loom_fabric::loom_core::allocator_api2::alloc::Global;
use loom_fabric::{Caps, Domain, Error, Hints, Transport};
use loom_group::CollectiveError;
use loom_group::bootstrap::Bootstrap;
use loom_group::collective::{Combine, Element, Running, Sum, Team, TeamAttr};
use loom_group::schedule::{Switch, Table};
use loom_group::{PeerIndex, Prepared};

use common::Failure;
use members::{Member, Ranks, soon};

const HELP: &str = "\
    --provider NAME    soft (default), or a provider of libfabric
    --members N        number of members (default 2)
    --packet BYTES     capacity of a packet (default 8192)
    --longest BYTES    longest message (default 262144)
    --node ADDRESS     address of this host on the fabric (default 127.0.0.1)
    --rank N --at ADDRESS:PORT    this is member N, and member 0 listens at the address
";

/// Rounds of a measurement. The fastest one counts.
const ROUNDS: u32 = 5;

type Members<'g, T> = Team<'g, 'static, T, Vec<u8>, Global>;
type Started<'t, 'b, T, E, C> = Result<Running<'t, 'b, 'static, T, Vec<u8>, Global, E, C>, CollectiveError>;

fn finish<T: Transport, E: Element, C: Combine<E>>(running: Started<'_, '_, T, E, C>) -> Result<(), Failure> {
    Ok(running.map_err(Error::from)?.wait(soon()).map_err(Error::from)?)
}

type Run<T> = fn(&Members<'_, T>, count: usize, &mut [u64], &mut [u64]) -> Result<(), Failure>;

/// Collective with two algorithms, of blocks of `count` elements.
struct Tuned<T: Transport + 'static> {
    name: &'static str,
    has_blocks: bool,
    switch: fn(&mut Table) -> &mut Switch,
    run: Run<T>,
}

impl<T: Transport> Tuned<T> {
    const ALL: [Self; 6] = [
        Tuned {
            name: "broadcast",
            has_blocks: false,
            switch: |table| &mut table.broadcast,
            run: |team, count, _, output| finish(team.broadcast(0, &mut output[..count])),
        },
        Tuned {
            name: "all_reduce",
            has_blocks: false,
            switch: |table| &mut table.all_reduce,
            run: |team, count, input, output| finish(team.all_reduce(Sum, &input[..count], &mut output[..count])),
        },
        Tuned {
            name: "gather",
            has_blocks: true,
            switch: |table| &mut table.gather,
            run: |team, count, input, output| {
                let all = if team.rank() == 0 { output.len() } else { 0 };
                finish(team.gather(0, &input[..count], &mut output[..all]))
            },
        },
        Tuned {
            name: "scatter",
            has_blocks: true,
            switch: |table| &mut table.scatter,
            run: |team, count, input, output| {
                let all = if team.rank() == 0 { input.len() } else { 0 };
                finish(team.scatter(0, &input[..all], &mut output[..count]))
            },
        },
        Tuned {
            name: "all_gather",
            has_blocks: true,
            switch: |table| &mut table.all_gather,
            run: |team, count, input, output| finish(team.all_gather(&input[..count], output)),
        },
        Tuned {
            name: "all_to_all",
            has_blocks: true,
            switch: |table| &mut table.all_to_all,
            run: |team, _, input, output| finish(team.all_to_all(input, output)),
        },
    ];

    /// In microseconds.
    fn measure(&self, teams: &[Members<'_, T>], members: usize, bytes: usize) -> Result<[f64; 2], Failure> {
        let count = bytes / 8;
        let length = if self.has_blocks { count * members } else { count };
        let (mut input, mut output) = (vec![7; length], vec![0; length]);
        let runs = u32::try_from((1 << 20) / (bytes * members))?.clamp(2, 200);
        let mut best = [Duration::MAX; 2];
        // The first round connects and touches memory.
        for round in 0..=ROUNDS {
            for (team, best) in teams.iter().zip(&mut best) {
                finish(team.barrier())?;
                let begin = Instant::now();
                (0..runs).try_for_each(|_| (self.run)(team, count, &mut input, &mut output))?;
                finish(team.barrier())?;
                *best = if round == 0 { *best } else { begin.elapsed().min(*best) };
            }
        }
        Ok(best.map(|time| time.as_secs_f64() * 1e6 / f64::from(runs)))
    }
}

struct Tune {
    packet: usize,
    longest: usize,
}

impl Member for Tune {
    fn run<T: Transport + 'static>(
        &self,
        domain: &Domain<'static, T>,
        ranks: &mut dyn Bootstrap,
    ) -> Result<String, Failure> {
        let (size, members) = (ranks.size(), usize::try_from(ranks.size())?);
        let prepared = Prepared::<T, Vec<u8>, _>::open(domain, members, 64)?;
        let addresses = members::exchange(ranks, prepared.address()?)?;
        let group = prepared.connect(addresses).map_err(Error::from)?;
        let team = |(number, switch)| {
            let attr = TeamAttr::new(number).with_packets(16).with_scratch(self.longest * members);
            let packets = std::iter::repeat_with(|| Vec::with_capacity(self.packet));
            let peers = (0..size).map(PeerIndex);
            Team::open(&group, attr.with_table(Table::of(switch)), peers, ranks.rank(), packets).map_err(Error::from)
        };
        let teams = [(1, Switch::NEVER), (2, Switch::ALWAYS)].into_iter().map(team).collect::<Result<Vec<_>, _>>()?;

        let mut table = Table::of(Switch::NEVER);
        let mut text = format!("{:>12} {:>9} {:>11} {:>11}\n", "collective", "bytes", "short us", "long us");
        for tuned in Tuned::<T>::ALL {
            // Smallest size from which the algorithm for long messages is always faster.
            let mut from = None;
            for bytes in std::iter::successors(Some(64), |bytes| Some(bytes * 4)).take_while(|it| *it <= self.longest) {
                let [short, long] = tuned.measure(&teams, members, bytes)?;
                text += &format!("{:>12} {bytes:>9} {short:>11.2} {long:>11.2}\n", tuned.name);
                // The table counts all blocks of `all_gather`, and one block of the others.
                let counted = if tuned.name == "all_gather" { bytes * members } else { bytes };
                from = if long < short { from.or(Some(counted)) } else { None };
            }
            if let Some(bytes) = from {
                *(tuned.switch)(&mut table) = Switch { bytes, members: size };
            }
        }
        members::part(ranks, group.cq())?;
        Ok(format!("{text}\nOf {size} members, for TeamAttr::with_table:\n\n{table:#?}\n"))
    }
}

fn main() -> ExitCode {
    common::exit("tune_collectives", run())
}

fn run() -> Result<String, Failure> {
    use lexopt::prelude::*;

    let (mut provider, mut node) = ("soft".to_owned(), "127.0.0.1".to_owned());
    let mut ranks = Ranks { size: 2, rank: None, at: ([127, 0, 0, 1], 0).into() };
    let mut tune = Tune { packet: 8 << 10, longest: 256 << 10 };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("provider") => provider = parser.value()?.string()?,
            Long("members") => ranks.size = parser.value()?.parse()?,
            Long("packet") => tune.packet = parser.value()?.parse()?,
            Long("longest") => tune.longest = parser.value()?.parse()?,
            Long("node") => node = parser.value()?.string()?,
            Long("rank") => ranks.rank = Some(parser.value()?.parse()?),
            Long("at") => ranks.at = parser.value()?.parse()?,
            Long("help") | Short('h') => return Ok(HELP.into()),
            _ => return Err(argument.unexpected().into()),
        }
    }
    if ranks.size < 2 || tune.packet < 64 || tune.longest < 64 {
        return Err("two members or more, and packets and messages of 64 bytes or more are required".into());
    }
    members::run(&Hints { caps: Caps::MSG | Caps::TAGGED, ..Hints::at(&provider, &node) }, ranks, &tune)
}
