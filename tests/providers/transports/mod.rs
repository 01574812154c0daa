//! Each behaviour over the software transport and, with the feature `libfabric`, over every
//! connectionless provider of this machine. The run is compared with its table in
//! `tests/behaviours`.
//!
//! If a transport does not grant a capability, the run prints it, and the cases that require it
//! check instead that requests for it are refused.

mod matrix;
use support::memory;
mod placed;
use support::report::{self, Section};

#[cfg(feature = "libfabric")]
use libtest_mimic::Failed;
use libtest_mimic::Trial;
use loom_core::info::{Hints, Info};
use loom_core::soft::{Network, NetworkAttr, RequiredModes, Soft};
use loom_core::transport::Transport;
use loom_core::vocabulary::Caps;
#[cfg(feature = "libfabric")]
use loom_core::vocabulary::{EndpointAttributes, EndpointType};
#[cfg(feature = "libfabric")]
use loom_fabric::ofi::{Level, Local, Ofi, Shared};
use loom_tcp::{Tcp, TcpAttr};
#[cfg(feature = "libfabric")]
use support::library_version;

use support::behaviours::cases;
use support::behaviours::needs::{self, Behaviour};
#[cfg(feature = "libfabric")]
use support::behaviours::threaded_cases;
use support::behaviours::{pair, soft_cases};

pub(crate) const SECTION: &str = "transports";

const ASKED: Caps = Caps::MSG
    .union(Caps::TAGGED)
    .union(Caps::RMA)
    .union(Caps::MULTI_RECV)
    .union(Caps::DIRECTED_RECV)
    .union(Caps::SOURCE)
    .union(Caps::ATOMIC)
    .union(Caps::RMA_EVENT)
    .union(Caps::TAGGED_MULTI_RECV);

fn describe<T: Transport + 'static>(name: &str, info: &Info<T>) {
    let lacks = ASKED.difference(info.caps());
    let lacks =
        if lacks.is_empty() { "grants all that is tested".to_string() } else { format!("does not grant {lacks}") };
    println!("transport {name}: {lacks}");
}

/// Behaviours that do not run where contexts are pointers. There, the slots of a closed endpoint
/// are reused only after as many events as its queue can hold (rule 4 of the op table), and these
/// close endpoints without other ones.
const NOT_WITH_POINTERS: [&str; 2] =
    ["slots_of_a_closed_endpoint_can_be_used_again", "thread_that_polls_lets_go_of_cancelled_sends"];

/// Opens a network that grants only the minimum of the providers.
fn strict() -> Result<Network<'static>, String> {
    Network::new(NetworkAttr { strict: true, ..NetworkAttr::DEFAULT }).map_err(|error| format!("{error:#}"))
}

fn soft_trials(trials: &mut Vec<Trial>) {
    fn all() -> Vec<Behaviour<Soft<'static>>> {
        let (alone, threaded) = soft_cases();
        [alone, threaded].concat()
    }
    if let Ok(network) = Network::new(NetworkAttr::default()) {
        describe("soft", &network.info());
    }
    // Another library at run time, or a missing one, has no effect.
    #[cfg(feature = "libfabric")]
    let again = support::without_library().is_some() || library_version().major > 1;
    #[cfg(not(feature = "libfabric"))]
    let again = false;
    for (number, (name, ..)) in all().into_iter().enumerate() {
        trials.push(Trial::test(format!("{SECTION}::soft::{name}"), move || {
            let network = Network::new(NetworkAttr::default()).map_err(|error| format!("{error:#}"))?;
            // A second lookup, for the lifetime of this network.
            report::watch((SECTION, number, name), "soft", || needs::run(all()[number], &network.info()));
            Ok(())
        }));
        // Over a strict network, with the hints of a provider.
        trials.push(Trial::test(format!("{SECTION}::strict::{name}"), move || {
            let network = strict()?;
            let info = network.query(&Hints { caps: ASKED, ..Hints::default() })?;
            report::watch((SECTION, number, name), "strict", || needs::run(all()[number], &info));
            Ok(())
        }));
        if again {
            continue;
        }
        // By lanes.
        trials.push(Trial::test(format!("{SECTION}::soft-lanes::{name}"), move || {
            let network = Network::new(NetworkAttr::default()).map_err(|error| format!("{error:#}"))?;
            // On this trial's own thread.
            pair::TALKS_FIRST.set(true);
            needs::run(all()[number], &network.info());
            pair::TALKS_FIRST.set(false);
            Ok(())
        }));
        // With contexts in memory that the transport writes to, which no provider here requires.
        let asking = Trial::test(format!("{SECTION}::soft-asking::{name}"), move || {
            let network = Network::new(NetworkAttr::default()).map_err(|error| format!("{error:#}"))?;
            needs::run(all()[number], &network.info_requiring(RequiredModes::LARGE_CONTEXTS));
            Ok(())
        });
        trials.push(asking.with_ignored_flag(NOT_WITH_POINTERS.contains(&name)));
    }
    if again {
        println!("soft by lanes, with contexts, and in memory of other allocators: skipped, run with libfabric 1.x");
        return;
    }
    let names: Vec<_> = all().into_iter().map(|(name, ..)| name).collect();
    trials.extend(placed::trials(&names, |number, info| needs::run(all()[number], info)));
}

/// Attributes for the behaviours with the most objects, and the longest messages without receives.
const TCP: TcpAttr = TcpAttr {
    endpoints: 64,
    vectors: 32,
    rx_depth: 128,
    unexpected: 128,
    unexpected_size: 16 << 20,
    tx_depth: 64,
    ..TcpAttr::DEFAULT
};

