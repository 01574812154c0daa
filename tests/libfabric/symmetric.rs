//! Peers at consecutive addresses: `Av::insert_symmetric` over libfabric's providers, with open
//! endpoints.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};

use loom_core::av::Av;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::{Binding, Endpoint, Source};
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::Peer;
use loom_core::error::{OpenError, Rejected};
use loom_core::info::{Hints, Info};
use loom_core::vocabulary::{AddressFormat, Caps, EndpointAddr, EndpointAttributes, EndpointType};
use loom_fabric::loom_core;
use loom_fabric::ofi::{Local, Ofi};
use support::library_version;

type T = Ofi<Local>;

const LIMIT: Duration = Duration::from_secs(60);

const SERVICES: u16 = 3;

/// Providers with socket addresses. A provider of only one version is not expected in the other.
fn providers() -> Vec<(&'static str, EndpointType)> {
    let (old, new) = ((1, "net"), (2, "tcp"));
    let either = [old, new].into_iter().filter(|(major, _)| *major == library_version().major).map(|(_, name)| name);
    let connectionless = ["tcp;ofi_rxm", "sockets", "udp;ofi_rxd"].into_iter().chain(either);
    let datagrams = ["udp", "sockets"].map(|name| (name, EndpointType::DGRAM));
    connectionless.map(|name| (name, EndpointType::RDM)).chain(datagrams).collect()
}

fn info(provider: &str, kind: EndpointType, at: SocketAddr) -> Option<Info<T>> {
    let endpoint_attr = EndpointAttributes { kind, ..EndpointAttributes::default() };
    let source = EndpointAddr::from(at);
    let hints = Hints {
        caps: Caps::MSG,
        provider: Some(provider),
        source: Some(&source),
        addr_format: source.format(),
        endpoint_attr,
        ..Hints::default()
    };
    T::query(&hints).ok()?.next()
}

/// Returns the first of consecutive ports, one per service, that are free at each of these
/// addresses at the moment.
fn ports(nodes: &[IpAddr]) -> u16 {
    let is_free = |at: SocketAddr| TcpListener::bind(at).is_ok() && UdpSocket::bind(at).is_ok();
    for _ in 0..100 {
        let probe = UdpSocket::bind((nodes[0], 0)).unwrap();
        let first = probe.local_addr().unwrap().port();
        drop(probe);
        let Some(last) = first.checked_add(SERVICES) else { continue };
        if nodes.iter().all(|node| (first..last).all(|port| is_free((*node, port).into()))) {
            return first;
        }
    }
    panic!("no ports in a row");
}

struct Node<'q, 'd> {
    cq: &'q Cq<'d, T, Vec<u8>>,
    ends: Vec<Endpoint<'d, T, Vec<u8>>>,
    peers: Vec<Peer>,
}

/// Posts until the provider accepts it, and drives all nodes meanwhile: they connect to each other.
fn post(nodes: &[Node<'_, '_>], text: &[u8], post: impl Fn(Vec<u8>) -> Result<OpKey, Rejected<Vec<u8>>>) -> OpKey {
    let deadline = Instant::now() + LIMIT;
    let mut buf = text.to_vec();
    loop {
        match post(buf) {
            Ok(key) => return key,
            Err(rejected) => {
                assert!(rejected.error.is_transient() && Instant::now() < deadline, "{}", rejected.error);
                buf = rejected.value;
                for node in nodes {
                    node.cq.progress().unwrap();
                }
            }
        }
    }
}

