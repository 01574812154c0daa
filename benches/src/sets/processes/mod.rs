//! libfabric's shm, driven by loom, between two processes, compared with alternatives for a
//! program. Both processes are bound to a core and poll. Every message is checked.

mod connections;
mod far;
mod frames;
mod idle;
mod offers;
mod sockets;
mod ucx;
mod writes;

pub(in crate::sets) use far::between_arguments;
pub(crate) use far::{Kind, between_processes};
pub use far::{between, far};
pub(in crate::sets) use idle::IDLE;
pub(in crate::sets) use offers::{open_info, provider};

use crate::Failure;
use crate::contest::{Contest, Measured, Outcome, Settings};
use crate::cores;
use crate::report::{Goal, Ratio, Run};
use crate::sets::peers::end::{Play, Round};
use crate::sides::size_name;
use crate::statistics::Summary;

/// Alternatives.
const PEERS: &[Kind] = &[
    Kind::Unix,
    Kind::Tcp,
    #[cfg(feature = "iceoryx2")]
    Kind::Iceoryx,
];

fn latency<const WORDS: usize>(run: &mut Run) -> Result<(), Failure> {
    let size = size_name(8 * WORDS);
    let mut contest = Contest::new(format!("half round trip of {size} between processes"));
    for kind in [Kind::Shm, Kind::LoomShared].iter().chain(PEERS) {
        contest = contest.side_that_measures(kind.name(), between_processes::<WORDS>(*kind, Play::Answer)?);
    }
    let outcome = contest.run(&run.settings);
    run.contest(&outcome);
    let beside_shared = [
        (Kind::Shm, Goal::AtMost(0.5)),
        #[cfg(feature = "iceoryx2")]
        (Kind::Iceoryx, Goal::AtMost(0.5)),
    ];
    for (over, goal) in beside_shared {
        let name = format!("shared_half_rtt_over_{}.{size}", over.name());
        run.ratio(&outcome, Ratio { name: &name, of: Kind::LoomShared.name(), over: over.name(), goal });
    }
    for over in PEERS {
        let name = format!("shm_half_rtt_over_{}.{size}", over.name());
        let ratio = Ratio { name: &name, of: Kind::Shm.name(), over: over.name(), goal: Goal::Lower };
        run.ratio(&outcome, ratio);
    }
    Ok(())
}

/// Compares the rates of messages through shared memory. Rounds of long ones use all posted
/// receives.
fn shared_rate<const WORDS: usize>(run: &mut Run, goal: Goal) -> Result<(), Failure> {
    let size = size_name(8 * WORDS);
    let mut contest = Contest::new(format!("rate of {size} between processes"));
    for kind in [Kind::Shm, Kind::LoomShared] {
        contest = contest.side_that_measures(kind.name(), between_processes::<WORDS>(kind, Play::Stream)?);
    }
    let is_long = WORDS >= 1 << 17;
    let round = if is_long { 30 * run.settings.round } else { run.settings.round };
    let outcome = contest.run(&Settings { round, ..run.settings });
    run.contest(&outcome);
    let name = format!("shared_rate_over_shm.{size}");
    run.rate_ratio(&outcome, Ratio { name: &name, of: Kind::LoomShared.name(), over: Kind::Shm.name(), goal });
    Ok(())
}

/// Runs of `ucx_perftest`, which takes a second to start.
const RUNS: usize = 5;
/// Rounds of loom for each run.
const PARTS: u32 = 20;

/// Compares with UCX, which runs each round as its own program. Rounds of loom with as many
/// messages follow each of them.
fn beside_ucx<const WORDS: usize>(run: &mut Run) -> Result<(), Failure> {
    let size = size_name(8 * WORDS);
    let mut shm: Round<'_> = between_processes::<WORDS>(Kind::Shm, Play::Answer)?;
    let side = |name: &str| Measured { name: name.into(), count: ucx::MESSAGES, rounds: Vec::new() };
    let name = format!("half round trip of {size} between processes, beside UCX");
    let mut outcome = Outcome { name, sides: vec![side(Kind::Shm.name()), side("ucx")], attempts: 1 };
    for _ in 0..run.settings.rounds.min(RUNS) {
        outcome.sides[1].rounds.push(ucx::half_round_trip(8 * WORDS)?);
        let each = ucx::MESSAGES / PARTS;
        let parts: Vec<f64> = (0..PARTS).map(|_| shm(each).as_secs_f64() * 1e9 / f64::from(each)).collect();
        // A median, as for UCX.
        outcome.sides[0].rounds.push(Summary::of(&parts).map_or(f64::NAN, |parts| parts.median));
    }
    run.contest(&outcome);
    let name = format!("shm_half_rtt_over_ucx.{size}");
    run.ratio(&outcome, Ratio { name: &name, of: Kind::Shm.name(), over: "ucx", goal: Goal::Lower });
    Ok(())
}

pub(crate) fn measure(run: &mut Run) -> Result<(), Failure> {
    if !cores::has_two("processes") {
        return Ok(());
    }
    latency::<1>(run)?;
    latency::<128>(run)?;
    latency::<8192>(run)?;
    shared_rate::<1>(run, Goal::AtLeast(3.0))?;
    shared_rate::<{ 1 << 17 }>(run, Goal::AtLeast(1.2))?;
    if ucx::is_there() {
        beside_ucx::<1>(run)?;
        beside_ucx::<128>(run)?;
        beside_ucx::<8192>(run)?;
    }
    // Its build script compiles wrappers for declarations of `fi_profile.h`, which libfabric 1.17
    // does not have.
    println!("ofi-libfabric-sys: skipped, version 0.2 does not build with the headers of libfabric 1.17");
    Ok(())
}
