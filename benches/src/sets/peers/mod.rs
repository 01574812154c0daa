//! The software transport between two threads, compared with alternatives for a program. The work
//! is the same for all: a message is written word by word, moved, read and checked. Both threads
//! are bound to a core and poll.

pub(crate) mod end;
pub(crate) mod fabric;
#[cfg(feature = "iceoryx2")]
pub(crate) mod iceoryx;
mod queues;

use std::thread::Scope;

use loom_core::domain::Domain;
use loom_core::soft::{Network, NetworkAttr, Soft};
#[cfg(feature = "libfabric")]
use loom_core::vocabulary::Caps;

use crate::Failure;
use crate::contest::{Contest, Outcome};
use crate::cores;
use crate::report::{Goal, Ratio, Run};
#[cfg(feature = "libfabric")]
use crate::sets::processes::{Kind, between_processes, open_info, provider};
use crate::sides::size_name;
use end::{End, Exchange, Play, Round, between_threads};
use fabric::{Loom, Sending};

/// Messages that may be in transit, on every side.
pub(crate) const CAPACITY: usize = 1024;

/// A side of a contest: its name, and its rounds.
type Side<'s> = (&'static str, Round<'s>);

/// Software transport.
const SOFT: &str = "soft";
/// Software transport, with sends that have no completion.
const INJECTED: &str = "soft, injected";
const CHANNEL: &str = "crossbeam channel";
const QUEUE: &str = "crossbeam queue";
/// libfabric's shm, driven by loom.
#[cfg(feature = "libfabric")]
const SHM: &str = "shm";
/// libfabric's shm, driven by loom, with the far end in its own process.
#[cfg(feature = "libfabric")]
const SHM_PROCESSES: &str = "shm, processes";
#[cfg(feature = "iceoryx2")]
const ICEORYX: &str = "iceoryx2";

/// Returns a side with both ends open before the far one moves to its thread.
fn side<'s>(
    scope: &'s Scope<'s, '_>,
    name: &'static str,
    play: Play,
    (near, far): (impl End + 's, impl End + Send + 's),
) -> Side<'s> {
    (name, between_threads(scope, play, |_| near, |_| far))
}

/// Returns all sides, for messages of this number of words.
fn sides<'s, const WORDS: usize>(
    scope: &'s Scope<'s, '_>,
    play: Play,
    soft: &'s Domain<'static, Soft<'static>>,
) -> Result<Vec<Side<'s>>, Failure> {
    let len = 8 * WORDS;
    let soft = |name, sending| -> Side<'s> {
        let open = move |exchange: Exchange<'_>| Loom::open(soft, (play, sending), len, exchange);
        (name, between_threads(scope, play, open, open))
    };
    let mut sides = vec![
        soft(SOFT, Sending::of(play, len, len)),
        side(scope, CHANNEL, play, queues::crossbeam_channel::<WORDS>()),
        side(scope, QUEUE, play, queues::crossbeam_queue::<WORDS>()),
        side(scope, "std channel", play, queues::std_channel::<WORDS>()),
        side(scope, "rtrb", play, queues::rtrb::<WORDS>()),
    ];
    if play == Play::Answer {
        sides.push(soft(INJECTED, Sending::Injected));
    }
    #[cfg(feature = "iceoryx2")]
    {
        // Services for one process, with ports that have no locks.
        use ::iceoryx2::service::local::Service;
        let name = move || format!("{play:?}.{len}");
        let near =
            move |exchange: Exchange<'_>| iceoryx::Iceoryx::<Service, WORDS>::open(&name(), true, play, exchange);
        let far =
            move |exchange: Exchange<'_>| iceoryx::Iceoryx::<Service, WORDS>::open(&name(), false, play, exchange);
        sides.push((ICEORYX, between_threads(scope, play, near, far)));
    }
    #[cfg(feature = "libfabric")]
    {
        // With libfabric 2.5 a longer message between two domains of one process crashes
        // `fi_cq_read`.
        if len <= 64 {
            let open = move |exchange: Exchange<'_>| open_info(&provider("shm", Caps::TAGGED), play, len, exchange);
            sides.push((SHM, between_threads(scope, play, open, open)));
        }
        sides.push((SHM_PROCESSES, between_processes::<WORDS>(Kind::Shm, play)?));
    }
    Ok(sides)
}

