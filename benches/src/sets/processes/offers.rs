//! Offers of transports on this host, and ends over them.

use loom_core::domain::Domain;
use loom_core::info::{Hints, Info};
use loom_core::transport::Transport;
use loom_core::vocabulary::{Caps, EndpointAttributes, EndpointType};
use loom_fabric::ofi::{Local, Ofi};
use loom_tcp::{Tcp, TcpAttr};

use crate::sets::peers::end::{Exchange, Play};
use crate::sets::peers::fabric::{Loom, Sending};

/// Capabilities that the ends of a play need.
pub(super) fn caps(play: Play) -> Caps {
    match play {
        Play::Write => Caps::MSG | Caps::RMA,
        _ => Caps::TAGGED,
    }
}

/// Offer of a provider of libfabric on this host.
pub(in crate::sets) fn provider(name: &str, caps: Caps) -> Info<Ofi<Local>> {
    let hints = Hints { caps, ..Hints::local(name) };
    Ofi::<Local>::query(&hints).expect("libfabric").next().expect("libfabric has the provider")
}

/// Offer of loom's transport over sockets.
pub(in crate::sets) fn tcp() -> Info<Tcp> {
    loom_tcp::query(&Hints::default(), TcpAttr { endpoints: 1, ..TcpAttr::DEFAULT }).expect("loopback")
}

/// Offer of loom's transport over memory that processes share.
pub(super) fn shared() -> Info<Tcp> {
    let attr = TcpAttr { endpoints: 1, shared_memory: 1 << 18, ..TcpAttr::DEFAULT };
    loom_tcp::query(&Hints::default(), attr).expect("loopback")
}

/// Offer of a provider of libfabric for endpoints with connections.
pub(super) fn provider_connections(name: &str) -> Info<Ofi<Local>> {
    Ofi::<Local>::query(&connections(Some(name))).expect("libfabric").next().expect("libfabric has the provider")
}

/// Offer of loom's transport over sockets for endpoints with connections.
pub(super) fn tcp_connections() -> Info<Tcp> {
    loom_tcp::query(&connections(None), TcpAttr { endpoints: 2, ..TcpAttr::DEFAULT }).expect("loopback")
}

fn connections(provider: Option<&str>) -> Hints<'_> {
    let endpoint_attr = EndpointAttributes::of(EndpointType::MSG);
    Hints { caps: Caps::MSG, endpoint_attr, provider, node: Some("127.0.0.1"), listen: true, ..Hints::default() }
}

/// Loom over an offer, between the threads of one process or of two.
pub(in crate::sets) fn open_info<T: Transport + 'static>(
    info: &Info<T>,
    play: Play,
    len: usize,
    exchange: Exchange<'_>,
) -> Loom<T> {
    let domain = Domain::open(info).expect("domain");
    let sending = Sending::of(play, len, info.attributes().tx.inject_size);
    Loom::open(&domain, (play, sending), len, exchange)
}
