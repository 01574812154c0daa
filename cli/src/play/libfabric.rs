//! Each thread opens its own domain, so that two threads behave like two processes.

use std::env;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use loom_core::domain::Domain;
use loom_core::info::{Hints, Info};
use loom_core::transport::Transport;
use loom_core::vocabulary::{
    AddressFormat, Caps, DomainAttributes, EndpointAttributes, EndpointType, Progress, Version,
};
use loom_fabric::ofi::{Library, Local, Ofi, QueryError};

use crate::failure::Failure;
use crate::play::NO_ADDRESS;
use crate::play::bootstrap::{Connection, Until};
use crate::play::link::Link;
use crate::play::open;
use crate::play::session::Session;
use crate::play::setup::{Measure, Op, Place, Report, Setup};
use crate::text::harmless;

type Fabric = Ofi<Local>;

/// Providers for two sides on one host, and for a network without faster providers.
const USUAL: [&str; 2] = ["shm", "tcp;ofi_rxm"];

const DEFAULT_NODE: &str = "127.0.0.1";

pub(super) fn run(setup: &Setup, interrupted: &Arc<AtomicBool>, report: &mut dyn Report) -> Result<(), Failure> {
    let (name, info) = find(setup)?;
    play(&name, &info, setup, interrupted, report)
}

pub(super) fn play<T: Transport + 'static>(
    name: &str,
    info: &Info<T>,
    setup: &Setup,
    interrupted: &Arc<AtomicBool>,
    report: &mut dyn Report,
) -> Result<(), Failure>
where
    T::Info: Sync,
{
    let longest = info.attributes().endpoint.max_msg_size;
    if let Some(size) = setup.sizes.iter().find(|size| **size > longest) {
        let provider = info.provider();
        return Err(Failure::Unavailable(format!("{provider} moves up to {longest} bytes at once, not {size}")));
    }
    let open = || Domain::open(info).map_err(Failure::when("opening the domain"));
    match &setup.place {
        Place::OneThread => {
            report.begin(name, info.provider(), &setup.place)?;
            open::play_both(&open()?, setup, interrupted, report)
        }
        Place::TwoThreads => {
            report.begin(name, info.provider(), &setup.place)?;
            open::in_two_threads(
                setup,
                interrupted,
                |session| open::play_one(&open()?, setup, session, Some(report)),
                |session| open::play_one(&open()?, setup, session, None),
            )
        }
        Place::Listen(_) | Place::Connect(_) => {
            let domain = open()?;
            let session = meet(setup, interrupted, &terms(setup, info.provider()))?;
            // The side that connected is the initiator: it measures and reports.
            if matches!(setup.place, Place::Connect(_)) {
                report.begin(name, info.provider(), &setup.place)?;
                return open::play_one(&domain, setup, session, Some(report));
            }
            open::play_one(&domain, setup, session, None)?;
            end_listening()
        }
    }
}

pub(crate) fn end_listening() -> Result<(), Failure> {
    tell("done: what came was verified or answered")
}

/// Connects two processes whose options, `mine`, are equal.
pub(crate) fn meet(setup: &Setup, interrupted: &Arc<AtomicBool>, mine: &str) -> Result<Session, Failure> {
    let until = Until { timeout: setup.timeout, interrupted };
    let connection = match &setup.place {
        Place::Connect(to) => Connection::connect(to, until)?,
        Place::Listen(at) => Connection::listen(at, until, |at| tell(&format!("listening on {at}")))?,
        Place::OneThread | Place::TwoThreads => return Err(Failure::Usage("there is no other process".into())),
    };
    let mut session = Session::new(Link::to_process(connection), setup.timeout, interrupted);
    session.guard();
    session.begin("agreeing with the other process".into());
    let theirs = session.swap(mine.as_bytes(), || Ok(false))?;
    if theirs != mine.as_bytes() {
        let theirs = harmless(&String::from_utf8_lossy(&theirs));
        return Err(Failure::Unavailable(format!(
            "the two sides were started with different options\n    here:  {mine}\n    there: {theirs}"
        )));
    }
    Ok(session)
}

/// Options on which both processes must agree.
fn terms(setup: &Setup, provider: &str) -> String {
    let ops: Vec<_> = setup.ops.iter().map(|op| op.name()).collect();
    let sizes: Vec<_> = setup.sizes.iter().map(ToString::to_string).collect();
    let iterations = setup.iterations.map_or("auto".to_owned(), |count| count.to_string());
    let measure = match setup.measure {
        Measure::Trips => "trips",
        Measure::TripsAndFlow => "trips and flow",
    };
    format!("provider {provider}, op {}, {measure}, iterations {iterations}, sizes {}", ops.join(","), sizes.join(","))
}

pub(super) fn usual(one_process: bool) -> Result<Vec<&'static str>, Failure> {
    let mut here = Vec::new();
    if one_process && let Err(error) = Library::get() {
        tell(&error.to_string())?;
        return Ok(here);
    }
    for provider in USUAL {
        let hints = Hints {
            caps: Op::Tagged.caps(),
            provider: Some(provider),
            endpoint_attr: EndpointAttributes::of(EndpointType::RDM),
            ..Hints::default()
        };
        if query(&hints)?.is_some_and(|info| !(one_process && crashes_in_one_process(&info))) {
            here.push(provider);
        }
    }
    if here.is_empty() && !one_process {
        return Err(Failure::Unavailable(format!(
            "libfabric's `shm` and `tcp;ofi_rxm` are not here: between two processes, name another with --provider{}",
            left_out()
        )));
    }
    Ok(here)
}