/// Runs the contest of all sides.
fn contest<const WORDS: usize>(
    run: &mut Run,
    play: Play,
    soft: &Domain<'static, Soft<'static>>,
) -> Result<Outcome, Failure> {
    let work = match play {
        Play::Answer => "half round trip",
        Play::Stream | Play::Write => "rate",
    };
    std::thread::scope(|scope| {
        let contest = Contest::new(format!("{work} of {} between threads", size_name(8 * WORDS)));
        let sides = sides::<WORDS>(scope, play, soft)?;
        let contest = sides.into_iter().fold(contest, |contest, (name, round)| contest.side_that_measures(name, round));
        let outcome = contest.run(&run.settings);
        run.contest(&outcome);
        Ok(outcome)
    })
}

/// Names of the sides in metrics. If there are several sides, the fastest counts.
const PEERS: &[(&str, &[&str])] = &[
    ("crossbeam", &[CHANNEL]),
    ("array_queue", &[QUEUE]),
    ("std", &["std channel"]),
    ("rtrb", &["rtrb"]),
    #[cfg(feature = "libfabric")]
    ("shm", &[SHM, SHM_PROCESSES]),
];

/// Returns the fastest of the sides that took part.
fn fastest(outcome: &Outcome, sides: &[&'static str]) -> &'static str {
    let time = |side: &&str| outcome.nanoseconds(side).median;
    let took_part = |side: &&&'static str| outcome.sides.iter().any(|measured| measured.name == **side);
    sides.iter().filter(took_part).min_by(|a, b| time(a).total_cmp(&time(b))).expect("there is one")
}

fn latency<const WORDS: usize>(run: &mut Run, soft: &Domain<'static, Soft<'static>>) -> Result<(), Failure> {
    let outcome = contest::<WORDS>(run, Play::Answer, soft)?;
    let size = size_name(8 * WORDS);
    for (metric, sides) in PEERS {
        let over = fastest(&outcome, sides);
        let name = format!("soft_half_rtt_over_{metric}.{size}");
        run.ratio(&outcome, Ratio { name: &name, of: SOFT, over, goal: Goal::Lower });
    }
    #[cfg(feature = "iceoryx2")]
    {
        let goal = if WORDS == 8 { Goal::Lower } else { Goal::AtMost(0.7) };
        let name = format!("soft_over_iceoryx2.{size}");
        run.ratio(&outcome, Ratio { name: &name, of: SOFT, over: ICEORYX, goal });
        let name = format!("soft_over_iceoryx2.inject.{size}");
        run.ratio(&outcome, Ratio { name: &name, of: INJECTED, over: ICEORYX, goal: Goal::Lower });
    }
    Ok(())
}

fn rate<const WORDS: usize>(run: &mut Run, soft: &Domain<'static, Soft<'static>>) -> Result<(), Failure> {
    let outcome = contest::<WORDS>(run, Play::Stream, soft)?;
    let size = size_name(8 * WORDS);
    for (metric, sides) in PEERS {
        if (*metric, WORDS) == ("crossbeam", 1) {
            // The set `soft_threads` has it.
            continue;
        }
        let over = fastest(&outcome, sides);
        let goal = match (*metric, WORDS) {
            ("shm", 1) => Goal::AtLeast(2.0),
            _ => Goal::Higher,
        };
        let name = format!("soft_rate_over_{metric}.{size}");
        run.rate_ratio(&outcome, Ratio { name: &name, of: SOFT, over, goal });
    }
    #[cfg(feature = "iceoryx2")]
    {
        let name = format!("soft_rate_over_iceoryx2.{size}");
        run.rate_ratio(&outcome, Ratio { name: &name, of: SOFT, over: ICEORYX, goal: Goal::Higher });
    }
    Ok(())
}

pub(crate) fn measure(run: &mut Run) -> Result<(), Failure> {
    if !cores::has_two("peers") {
        return Ok(());
    }
    let attr = NetworkAttr { endpoints: 16, tx_depth: CAPACITY as u32, ..NetworkAttr::DEFAULT };
    let soft = Domain::open(&Network::new(attr)?.info())?;
    latency::<1>(run, &soft)?;
    latency::<8>(run, &soft)?;
    latency::<128>(run, &soft)?;
    rate::<1>(run, &soft)?;
    rate::<8>(run, &soft)?;
    rate::<128>(run, &soft)?;
    Ok(())
}
