//! Measurements: a file for each set.

use crate::Failure;
use crate::contest::{Outcome, Settings};
use crate::report::Run;

mod agent;
mod arrivals;
mod growth;
pub mod instructions;
mod machine;
mod media;
#[cfg(feature = "libfabric")]
mod nixl;
#[cfg(feature = "libfabric")]
mod over_c;
#[cfg(feature = "libfabric")]
mod pages;
mod peers;
#[cfg(feature = "libfabric")]
pub mod processes;
mod soft;
#[cfg(feature = "libfabric")]
mod tcp;
mod transfer;

/// A set of measurements.
pub struct Set {
    /// Name on the command line.
    pub name: &'static str,
    /// Description of the measurement.
    pub about: &'static str,
    /// Measures the set.
    pub measure: fn(&mut Run) -> Result<(), Failure>,
}

/// All sets, in the order of measurement.
///
/// Sets of one thread come first: libfabric's providers are slightly slower in a process that
/// has had a second thread.
pub const SETS: &[Set] = &[
    Set { name: "instructions", about: "instructions of an operation, by callgrind", measure: instructions::measure },
    Set { name: "machine", about: "what the machine can do at all, on one thread", measure: machine::measure },
    #[cfg(feature = "libfabric")]
    Set { name: "over_c", about: "loom beside C, over libfabric's providers", measure: over_c::measure },
    Set { name: "soft", about: "the software transport on one thread", measure: soft::one_thread::measure },
    Set { name: "arrivals", about: "counting arrivals of immediate data", measure: arrivals::measure },
    Set { name: "transfer", about: "lists of writes by the transfer engine, beside C", measure: transfer::measure },
    #[cfg(feature = "libfabric")]
    Set { name: "nixl", about: "lists of writes by the transfer engine, beside NIXL", measure: nixl::measure },
    Set { name: "media", about: "grains and blocks of samples, beside C and a copy", measure: media::measure },
    Set { name: "growth", about: "what an operation costs as numbers grow, and memory", measure: growth::measure },
    Set { name: "machine_threads", about: "what it can do between two cores", measure: machine::measure_threads },
    Set { name: "soft_threads", about: "the software transport between threads", measure: soft::threads::measure },
    Set { name: "agent", about: "from a submission to the first byte, between threads", measure: agent::measure },
    #[cfg(feature = "libfabric")]
    Set {
        name: "pages",
        about: "pages by the transfer engine between threads: windows, rails, time",
        measure: pages::measure,
    },
    Set { name: "soft_atomics", about: "two threads that add to one word", measure: soft::atomics::measure },
    Set { name: "peers", about: "the same beside what a program would take instead", measure: peers::measure },
    #[cfg(feature = "libfabric")]
    Set {
        name: "processes",
        about: "shm between processes, beside sockets, iceoryx2 and UCX",
        measure: processes::measure,
    },
    #[cfg(feature = "libfabric")]
    Set { name: "tcp", about: "the transport over TCP, beside libfabric's, a socket and tokio", measure: tcp::measure },
];

/// Returns `count` blocks of a list from `first` on, and from its start after its end.
pub(crate) fn parts<B>(list: &[B], mut first: usize, count: u32) -> impl Iterator<Item = &[B]> {
    let mut left = count as usize;
    std::iter::from_fn(move || {
        let part = &list[first..list.len().min(first + left)];
        (first, left) = (0, left - part.len());
        (!part.is_empty()).then_some(part)
    })
}

/// Number of openings of the sides. Each takes a part of the rounds.
const OPENINGS: usize = 5;

/// Runs contests over sides that are opened again several times, and joins the results
/// ([`Outcome::join`]).
fn over_openings(
    settings: &Settings,
    mut open: impl FnMut(&Settings) -> Result<Vec<Outcome>, Failure>,
) -> Result<Vec<Outcome>, Failure> {
    let settings = settings.shared_by(OPENINGS);
    let mut outcomes = open(&settings)?;
    for _ in 1..OPENINGS {
        outcomes.iter_mut().zip(open(&settings)?).for_each(|(outcome, more)| outcome.join(more));
    }
    Ok(outcomes)
}
