//! Loom's transport over TCP between two processes, compared with libfabric's providers over TCP,
//! a stream socket and tokio. All but tokio poll, each process on its core. Every message is
//! checked.

use std::process::{Command, Output, Stdio};

use loom_core::allocator_api2::alloc::Global;
use loom_core::domain::Domain;
use loom_core::info::Hints;
use loom_tcp::TcpAttr;

use super::processes::{IDLE, Kind, between_arguments, between_processes};
use crate::Failure;
use crate::contest::{Contest, Settings};
use crate::cores;
use crate::report::{Goal, Ratio, Run};
use crate::sets::peers::end::Play;
use crate::sides::size_name;
use crate::statistics::Summary;

/// Returns the providers of this version of libfabric.
fn providers() -> Vec<Kind> {
    let has = |kind: &Kind| {
        use loom_core::vocabulary::{Caps, EndpointAttributes, EndpointType};
        let endpoint_attr = EndpointAttributes::of(EndpointType::RDM);
        let provider = kind.provider().unwrap_or_default();
        let hints = Hints { caps: Caps::TAGGED, endpoint_attr, ..Hints::local(provider) };
        loom_fabric::ofi::Ofi::<loom_fabric::ofi::Local>::query(&hints).is_ok_and(|mut infos| infos.next().is_some())
    };
    [Kind::Net, Kind::FabricTcp, Kind::Rxm].into_iter().filter(has).collect()
}

/// Returns the settings for messages of this size. Rounds of long ones use all posted receives.
fn settings<const WORDS: usize>(run: &Run) -> Settings {
    if WORDS < 1 << 17 { run.settings } else { Settings { round: 30 * run.settings.round, repeats: 0, ..run.settings } }
}

/// The names `tcp_over_c` are ratios to the fastest provider of this libfabric.
fn contest<const WORDS: usize>(run: &mut Run, play: Play, what: &str, goals: (Goal, Goal)) -> Result<(), Failure> {
    let size = size_name(8 * WORDS);
    let providers = providers();
    let mut contest = Contest::new(format!("{what} of {size} over TCP between processes"));
    // Sockets have no remote memory.
    let sockets: &[Kind] = if play == Play::Write { &[] } else { &[Kind::Tcp, Kind::Tokio] };
    for kind in [Kind::LoomTcp].iter().chain(sockets).chain(&providers) {
        contest = contest.side_that_measures(kind.name(), between_processes::<WORDS>(*kind, play)?);
    }
    let outcome = contest.run(&settings::<WORDS>(run));
    run.contest(&outcome);
    for kind in providers.iter().chain(sockets) {
        let name = format!("tcp_over.{}.{what}.{size}", kind.name());
        let goal = match kind {
            Kind::Tcp => goals.1,
            Kind::Tokio => Goal::Lower,
            _ => goals.0,
        };
        run.ratio(&outcome, Ratio { name: &name, of: Kind::LoomTcp.name(), over: kind.name(), goal });
    }
    let time = |kind: &&Kind| outcome.figure(kind.name(), |nanoseconds| nanoseconds).median;
    let best = providers.iter().min_by(|one, other| time(one).total_cmp(&time(other)));
    if let Some(over) = best.map(|kind| kind.name()) {
        let of = Kind::LoomTcp.name();
        match play {
            Play::Answer => {
                let name = format!("tcp_over_c.half_rtt.{size}");
                run.ratio(&outcome, Ratio { name: &name, of, over, goal: goals.0 });
            }
            Play::Stream | Play::Write => {
                let name = format!("tcp_over_c.{}.{size}", if play == Play::Write { "write_rate" } else { "rate" });
                let goal = if let Goal::AtMost(time) = goals.0 { Goal::AtLeast(1.0 / time) } else { Goal::Higher };
                run.rate_ratio(&outcome, Ratio { name: &name, of, over, goal });
            }
        }
    }
    Ok(())
}

/// Compares endpoints with connections.
fn connections<const WORDS: usize>(run: &mut Run, play: Play, what: &str) -> Result<(), Failure> {
    let size = size_name(8 * WORDS);
    let [loom, fabric] = [Kind::LoomConnection, Kind::FabricConnection];
    let mut contest = Contest::new(format!("{what} of {size} over connections between processes"));
    for kind in [loom, fabric] {
        contest = contest.side_that_measures(kind.name(), between_processes::<WORDS>(kind, play)?);
    }
    let outcome = contest.run(&settings::<WORDS>(run));
    run.contest(&outcome);
    let name = format!("tcp_over.{}.{what}.{size}", fabric.name());
    run.ratio(&outcome, Ratio { name: &name, of: loom.name(), over: fabric.name(), goal: Goal::Lower });
    Ok(())
}

/// Messages that precede those of a figure: the connection is open, and the buffers have been used.
const WARM_UP: u32 = 128;
/// Runs of which the median counts.
const RUNS: usize = 9;

/// Adds the figure of each of `count` messages for all sides. `measure` returns that of a round,
/// which two other processes run.
fn of_each(
    run: &mut Run,
    (prefix, suffix, unit): (&str, &str, &str),
    count: u32,
    measure: impl Fn(Kind, u32) -> Result<f64, Failure>,
) -> Result<(), Failure> {
    let mut kinds = vec![Kind::LoomTcp, Kind::LoomConnection, Kind::Tcp, Kind::Tokio, Kind::FabricConnection];
    kinds.extend(providers());
    let mut samples = vec![Vec::new(); kinds.len()];
    for _ in 0..run.settings.rounds.min(RUNS) {
        for (kind, samples) in kinds.iter().zip(&mut samples) {
            samples.push((measure(*kind, WARM_UP + count)? - measure(*kind, WARM_UP)?) / f64::from(count));
        }
    }
    for (kind, samples) in kinds.iter().zip(samples) {
        let name = format!("{prefix}.{}{suffix}", kind.name());
        run.summary(&name, (unit, Goal::Lower), Summary::of(&samples).ok_or("a run or more")?);
    }
    Ok(())
}

