//! Opens a side: an endpoint with its peer, or a connected one.

use std::fmt;
use std::time::Instant;

use loom_core::av::Av;
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::Binding;
use loom_core::eq::{EqAttr, EqEvent, EventQueue};
use loom_core::info::{Hints, Info};
use loom_core::mr::Mr;
use loom_core::vocabulary::{Access, Caps, Counted, EndpointAddr, EndpointAttributes, EndpointOption, EndpointType};

use crate::hosts::line::Line;
use crate::hosts::link::{Halves, Link, T};
use crate::hosts::posting::LIMIT;
use crate::hosts::side::{LONG, Part, Side};

/// Ways between the two sides.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Peers,
    Connection,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Peers => "peers",
            Way::Connection => "connections",
        })
    }
}

/// Capabilities that every way grants. Others are requested where they are granted.
const NEEDED: Caps = Caps::MSG.union(Caps::RMA);
const WANTED: [Caps; 3] = [Caps::TAGGED, Caps::MULTI_RECV, Caps::DIRECTED_RECV];

/// Maximum length of a message for multi-receives.
pub(crate) const LONGEST_PIECE: usize = 100;

/// Info for an endpoint at an address of this host.
pub(crate) fn info(way: Way, provider: &str, address: &str) -> Option<Info<T>> {
    let node = (provider != "shm").then_some(address);
    offer(way, &Hints { provider: Some(provider), node, listen: node.is_some(), ..Hints::default() })
}

/// Info for a connection to a server.
fn client_info(provider: &str, server: &EndpointAddr) -> Option<Info<T>> {
    offer(Way::Connection, &Hints { provider: Some(provider), destination: Some(server), ..Hints::default() })
}

/// Returns an offer with as many of the wanted capabilities as possible.
fn offer(way: Way, hints: &Hints<'_>) -> Option<Info<T>> {
    let kind = if way == Way::Peers { EndpointType::RDM } else { EndpointType::MSG };
    let with = |caps| {
        let hints = Hints { caps, endpoint_attr: EndpointAttributes::of(kind), ..hints.clone() };
        T::query(&hints).ok()?.next()
    };
    let caps =
        WANTED.into_iter().fold(NEEDED, |caps, more| if with(caps | more).is_some() { caps | more } else { caps });
    with(caps)
}

/// Opens a side, plays, and closes it.
pub(crate) fn with_side(part: Part, way: Way, address: &str, provider: &str, play: impl FnOnce(&mut Side<'_, '_>)) {
    let mut line = Line::of_standard_input();
    let own = info(way, provider, address).expect("the provider");
    // The server's address determines the client's info, and so its objects.
    let server = (way == Way::Connection && part == Part::Sends).then(|| line.hear(|| {}).parse().expect("an address"));
    let info = server.as_ref().map_or(Some(own), |server| client_info(provider, server)).expect("a client's endpoint");
    let domain = Domain::open(&info).expect("domain");
    let counters = [Counted::SEND, Counted::RECV]
        .map(|counted| Some((counted, Counter::open(&domain, CounterAttr::default()).ok()?)));
    let eq = (way == Way::Connection).then(|| EventQueue::open(&domain, EqAttr::default()).expect("event queue"));
    let av = (way == Way::Peers).then(|| Av::open(&domain, 8).expect("address vector"));
    let region = Mr::open(&domain, vec![0; LONG], Access::REMOTE_READ | Access::REMOTE_WRITE).expect("a region");
    let cq = Cq::open(&domain, CqAttr { claims: true, ..CqAttr::new(64) }).expect("queue");
    let link = match (&av, &eq) {
        (Some(av), _) => knowing(av, &cq, domain.info(), &counters, &mut line),
        (_, Some(eq)) => connected(eq, &cq, domain.info(), &counters, server.as_ref(), &mut line),
        _ => unreachable!("one of the two"),
    };
    let [sent, received] = &counters;
    let counter = if part == Part::Sends { sent } else { received }.as_ref().map(|(_, counter)| counter);
    play(&mut Side::new(part, link, domain.info(), &cq, &region, counter, line));
}

/// Optional counters of an endpoint's operations.
type Counters<'d> = [Option<(Counted, Counter<'d, T>)>; 2];

fn grants_multi_recv(info: &Info<T>) -> bool {
    info.caps().contains(Caps::MULTI_RECV) && info.raw().is_tested()
}

fn knowing<'d>(
    av: &Av<'d, T>,
    cq: &Cq<'d, T, Halves>,
    info: &Info<T>,
    counters: &Counters<'d>,
    line: &mut Line,
) -> Link<'d> {
    let mut bind = Binding::to(av);
    for (counted, counter) in counters.iter().flatten() {
        bind = bind.counter(*counted, counter);
    }
    if grants_multi_recv(info) {
        bind = bind.option(EndpointOption::MIN_MULTI_RECV, LONGEST_PIECE);
    }
    let endpoint = cq.endpoint(bind).expect("endpoint");
    let other = line.exchange(&endpoint.address().expect("its address").to_string());
    let other: EndpointAddr = other.parse().expect("an address");
    Link::Peer(endpoint, av.insert(&other).expect("the peer"))
}

fn connected<'d>(
    eq: &EventQueue<'d, T>,
    cq: &Cq<'d, T, Halves>,
    info: &Info<T>,
    counters: &Counters<'d>,
    server: Option<&EndpointAddr>,
    line: &mut Line,
) -> Link<'d> {
    let mut binding = Binding::to(eq);
    for (counted, counter) in counters.iter().flatten() {
        binding = binding.counter(*counted, counter);
    }
    if grants_multi_recv(info) {
        binding = binding.option(EndpointOption::MIN_MULTI_RECV, LONGEST_PIECE);
    }
    let connecting = if let Some(server) = server {
        let endpoint = cq.msg_endpoint(binding, info).expect("a client's endpoint");
        endpoint.connect(server, &[]).expect("asks for a connection")
    } else {
        let listener = eq.listen(info).expect("listens");
        line.say(&listener.address().expect("its address").to_string());
        let EqEvent::Request(request) = next(eq, cq) else { panic!("a request") };
        request.endpoint(cq, binding).expect("a server's endpoint").accept(&[]).expect("accepts")
    };
    let EqEvent::Connected(event) = next(eq, cq) else { panic!("connected") };
    Link::Connection(connecting.established(&event).expect("about this one"))
}

fn next<'d>(eq: &EventQueue<'d, T>, cq: &Cq<'d, T, Halves>) -> EqEvent<'d, T> {
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        if let Some(event) = eq.poll().expect("the event queue works") {
            return event;
        }
        cq.progress().expect("the queue works");
    }
    panic!("no event within {LIMIT:?}");
}
