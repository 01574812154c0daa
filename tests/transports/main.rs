//! The same behaviour over every transport: each case runs over the software transport and, with the feature
//! `libfabric`, over every connectionless provider that is here, moving data and checking it. What runs is compared with the
//! page `docs/providers.md`.
//!
//! A capability that a transport does not grant is printed, and the cases that need it check instead that asking for it
//! is refused.

mod addresses;
mod counters;
mod lifecycle;
mod matrix;
mod messages;
mod multi;
#[path = "../page/mod.rs"]
mod page;
mod pair;
mod peek;
mod pieces;
#[path = "../posting/mod.rs"]
mod posting;
mod regions;
mod registered;
mod rma;
#[cfg(feature = "libfabric")]
#[path = "../shared_memory/mod.rs"]
mod shared_memory;
#[cfg(feature = "libfabric")]
mod signalling;
mod sleeping;
mod threads;
mod unreported;
mod waiting;

#[cfg(feature = "libfabric")]
use std::sync::Mutex;

use libtest_mimic::{Arguments, Trial};
use loom_core::objects::domain::Domain;
use loom_core::objects::info::Info;
use loom_core::soft::{Asks, Network, NetworkAttr, Soft};
use loom_core::transport::Transport;
use loom_core::vocabulary::Caps;

/// One behaviour, over whatever an info describes.
type Case<T> = fn(&Info<T>);