fn finished(mut command: Command) -> Result<Output, Failure> {
    let output = cores::on_all(|| command.stdin(Stdio::null()).output())?;
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(output) } else { Err(format!("{}: {text}", output.status).into()) }
}

/// Counts the system calls of both processes that return more than 0. Polls that find no message
/// depend on the machine.
fn system_calls(run: &mut Run) -> Result<(), Failure> {
    let perf = || {
        let mut perf = Command::new("perf");
        perf.args(["stat", "-x,", "-e", "raw_syscalls:sys_exit", "--filter", "ret > 0"]);
        perf
    };
    let mut trial = perf();
    trial.arg("true");
    if finished(trial).is_err() {
        println!("system calls: skipped, they take perf, and root or CAP_PERFMON");
        return Ok(());
    }
    let program = std::env::current_exe()?;
    for (play, what, messages) in [(Play::Answer, ".round_trip.64B", 10_000), (Play::Stream, ".message.64B", 100_000)] {
        of_each(run, ("tcp.system_calls", what, "calls"), messages, |kind, count| {
            let mut command = perf();
            command.arg(&program).args(between_arguments(kind, play, 64, count));
            let table = String::from_utf8(finished(command)?.stderr)?;
            let line = table.lines().find(|line| line.contains("sys_exit")).ok_or("perf prints another table")?;
            Ok(line.split(',').next().unwrap_or_default().parse()?)
        })?;
    }
    Ok(())
}

/// Measures the processor time of both processes for 1 GiB.
fn processor_time(run: &mut Run) -> Result<(), Failure> {
    const MESSAGES: u32 = 1 << 10;
    let program = std::env::current_exe()?;
    of_each(run, ("tcp.cpu_s_per_gib", "", "s"), MESSAGES, |kind, count| {
        let before = cores::processor_time_of_children();
        let mut command = Command::new(&program);
        command.args(between_arguments(kind, Play::Stream, 1 << 20, count));
        finished(command)?;
        Ok((cores::processor_time_of_children() - before).as_secs_f64() * f64::from(MESSAGES))
    })
}

/// Returns the memory of a process with an end of this kind, in bytes.
fn resident(kind: Kind) -> Result<f64, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(between_arguments(kind, Play::Answer, 64, 1));
    let text = String::from_utf8(finished(command)?.stdout)?;
    Ok(text.trim().trim_end_matches(" kB").parse::<f64>()? * 1024.0)
}

/// Compares a connection beside idle ones with one that is alone.
fn idle(run: &mut Run) -> Result<(), Failure> {
    let idle = f64::from(IDLE);
    let size = |connections| -> Result<f64, Failure> {
        let attr = TcpAttr { connections, ..TcpAttr::DEFAULT };
        Ok(Domain::layout::<Global>(&loom_tcp::query(&Hints::default(), attr)?)?.size() as f64)
    };
    let each = (size(TcpAttr::DEFAULT.connections + IDLE)? - size(TcpAttr::DEFAULT.connections)?) / idle;
    run.summary("tcp.connection.bytes", ("B", Goal::Lower), Summary::exact(each));
    let [one, many] = [Kind::LoomTcp, Kind::LoomIdle];
    let resident = (resident(many)? - resident(one)?) / idle;
    run.summary("tcp.connection.resident", ("B", Goal::Lower), Summary::exact(resident));
    let outcome = Contest::new(format!("half_rtt of 64B beside {IDLE} idle connections"))
        .side_that_measures(one.name(), between_processes::<8>(one, Play::Answer)?)
        .side_that_measures(many.name(), between_processes::<8>(many, Play::Answer)?)
        .run(&run.settings);
    run.contest(&outcome);
    let name = "tcp.idle_connections_over_one";
    run.ratio(&outcome, Ratio { name, of: many.name(), over: one.name(), goal: Goal::AtMost(1.1) });
    Ok(())
}

pub(crate) fn measure(run: &mut Run) -> Result<(), Failure> {
    if !cores::has_two("tcp") {
        return Ok(());
    }
    contest::<8>(run, Play::Answer, "half_rtt", (Goal::AtMost(0.9), Goal::AtMost(1.3)))?;
    contest::<512>(run, Play::Answer, "half_rtt", (Goal::Lower, Goal::Lower))?;
    // Three times the rate is a third of the time per message.
    contest::<8>(run, Play::Stream, "message_time", (Goal::AtMost(1.0 / 3.0), Goal::Lower))?;
    contest::<{ 1 << 17 }>(run, Play::Stream, "message_time", (Goal::AtMost(1.0), Goal::Lower))?;
    // One and a half times the rate.
    contest::<512>(run, Play::Write, "write_time", (Goal::AtMost(2.0 / 3.0), Goal::Lower))?;
    connections::<8>(run, Play::Answer, "half_rtt")?;
    connections::<8>(run, Play::Stream, "message_time")?;
    connections::<{ 1 << 17 }>(run, Play::Stream, "message_time")?;
    idle(run)?;
    system_calls(run)?;
    processor_time(run)
}