fn tcp_trials(trials: &mut Vec<Trial>) {
    if let Ok(info) = support::tcp::query(&Hints::default(), TCP) {
        describe("loom-tcp", &info);
    }
    for (number, behaviour) in cases::<Tcp>().into_iter().enumerate() {
        trials.push(Trial::test(format!("{SECTION}::loom-tcp::{}", behaviour.0), move || {
            let info = support::tcp::query(&Hints::default(), TCP)?;
            report::watch((SECTION, number, behaviour.0), "loom-tcp", || needs::run(behaviour, &info));
            Ok(())
        }));
    }
}

#[cfg(feature = "libfabric")]
#[derive(Clone, Copy)]
struct Provider {
    name: &'static str,
    provider: &'static str,
    kind: EndpointType,
    everywhere: bool,
}

#[cfg(feature = "libfabric")]
impl Provider {
    const fn new(provider: &'static str, everywhere: bool) -> Self {
        Provider { name: provider, provider, kind: EndpointType::RDM, everywhere }
    }

    const fn of_datagrams(name: &'static str, provider: &'static str) -> Self {
        Provider { name, provider, kind: EndpointType::DGRAM, everywhere: true }
    }

    fn info<L: Level>(self, caps: Caps) -> Result<Info<Ofi<L>>, Failed> {
        let hints = Hints { caps, endpoint_attr: EndpointAttributes::of(self.kind), ..Hints::local(self.provider) };
        let missing = || format!("libfabric {} has no provider {}", library_version(), self.name);
        Ofi::<L>::query(&hints).ok().and_then(|mut infos| infos.next()).ok_or_else(|| missing().into())
    }

    /// Returns the capabilities of the tests that it grants together, in the order of their use.
    fn grants(self) -> Caps {
        let asked = [
            Caps::TAGGED,
            Caps::RMA,
            Caps::MULTI_RECV,
            Caps::DIRECTED_RECV,
            Caps::SOURCE,
            Caps::ATOMIC,
            Caps::RMA_EVENT,
            Caps::TAGGED_MULTI_RECV,
        ];
        asked
            .into_iter()
            .fold(Caps::MSG, |caps, more| if self.info::<Local>(caps | more).is_ok() { caps | more } else { caps })
    }
}

/// Connectionless providers of a Debian machine, and of libfabric 2.
#[cfg(feature = "libfabric")]
const PROVIDERS: [Provider; 9] = [
    Provider::new("shm", true),
    Provider::new("sm2", false),
    Provider::new("tcp;ofi_rxm", true),
    Provider::new("tcp", false),
    Provider::new("net", false),
    Provider::new("sockets", true),
    Provider::new("udp;ofi_rxd", true),
    Provider::of_datagrams("udp", "udp"),
    Provider::of_datagrams("sockets-dgram", "sockets"),
];

/// Returns the names of the providers of this machine.
#[cfg(feature = "libfabric")]
fn libfabric_trials(trials: &mut Vec<Trial>) -> Vec<&'static str> {
    if support::without_library().is_some() {
        return Vec::new();
    }
    println!("libfabric {}", library_version());
    let mut here = Vec::new();
    for from in PROVIDERS {
        let (name, caps) = (from.name, from.grants());
        match from.info::<Local>(caps) {
            Ok(info) => describe(name, &info),
            Err(_) if !from.everywhere => {
                println!("transport {name}: not in libfabric {}", library_version());
                continue;
            }
            // The trials fail and report it too.
            Err(error) => println!("transport {name}: {}", error.message().unwrap_or("missing")),
        }
        here.push(name);
        let mut add = |number: usize, behaviour: &'static str, run: Box<dyn Fn() -> Result<(), Failed> + Send>| {
            let known = matrix::known_fault(name, behaviour, library_version().major);
            if let Some(what) = known {
                report::keep((SECTION, number, behaviour), name, report::Outcome::Not(what));
            }
            // Endpoints of `sm2` that stay open fill a table, which all processes of a user share.
            let alone = name == "sm2" && report::is_untested() && !report::is_alone();
            let trial = Trial::test(format!("{SECTION}::{name}::{behaviour}"), move || {
                let _turn = report::turn_of(from.provider);
                if alone { report::watch_alone((SECTION, number, behaviour), name) } else { run() }
            });
            trials.push(trial.with_ignored_flag(known.is_some()));
        };
        let local = cases::<Ofi<Local>>();
        let behind = local.len();
        for (number, behaviour) in local.into_iter().enumerate() {
            let run = move || {
                let info = from.info::<Local>(caps)?;
                report::watch((SECTION, number, behaviour.0), name, || needs::run(behaviour, &info));
                Ok(())
            };
            add(number, behaviour.0, Box::new(run));
        }
        for (number, behaviour) in (behind..).zip(threaded_cases::<Ofi<Shared>>()) {
            let run = move || {
                let info = from.info::<Shared>(caps)?;
                report::watch((SECTION, number, behaviour.0), name, || needs::run(behaviour, &info));
                Ok(())
            };
            add(number, behaviour.0, Box::new(run));
        }
    }
    here
}

pub(crate) fn section() -> Section {
    let mut trials = Vec::new();
    // Facts of the software transport are all tested.
    let with_soft = !report::is_untested();
    if with_soft {
        soft_trials(&mut trials);
        tcp_trials(&mut trials);
    }
    #[cfg(feature = "libfabric")]
    let providers =
        [if with_soft { vec!["soft", "strict", "loom-tcp"] } else { vec![] }, libfabric_trials(&mut trials)].concat();
    #[cfg(not(feature = "libfabric"))]
    let providers = Vec::new();
    assert!(!trials.is_empty(), "a run over no transport proves nothing");
    Section { name: SECTION, providers, trials }
}