/// Waits for two operations on queues that drive each other.
fn finish(provider: &str, ops: [(&Cq<'_, T, Vec<u8>>, OpKey); 2]) -> [Vec<u8>; 2] {
    let deadline = Instant::now() + LIMIT;
    let mut ended = ops.map(|_| None);
    while ended.iter().any(Option::is_none) {
        assert!(Instant::now() < deadline, "{provider}: in time");
        for ((cq, key), ended) in ops.iter().zip(&mut ended).filter(|(_, ended)| ended.is_none()) {
            *ended = cq.wait(*key, Instant::now()).unwrap();
            cq.progress().unwrap();
        }
    }
    ended.map(|done| {
        let (buf, result) = done.unwrap().into_parts();
        result.unwrap();
        buf
    })
}

fn all_reach_all(provider: &str, nodes: &[Node<'_, '_>]) {
    let all = || nodes.iter().flat_map(|node| node.ends.iter().map(move |end| (node, end))).enumerate();
    for (from, (sender, end)) in all() {
        for (to, (receiver, other)) in all().filter(|(to, _)| *to != from) {
            let text = format!("{provider}: {from} to {to}").into_bytes();
            let received = post(nodes, &vec![0; text.len()], |buf| other.recv(Source::Any, buf));
            let sent = post(nodes, &text, |buf| end.send(sender.peers[to], buf));
            let [received, _] = finish(provider, [(receiver.cq, received), (sender.cq, sent)]);
            assert_eq!(received, text);
        }
    }
}

/// Opens endpoints at each port of each node, and exchanges messages. Returns `None` if another
/// program took a port meanwhile.
fn talk(provider: &str, kind: EndpointType, addresses: &[IpAddr]) -> Option<()> {
    let first = SocketAddr::from((addresses[0], ports(addresses)));
    let of = |node: IpAddr| (0..SERVICES).map(move |service| SocketAddr::from((node, first.port() + service)));
    let all: Vec<SocketAddr> = addresses.iter().flat_map(|node| of(*node)).collect();
    let infos: Vec<Vec<_>> =
        addresses.iter().map(|node| of(*node).map(|at| info(provider, kind, at).unwrap()).collect()).collect();
    // Some providers have a domain for each address.
    let domains: Vec<_> = infos.iter().map(|infos| Domain::open(&infos[0]).unwrap()).collect();
    let vectors: Vec<_> = domains.iter().map(|domain| Av::open(domain, 16).unwrap()).collect();
    let queues: Vec<_> =
        domains.iter().map(|domain| Cq::<T, Vec<u8>>::open(domain, CqAttr::new(64)).unwrap()).collect();
    let mut nodes = Vec::new();
    for ((cq, av), infos) in queues.iter().zip(&vectors).zip(&infos) {
        let mut node = Node { cq, ends: Vec::new(), peers: Vec::new() };
        for info in infos {
            let end = cq.endpoint(Binding::to(av).info(info.clone()));
            if let Err(OpenError::Errno(errno)) = end {
                println!("{provider}: {errno}, once more");
                return None;
            }
            node.ends.push(end.unwrap());
        }
        let count = u32::try_from(addresses.len()).unwrap();
        let inserted = av.insert_symmetric(first, count, SERVICES, |peer| node.peers.push(peer.unwrap()));
        assert_eq!(inserted, Ok(all.len()), "{provider}");
        // A second insertion returns the same peers, as does one of a part.
        let mut again = Vec::new();
        assert_eq!(av.insert_symmetric(first, count, SERVICES, |peer| again.push(peer.unwrap())), Ok(all.len()));
        assert_eq!(again, node.peers, "{provider}");
        let mut second = Vec::new();
        let at = SocketAddr::new(first.ip(), first.port() + 1);
        assert_eq!(av.insert_symmetric(at, 1, 2, |peer| second.push(peer.unwrap())), Ok(2));
        assert_eq!(second, node.peers[1..3], "{provider}");
        nodes.push(node);
    }
    // All services of a node come before the next node.
    for (end, at) in nodes.iter().flat_map(|node| &node.ends).zip(&all) {
        assert_eq!(SocketAddr::try_from(&end.address().unwrap()), Ok(*at), "{provider}");
    }
    for (peer, at) in nodes[0].peers.iter().zip(&all) {
        let address = vectors[0].address(*peer).unwrap().unwrap();
        assert_eq!(SocketAddr::try_from(&address), Ok(*at), "{provider}");
        assert_eq!(vectors[0].find(&address), Some(*peer), "{provider}");
    }
    all_reach_all(provider, &nodes);
    Some(())
}

fn on_each(nodes: &[IpAddr]) {
    for (provider, kind) in providers() {
        let talked = (0..10).any(|_| talk(provider, kind, nodes).is_some());
        assert!(talked, "{provider} did not open endpoints");
    }
}

#[test]
fn services_of_two_nodes_reach_each_other() {
    // All of 127.0.0.0/8 is this host.
    on_each(&[Ipv4Addr::new(127, 0, 0, 1), Ipv4Addr::new(127, 0, 0, 2)].map(IpAddr::V4));
}

#[test]
fn services_of_a_node_reach_each_other_over_the_newer_protocol() {
    let node = IpAddr::V6(Ipv6Addr::LOCALHOST);
    if UdpSocket::bind((node, 0)).is_err() {
        println!("skipped: there is no IPv6 here");
        return;
    }
    for (provider, kind) in providers() {
        let at = SocketAddr::from((node, 1));
        if info(provider, kind, at).is_none_or(|info| info.attributes().addr_format != AddressFormat::SOCKADDR_IN6) {
            println!("{provider}: no IPv6");
            continue;
        }
        let talked = (0..10).any(|_| talk(provider, kind, &[node]).is_some());
        assert!(talked, "{provider} did not open endpoints");
    }
}
