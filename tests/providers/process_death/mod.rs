//! Connectionless endpoints with peers that break the rules: processes that are killed during a
//! transfer, and strangers with another protocol. Each case runs over every provider of libfabric
//! that uses sockets, and over TCP in Rust. The run is compared with its table in
//! `tests/behaviours`.

mod faults;
use support::posting;
use support::report::{self, Section};
mod watched;

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use loom_core::info::{Hints, Info};
use loom_core::vocabulary::Caps;
use loom_fabric::ofi::Ofi;
use support::library_version;

const SECTION: &str = "process_death";

#[path = "."]
mod over_libfabric {
    mod initiators;
    mod killed;
    pub(crate) mod roles;
    pub(crate) mod scene;
    mod strangers;

    use loom_fabric::ofi::{Local, Ofi};

    use super::{Info, info as offer};

    pub(crate) type T = Ofi<Local>;
    pub(crate) type Case = fn(&Info<T>);

    pub(crate) fn cases() -> Vec<(&'static str, Case)> {
        [killed::cases(), initiators::cases(), strangers::cases()].concat()
    }
}

/// The cases over TCP in Rust.
#[path = "."]
mod in_rust {
    mod initiators;
    mod killed;
    pub(crate) mod roles;
    mod scene;
    mod strangers;

    use loom_tcp::{Tcp, TcpAttr};

    use super::{Failed, Info, hints};

    pub(crate) type T = Tcp;
    pub(crate) type Case = fn(&Info<T>);

    pub(crate) fn offer(provider: &str) -> Result<Info<T>, Failed> {
        Ok(support::tcp::query(&hints(provider), TcpAttr::DEFAULT)?)
    }

    pub(crate) fn cases() -> Vec<(&'static str, Case)> {
        [killed::cases(), initiators::cases(), strangers::cases()].concat()
    }
}

/// Providers of Debian's libfabric, and of libfabric 2.
const PROVIDERS: [&str; 5] = ["tcp;ofi_rxm", "tcp", "net", "sockets", "udp;ofi_rxd"];

/// Providers of every libfabric.
const EVERYWHERE: [&str; 3] = ["tcp;ofi_rxm", "sockets", "udp;ofi_rxd"];

/// Cases that require connections that strangers can open.
const CONNECTIONS: [&str; 2] = ["silence_does_not_stop_the_others", "a_stranger_may_outlive_the_endpoint"];

fn hints(provider: &str) -> Hints<'_> {
    Hints {
        caps: Caps::MSG | Caps::TAGGED | Caps::RMA | Caps::MULTI_RECV,
        provider: Some(provider),
        node: Some("127.0.0.1"),
        listen: true,
        ..Hints::default()
    }
}

fn info(provider: &str) -> Result<Info<over_libfabric::T>, Failed> {
    let missing = || format!("libfabric {} has no provider {provider}", library_version());
    let mut infos = Ofi::query(&hints(provider)).map_err(|error| format!("{}: {error:#}", missing()))?;
    infos.next().ok_or_else(|| missing().into())
}

/// Ends the process if a case does not return: a call of a provider has no other bound.
fn bounded(name: &str, case: impl FnOnce()) {
    const TOO_LONG: Duration = Duration::from_secs(100);
    let name = name.to_owned();
    let (ended, ends) = channel::<()>();
    std::thread::spawn(move || {
        if ends.recv_timeout(TOO_LONG) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{name}: a call has not returned for {TOO_LONG:?}");
            std::process::abort();
        }
    });
    case();
    drop(ended);
}

/// Plays the role in a process that a case has started.
pub(crate) fn plays() -> bool {
    std::env::var(over_libfabric::scene::ROLE).is_ok_and(|role| {
        let play = if role.starts_with("loom-tcp ") { in_rust::roles::play } else { over_libfabric::roles::play };
        play(&role);
        true
    })
}

pub(crate) fn section() -> Section {
    let (mut trials, mut providers) = (Vec::new(), Vec::new());
    for provider in PROVIDERS {
        if let Err(error) = info(provider)
            && !EVERYWHERE.contains(&provider)
        {
            println!("{}", error.message().unwrap_or("missing"));
            continue;
        }
        providers.push(provider);
        for (number, (name, case)) in over_libfabric::cases().into_iter().enumerate() {
            // Datagrams have no listener.
            if provider == "udp;ofi_rxd" && CONNECTIONS.contains(&name) {
                continue;
            }
            let known = faults::known(provider, name);
            if let Some(what) = known {
                report::keep((SECTION, number, name), provider, report::Outcome::Not(what));
            }
            let full_name = format!("{SECTION}::{provider}::{name}");
            let trial = Trial::test(full_name.clone(), move || {
                let _turn = report::turn_of(provider);
                let info = info(provider)?;
                bounded(&full_name, || report::watch((SECTION, number, name), provider, || case(&info)));
                Ok(())
            });
            trials.push(trial.with_ignored_flag(known.is_some()));
        }
    }
    for (name, case) in in_rust::cases() {
        let full_name = format!("{SECTION}::loom-tcp::{name}");
        trials.push(Trial::test(full_name.clone(), move || {
            let info = in_rust::offer("loom-tcp")?;
            bounded(&full_name, || case(&info));
            Ok(())
        }));
    }
    Section { name: SECTION, providers, trials }
}
