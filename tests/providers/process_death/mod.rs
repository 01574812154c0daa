//! Connectionless endpoints, and peers that do not keep to the rules: processes that are killed in the middle of a transfer,
//! and strangers that speak something else. Each case runs over every provider of libfabric's that goes through sockets. The
//! run is compared with its table in `tests/behaviours`.

mod faults;
mod initiators;
mod killed;
use support::posting;
use support::report::{self, Section};
mod roles;
mod scene;
mod strangers;
mod watched;

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use loom_core::info::{Hints, Info};
use loom_core::vocabulary::Caps;
use loom_fabric::ofi::Ofi;
use support::library_version;

const SECTION: &str = "process_death";

type Case = fn(&Info<scene::T>);

/// The providers of Debian's libfabric, and of libfabric 2.
const PROVIDERS: [&str; 5] = ["tcp;ofi_rxm", "tcp", "net", "sockets", "udp;ofi_rxd"];

/// Those that every libfabric has.
const EVERYWHERE: [&str; 3] = ["tcp;ofi_rxm", "sockets", "udp;ofi_rxd"];

/// What needs connections that strangers can open.
const CONNECTIONS: [&str; 2] = ["silence_does_not_stop_the_others", "a_stranger_may_outlive_the_endpoint"];

fn info(provider: &str) -> Result<Info<scene::T>, Failed> {
    let hints = Hints {
        caps: Caps::MSG | Caps::TAGGED | Caps::RMA | Caps::MULTI_RECV,
        provider: Some(provider),
        node: Some("127.0.0.1"),
        listen: true,
        ..Hints::default()
    };
    let missing = || format!("libfabric {} has no provider {provider}", library_version());
    let mut infos = Ofi::query(&hints).map_err(|error| format!("{}: {error:#}", missing()))?;
    infos.next().ok_or_else(|| missing().into())
}

/// Ends the process if something does not return: a call of a provider's cannot be bounded otherwise.
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

/// The process that a case starts plays a role.
pub(crate) fn plays() -> bool {
    std::env::var(scene::ROLE).is_ok_and(|role| {
        roles::play(&role);
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
        for (number, (name, case)) in
            [killed::cases(), initiators::cases(), strangers::cases()].concat().into_iter().enumerate()
        {
            // Datagrams need nobody to listen to them.
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
    Section { name: SECTION, providers, trials }
}
