//! Connection-oriented endpoints. Each case runs over every provider of libfabric that has them. It
//! connects, transfers and compares data, and ends connections in every way.

use support::posting;
use support::report::{self, Section};

use libtest_mimic::{Failed, Trial};
use loom_core::info::{Hints, Info};
use loom_core::transport::Connected;
use loom_core::vocabulary::{Caps, EndpointAttributes, EndpointType};
use loom_fabric::ofi::{Level, Ofi};
use loom_tcp::{Tcp, TcpAttr};
use support::library_version;

const SECTION: &str = "connected";

/// Capabilities of the tests. Every provider of connections grants the first two.
const INTERESTING: Caps = Caps::MSG.union(Caps::RMA).union(Caps::TAGGED);

fn info<L: Level>(provider: &str) -> Result<Info<Ofi<L>>, Failed> {
    let with = |caps| {
        let hints = Hints {
            caps,
            endpoint_attr: EndpointAttributes::of(EndpointType::MSG),
            provider: Some(provider),
            node: Some("127.0.0.1"),
            listen: true,
            ..Hints::default()
        };
        match Ofi::<L>::query(&hints) {
            Ok(mut infos) => Ok(infos.next()),
            Err(error) if error.is_no_match() => Ok(None),
            Err(error) => Err(format!("{error:#}")),
        }
    };
    if let Some(info) = with(INTERESTING)? {
        return Ok(info);
    }
    let missing = || format!("libfabric {} has no connected endpoints of {provider}", library_version());
    Ok(with(INTERESTING.difference(Caps::TAGGED))?.ok_or_else(missing)?)
}

pub(crate) trait Found: Connected + 'static {
    /// Returns the first offer for the hints.
    fn find(hints: &Hints<'_>) -> Option<Info<Self>>;

    fn is_tested(_info: &Info<Self>) -> bool {
        true
    }
}

impl<L: Level> Found for Ofi<L> {
    fn find(hints: &Hints<'_>) -> Option<Info<Self>> {
        Ofi::query(hints).ok()?.next()
    }

    fn is_tested(info: &Info<Self>) -> bool {
        info.raw().is_tested()
    }
}

impl Found for Tcp {
    fn find(hints: &Hints<'_>) -> Option<Info<Self>> {
        support::tcp::query(hints, TcpAttr { endpoints: 64, event_queues: 16, ..TcpAttr::DEFAULT }).ok()
    }
}

/// Cases on one thread, and peers that break the protocol.
#[path = "."]
mod local {
    mod atomics;
    mod awaited;
    mod awaited_events;
    mod connecting;
    mod ending;
    mod events;
    pub(crate) mod killed;
    mod peek;
    mod shared_rx;
    mod sides;
    mod strangers;
    mod tags;
    mod traffic;
    mod unsignaled;

    use loom_fabric::ofi::Local;

    use super::{Info, Ofi};

    pub(crate) type T = Ofi<Local>;
    pub(crate) type Case = fn(&Info<T>);

    use super::info as offer;

    pub(crate) fn cases() -> Vec<(&'static str, Case)> {
        let moving =
            [traffic::cases(), atomics::cases(), unsignaled::cases(), peek::cases(), shared_rx::cases(), tags::cases()]
                .concat();
        let own = [killed::cases(), strangers::cases()].concat();
        [connecting::cases(), awaited::cases(), awaited_events::cases(), moving, ending::cases(), events::cases(), own]
            .concat()
    }
}

/// The cases in domains that threads may share.
#[path = "."]
mod shared {
    mod atomics;
    mod awaited;
    mod awaited_events;
    mod connecting;
    mod ending;
    mod events;
    mod peek;
    mod shared_rx;
    mod sides;
    mod tags;
    mod traffic;
    mod unsignaled;

    use loom_fabric::ofi::Shared;

    use super::{Info, Ofi};

    pub(crate) type T = Ofi<Shared>;
    pub(crate) type Case = fn(&Info<T>);