/// libfabric 2.5.1: an answer of more than 192 bytes makes the other side follow a null pointer,
/// because `smr_map_to_region` returns before `smr_map_to_endpoint`.
fn crashes_in_one_process(info: &Info<Fabric>) -> bool {
    info.provider() == "shm" && library_version().is_ok_and(|version| version >= Version::new(2, 0))
}

fn library_version() -> Result<Version, Failure> {
    Library::get().map(Library::version).map_err(Failure::when("looking for libfabric"))
}

fn tell(text: &str) -> Result<(), Failure> {
    Ok(writeln!(io::stderr(), "{text}")?)
}

pub(crate) fn find(setup: &Setup) -> Result<(String, Info<Fabric>), Failure> {
    let version = library_version()?;
    let info = offer(setup)?;
    if crashes_in_one_process(&info) && setup.place.is_one_process() {
        return Err(Failure::Unavailable(format!(
            "shm of libfabric {version} crashes when two endpoints of one process answer each other; use two \
             processes: --listen and --connect, or `loom bench --processes 2`",
        )));
    }
    Ok((format!("libfabric {version}"), info))
}

fn offer(setup: &Setup) -> Result<Info<Fabric>, Failure> {
    let hints = Hints {
        caps: setup.caps(),
        provider: setup.provider.as_deref(),
        endpoint_attr: EndpointAttributes::of(EndpointType::RDM),
        // These threads poll. Threads of a provider would compete with them for the processors.
        domain_attr: DomainAttributes {
            control_progress: Progress::MANUAL,
            data_progress: Progress::MANUAL,
            ..DomainAttributes::default()
        },
        node: setup.node.as_deref(),
        listen: setup.node.is_some(),
        ..Hints::default()
    };
    let info = match query(&hints)? {
        Some(info) => info,
        None => return Err(why_not(&hints)?),
    };
    // The loopback address is safer than the machine's first interface.
    if setup.node.is_none() && is_socket(info.attributes().addr_format) {
        let here = Hints { provider: Some(info.provider()), node: Some(DEFAULT_NODE), listen: true, ..hints };
        if let Some(info) = query(&here)? {
            return Ok(info);
        }
    }
    Ok(info)
}

fn is_socket(format: AddressFormat) -> bool {
    matches!(format, AddressFormat::SOCKADDR | AddressFormat::SOCKADDR_IN | AddressFormat::SOCKADDR_IN6)
}

fn query(hints: &Hints<'_>) -> Result<Option<Info<Fabric>>, Failure> {
    match Fabric::query(hints) {
        Ok(mut infos) => Ok(infos.next()),
        Err(error) if error.is_no_match() => Ok(None),
        Err(QueryError::ChosenName) => Err(Failure::Unavailable(NO_ADDRESS.into())),
        Err(error) => Err(Failure::doing("asking libfabric what there is", error)),
    }
}

/// Queries with fewer requirements.
fn why_not(hints: &Hints<'_>) -> Result<Failure, Failure> {
    let Some(provider) = hints.provider else {
        return Ok(Failure::Unavailable(format!("no provider of this machine grants {}{}", hints.caps, left_out())));
    };
    let less = Hints { caps: Caps::empty(), ..hints.clone() };
    if let Some(info) = query(&less)? {
        let missing = hints.caps.difference(info.caps());
        let missing = if missing.is_empty() { hints.caps } else { missing };
        return Ok(Failure::Unavailable(format!("{provider} does not grant {missing}")));
    }
    let anything = Hints { provider: Some(provider), ..Hints::default() };
    if let Some(info) = query(&anything)? {
        let kind = info.attributes().endpoint.kind;
        return Ok(Failure::Unavailable(match hints.node {
            Some(node) if kind == EndpointType::RDM => {
                format!("--node: {provider} has no endpoints at {node}; `loom info` has the addresses of this machine")
            }
            _ => format!(
                "{provider} offers endpoints of type {kind}, and {} is required: over TCP, `tcp;ofi_rxm` and `net` have it",
                EndpointType::RDM
            ),
        }));
    }
    let all = Hints { endpoint_attr: EndpointAttributes::of(EndpointType::RDM), ..Hints::default() };
    Ok(Failure::Unavailable(no_such(provider, &all)))
}

/// Text for an unknown provider, with the names that the hints match.
pub(crate) fn no_such(provider: &str, all: &Hints<'_>) -> String {
    let mut names = Vec::new();
    for info in Fabric::query(all).into_iter().flatten() {
        if !names.iter().any(|name| name == info.provider()) {
            names.push(info.provider().to_owned());
        }
    }
    if names.iter().any(|name| name == provider) {
        return format!("libfabric lists `{provider}`, and offers nothing by that name");
    }
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    format!("libfabric has no provider `{provider}` here; it has {names}{}", left_out())
}

fn left_out() -> String {
    let Some(value) = env::var_os("FI_PROVIDER") else { return String::new() };
    let value = harmless(&value.to_string_lossy());
    // After `^`, libfabric reads the names of excluded providers.
    let which = value.strip_prefix('^').unwrap_or("all other providers");
    format!(". FI_PROVIDER={value} leaves out {which}")
}
