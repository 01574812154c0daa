//! The same behaviour over every transport: each case runs over the software transport and, with the feature
//! `libfabric`, over the providers `shm` and `tcp;ofi_rxm`, moving data and checking it.
//!
//! A capability that a transport does not grant is printed, and the cases that need it check instead that asking for it
//! is refused.

mod counters;
mod lifecycle;
mod messages;
mod pair;
mod pieces;
mod rma;
#[cfg(feature = "libfabric")]
#[path = "../shared_memory/mod.rs"]
mod shared_memory;
mod sleeping;
mod threads;
mod waiting;

use libtest_mimic::{Arguments, Trial};
use loom_core::objects::domain::Domain;
use loom_core::objects::info::Info;
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::transport::Transport;
use loom_core::vocabulary::Caps;

/// One behaviour, over whatever an info describes.
type Case<T> = fn(&Info<T>);

/// Every behaviour that any transport has to show.
fn cases<T: Transport>() -> Vec<(&'static str, Case<T>)> {
    [
        messages::cases(),
        rma::cases(),
        pieces::cases(),
        counters::cases(),
        waiting::cases(),
        sleeping::cases(),
        lifecycle::cases(),
    ]
    .concat()
}

/// Those that need a domain which threads share.
fn threaded_cases<T: Transport>() -> Vec<(&'static str, Case<T>)>
where
    Domain<T>: Sync,
{
    [threads::cases(), sleeping::threaded_cases()].concat()
}

/// What the tests look at; a transport that lacks one says so.
const INTERESTING: Caps = Caps::MSG.union(Caps::TAGGED).union(Caps::RMA).union(Caps::DIRECTED_RECV).union(Caps::SOURCE);

fn describe<T: Transport>(name: &str, info: &Info<T>) {
    let lacks = INTERESTING.difference(info.caps());
    let lacks =
        if lacks.is_empty() { "grants all that is tested".to_string() } else { format!("does not grant {lacks}") };
    println!("transport {name}: {lacks}");
}

fn soft_trials(trials: &mut Vec<Trial>) {
    fn all<'n>() -> Vec<(&'static str, Case<Soft<'n>>)> {
        [cases(), threaded_cases()].concat()
    }
    if let Ok(network) = Network::new(NetworkAttr::default()) {
        describe("soft", &network.info());
    }
    for (index, (name, _)) in all().into_iter().enumerate() {
        trials.push(Trial::test(format!("soft::{name}"), move || {
            let network = Network::new(NetworkAttr::default()).map_err(|error| error.to_string())?;
            // Looked up again, for the lifetime of this network.
            all()[index].1(&network.info());
            Ok(())
        }));
    }
}

#[cfg(feature = "libfabric")]
fn libfabric_trials(trials: &mut Vec<Trial>) {
    use libtest_mimic::Failed;
    use loom_core::objects::info::Hints;
    use loom_fabric::ofi::{Level, Local, Ofi, Shared, library_version};

    fn info<L: Level>(provider: &str) -> Result<Info<Ofi<L>>, Failed> {
        // With directed receives and sources if there are any.
        let wanted = INTERESTING;
        let node = (provider != "shm").then_some("127.0.0.1");
        for caps in [wanted, wanted.difference(Caps::DIRECTED_RECV | Caps::SOURCE)] {
            let hints = Hints { caps, provider: Some(provider), node, listen: node.is_some(), ..Hints::default() };
            if let Ok(mut infos) = Ofi::<L>::query(&hints)
                && let Some(info) = infos.next()
            {
                return Ok(info);
            }
        }
        Err(format!("libfabric {} has no provider {provider}", library_version()).into())
    }

    println!("libfabric {}", library_version());
    for provider in ["shm", "tcp;ofi_rxm"] {
        match info::<Local>(provider) {
            Ok(info) => describe(provider, &info),
            // The trials fail and say so too.
            Err(error) => println!("transport {provider}: {}", error.message().unwrap_or("missing")),
        }
        for (name, case) in cases() {
            trials.push(Trial::test(format!("{provider}::{name}"), move || {
                case(&info::<Local>(provider)?);
                Ok(())
            }));
        }
        for (name, case) in threaded_cases() {
            trials.push(Trial::test(format!("{provider}::{name}"), move || {
                case(&info::<Shared>(provider)?);
                Ok(())
            }));
        }
    }
}

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    soft_trials(&mut trials);
    #[cfg(feature = "libfabric")]
    libfabric_trials(&mut trials);
    #[cfg(not(feature = "libfabric"))]
    println!("transports shm and tcp;ofi_rxm: skipped, the feature `libfabric` is off");
    assert!(!trials.is_empty(), "a run over no transport proves nothing");
    #[cfg(feature = "libfabric")]
    shared_memory::remove_at_exit();
    libtest_mimic::run(&arguments, trials).exit();
}