    pub(crate) fn cases() -> Vec<(&'static str, Case)> {
        let moving =
            [traffic::cases(), atomics::cases(), unsignaled::cases(), peek::cases(), shared_rx::cases(), tags::cases()]
                .concat();
        [connecting::cases(), awaited::cases(), awaited_events::cases(), moving, ending::cases(), events::cases()]
            .concat()
    }
}

/// The cases over TCP in Rust.
#[path = "."]
mod in_rust {
    mod awaited;
    mod awaited_events;
    mod connecting;
    mod ending;
    mod events;
    pub(crate) mod killed;
    mod shared_rx;
    mod sides;
    mod strangers;
    mod traffic;
    mod unsignaled;

    use super::{Caps, EndpointAttributes, EndpointType, Failed, Found, Hints, Info, Tcp};

    pub(crate) type T = Tcp;
    pub(crate) type Case = fn(&Info<T>);

    pub(crate) fn offer(_: &str) -> Result<Info<T>, Failed> {
        let hints = Hints {
            caps: Caps::MSG | Caps::RMA,
            endpoint_attr: EndpointAttributes::of(EndpointType::MSG),
            node: Some("127.0.0.1"),
            listen: true,
            ..Hints::default()
        };
        Ok(Tcp::find(&hints).ok_or("loopback")?)
    }

    pub(crate) fn cases() -> Vec<(&'static str, Case)> {
        let moving = [traffic::cases(), unsignaled::cases(), shared_rx::cases()].concat();
        let own = [killed::cases(), strangers::cases()].concat();
        [connecting::cases(), awaited::cases(), awaited_events::cases(), moving, ending::cases(), events::cases(), own]
            .concat()
    }
}

/// Returns `true` if connections can share their receives. Those of `sockets` cannot, and untested
/// providers are unknown.
pub(crate) fn shares_receives<T: Found>(info: &Info<T>) -> bool {
    info.provider() != "sockets" && T::is_tested(info)
}

/// Returns `true` if a connection can be shut down. Those of `sockets` and of libfabric 1 cannot,
/// and untested providers are unknown.
pub(crate) fn shuts_down<T: Found>(info: &Info<T>) -> bool {
    let shuts = info.provider() == "loom-tcp" || library_version().major >= 2;
    info.provider() != "sockets" && shuts && T::is_tested(info)
}

/// Plays the role in a process that a case has started.
pub(crate) fn plays() -> bool {
    std::env::var(local::killed::ROLE).is_ok_and(|role| {
        let play = if role.starts_with("loom-tcp ") { in_rust::killed::play } else { local::killed::play };
        play(&role);
        true
    })
}

pub(crate) fn section() -> Section {
    let (mut trials, mut providers) = (Vec::new(), Vec::new());
    for provider in ["tcp", "sockets", "net"] {
        // Libfabric 2 made its own `tcp` of `net`.
        if provider == "net" && library_version().major >= 2 {
            println!("provider net: not in this libfabric");
            continue;
        }
        providers.push(provider);
        let mut add = |name: String, run: Box<dyn Fn() -> Result<(), Failed> + Send>| {
            trials.push(Trial::test(format!("{SECTION}::{name}"), move || {
                let _turn = report::turn_of(provider);
                run()
            }));
        };
        for (number, (name, case)) in local::cases().into_iter().enumerate() {
            let run = move || {
                let info = info(provider)?;
                report::watch((SECTION, number, name), provider, || case(&info));
                Ok(())
            };
            add(format!("{provider}::{name}"), Box::new(run));
        }
        for (name, case) in shared::cases() {
            let run = move || {
                case(&info(provider)?);
                Ok(())
            };
            add(format!("{provider}::shared::{name}"), Box::new(run));
        }
    }
    for (name, case) in in_rust::cases() {
        trials.push(Trial::test(format!("{SECTION}::loom-tcp::{name}"), move || {
            case(&in_rust::offer("loom-tcp")?);
            Ok(())
        }));
    }
    Section { name: SECTION, providers, trials }
}