/// Every behaviour that any transport has to show.
fn cases<T: Transport>() -> Vec<(&'static str, Case<T>)> {
    [
        messages::cases(),
        rma::cases(),
        regions::cases(),
        registered::cases(),
        pieces::cases(),
        multi::cases(),
        peek::cases(),
        counters::cases(),
        unreported::cases(),
        waiting::cases(),
        sleeping::cases(),
        lifecycle::cases(),
        addresses::cases(),
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
const INTERESTING: Caps = Caps::MSG
    .union(Caps::TAGGED)
    .union(Caps::RMA)
    .union(Caps::MULTI_RECV)
    .union(Caps::DIRECTED_RECV)
    .union(Caps::SOURCE);

fn describe<T: Transport>(name: &str, info: &Info<T>) {
    let lacks = INTERESTING.difference(info.caps());
    let lacks =
        if lacks.is_empty() { "grants all that is tested".to_string() } else { format!("does not grant {lacks}") };
    println!("transport {name}: {lacks}");
}

/// Not where contexts are pointers: the slots of a closed endpoint are then used again only after as many events as its queue can
/// hold (rule 4 of the op table), and these close endpoints without having others.
const NOT_WITH_POINTERS: [&str; 2] =
    ["slots_of_a_closed_endpoint_can_be_used_again", "thread_that_polls_lets_go_of_cancelled_sends"];

fn soft_trials(trials: &mut Vec<Trial>) {
    fn all<'n>() -> Vec<(&'static str, Case<Soft<'n>>)> {
        [cases(), threaded_cases()].concat()
    }
    if let Ok(network) = Network::new(NetworkAttr::default()) {
        describe("soft", &network.info());
    }
    for (number, (name, _)) in all().into_iter().enumerate() {
        trials.push(Trial::test(format!("soft::{name}"), move || {
            let network = Network::new(NetworkAttr::default()).map_err(|error| error.to_string())?;
            // Looked up again, for the lifetime of this network.
            matrix::watch((number, name), "soft", || all()[number].1(&network.info()));
            Ok(())
        }));
        // The same where contexts are memory that the transport writes to: no provider here asks for it.
        let asking = Trial::test(format!("soft-asking::{name}"), move || {
            let network = Network::new(NetworkAttr::default()).map_err(|error| error.to_string())?;
            all()[number].1(&network.info_that_asks(Asks::nothing().for_larger_contexts()));
            Ok(())
        });
        trials.push(asking.with_ignored_flag(NOT_WITH_POINTERS.contains(&name)));
    }
}

/// The connectionless providers for messages and RMA of a Debian machine, and of libfabric 2.
#[cfg(feature = "libfabric")]
const PROVIDERS: [&str; 6] = ["shm", "tcp;ofi_rxm", "tcp", "net", "sockets", "udp;ofi_rxd"];

/// Those that every libfabric has.
#[cfg(feature = "libfabric")]
const EVERYWHERE: [&str; 4] = ["shm", "tcp;ofi_rxm", "sockets", "udp;ofi_rxd"];

/// Returns the providers that are here.
#[cfg(feature = "libfabric")]
fn libfabric_trials(trials: &mut Vec<Trial>) -> Vec<&'static str> {
    use libtest_mimic::Failed;
    use loom_core::objects::info::Hints;
    use loom_fabric::ofi::{Level, Local, Ofi, Shared, library_version};

    fn info<L: Level>(provider: &str) -> Result<Info<Ofi<L>>, Failed> {
        // With directed receives and sources if there are any.
        let wanted = INTERESTING;
        let node = (provider != "shm").then_some("127.0.0.1");
        let fewer = [Caps::empty(), Caps::SOURCE, Caps::DIRECTED_RECV | Caps::SOURCE];
        for caps in fewer.map(|fewer| wanted.difference(fewer)) {
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
    let mut here = Vec::new();
    for provider in PROVIDERS {
        match info::<Local>(provider) {
            Ok(info) => describe(provider, &info),
            Err(_) if !EVERYWHERE.contains(&provider) => {
                println!("transport {provider}: not in libfabric {}", library_version());
                continue;
            }
            // The trials fail and say so too.
            Err(error) => println!("transport {provider}: {}", error.message().unwrap_or("missing")),
        }
        here.push(provider);
        let mut add = |number: usize, name: &'static str, run: Box<dyn Fn() -> Result<(), Failed> + Send>| {
            let known = matrix::known_fault(provider, name, library_version().major);
            if let Some(what) = known {
                matrix::keep((number, name), provider, matrix::Outcome::Not(what));
            }
            let trial = Trial::test(format!("{provider}::{name}"), move || {
                // Threads of its own, which spin: two domains of it are too much for two cores.
                static SOCKETS: Mutex<()> = Mutex::new(());
                let _alone = (provider == "sockets").then(|| SOCKETS.lock());
                run()
            });
            trials.push(trial.with_ignored_flag(known.is_some()));
        };
        let local = cases::<Ofi<Local>>();
        let behind = local.len();
        for (number, (name, case)) in local.into_iter().enumerate() {
            let run = move || {
                let info = info::<Local>(provider)?;
                matrix::watch((number, name), provider, || case(&info));
                Ok(())
            };
            add(number, name, Box::new(run));
        }
        let shared = [threaded_cases::<Ofi<Shared>>(), signalling::cases()].concat();
        for (number, (name, case)) in (behind..).zip(shared) {
            let run = move || {
                let info = info::<Shared>(provider)?;
                matrix::watch((number, name), provider, || case(&info));
                Ok(())
            };
            add(number, name, Box::new(run));
        }
    }
    here
}

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    soft_trials(&mut trials);
    trials.push(Trial::test("matrix::differences_are_noticed", || {
        matrix::differences_are_noticed();
        Ok(())
    }));
    #[cfg(feature = "libfabric")]
    let providers = [vec!["soft"], libfabric_trials(&mut trials)].concat();
    #[cfg(not(feature = "libfabric"))]
    println!("libfabric's providers: skipped, the feature `libfabric` is off");
    assert!(!trials.is_empty(), "a run over no transport proves nothing");
    #[cfg(feature = "libfabric")]
    shared_memory::remove_at_exit();
    let whole = arguments.filter.is_none() && arguments.skip.is_empty() && !arguments.list && !arguments.ignored;
    let conclusion = libtest_mimic::run(&arguments, trials);
    #[cfg(feature = "libfabric")]
    if whole && !conclusion.has_failed() {
        let version = loom_fabric::ofi::library_version().to_string();
        if !matrix::agrees_with_the_page(&version, &providers) {
            std::process::exit(101);
        }
    }
    let _ = whole;
    conclusion.exit();
}
