//! Connection-oriented endpoints: each case runs over every provider of libfabric's that has them, connecting, moving data
//! and checking it, and ending connections in every way.

mod connecting;
mod ending;
mod events;
mod killed;
#[path = "../page/mod.rs"]
mod page;
mod sides;
mod strangers;
mod traffic;

use std::sync::Mutex;

use libtest_mimic::{Arguments, Failed, Trial};
use loom_core::objects::info::{Hints, Info};
use loom_core::vocabulary::{Caps, EndpointAttributes, EndpointType};
use loom_fabric::ofi::{Local, Ofi, library_version};

type Case = fn(&Info<Ofi<Local>>);

fn cases() -> Vec<(&'static str, Case)> {
    [connecting::cases(), traffic::cases(), ending::cases(), killed::cases(), events::cases(), strangers::cases()]
        .concat()
}

/// What every one of them grants.
const NEEDED: Caps = Caps::MSG.union(Caps::RMA);

fn info(provider: &str) -> Result<Info<Ofi<Local>>, Failed> {
    let hints = Hints {
        caps: NEEDED,
        endpoint_attr: EndpointAttributes::of(EndpointType::MSG),
        provider: Some(provider),
        node: Some("127.0.0.1"),
        listen: true,
        ..Hints::default()
    };
    let missing = || format!("libfabric {} has no connected endpoints of {provider}", library_version());
    let mut infos = Ofi::<Local>::query(&hints).map_err(|error| format!("{}: {error}", missing()))?;
    infos.next().ok_or_else(|| missing().into())
}

fn main() {
    if let Ok(role) = std::env::var(killed::ROLE) {
        return killed::play(&role);
    }
    let arguments = Arguments::from_args();
    println!("libfabric {}", library_version());
    let mut trials = vec![Trial::test("page::differences_are_noticed", || {
        page::differences_are_noticed();
        Ok(())
    })];
    let mut providers = Vec::new();
    for provider in ["tcp", "sockets", "net"] {
        // Libfabric 2 made its own `tcp` of `net`.
        if provider == "net" && library_version().major >= 2 {
            println!("provider net: not in this libfabric");
            continue;
        }
        providers.push(provider);
        for (number, (name, case)) in cases().into_iter().enumerate() {
            trials.push(Trial::test(format!("{provider}::{name}"), move || {
                // Threads of its own, which spin: two domains of it are too much for two cores.
                static SOCKETS: Mutex<()> = Mutex::new(());
                let _alone = (provider == "sockets").then(|| SOCKETS.lock());
                let info = info(provider)?;
                page::watch((number, name), provider, || case(&info));
                Ok(())
            }));
        }
    }
    let whole = arguments.filter.is_none() && arguments.skip.is_empty() && !arguments.list && !arguments.ignored;
    let conclusion = libtest_mimic::run(&arguments, trials);
    if whole && !conclusion.has_failed() {
        let section = format!("{}, connected endpoints", library_version());
        if !page::agrees_with_the_page(&section, &providers) {
            std::process::exit(101);
        }
    }
    conclusion.exit();
}
