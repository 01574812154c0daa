//! Interfaces by name, in a network namespace that the test makes: two ends of a cable, with
//! several addresses.

use core::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::net::TcpListener;
use std::process::Command;
use std::string::String;
use std::time::Instant;
use std::vec::Vec;
use std::{println, vec};

use loom_core::vocabulary::AddressFormat;
use loom_core::{Deadline, EndpointAddr, Hints, Info, OpenError};

use super::connects;
use super::sides::{LIMIT, Node, SMALL};
use crate::{Tcp, query};

/// Environment variable of the process in the namespace.
const INSIDE: &str = "LOOM_TCP_NAMESPACE";
/// Longest name, and that of the other end.
const NAME: &str = "loom-cable-name";
const OTHER: &str = "loom-cable-nama";
const SET_UP: &str = "
ip link set lo up && ip link add loom-cable-name type veth peer name loom-cable-nama
for end in name nama; do ip link set loom-cable-$end addrgenmode none; done
ip addr add 10.9.0.1/24 dev loom-cable-name && ip addr add 10.9.0.2/24 dev loom-cable-name
ip addr add fe80::1/64 dev loom-cable-name nodad && ip addr add fd00:9::1/64 dev loom-cable-name nodad
ip addr add 10.9.1.1 peer 10.9.1.9 dev loom-cable-nama && ip addr add fe80::2/64 dev loom-cable-nama nodad
ip link add loom-bare type bridge
ip link set loom-cable-name up && ip link set loom-cable-nama up
";

/// Runs a test in a namespace. Returns `true` there.
fn is_inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        let made = Command::new("sh").args(["-e", "-c", SET_UP]).status().expect("a shell");
        assert!(made.success(), "{made}");
        return true;
    }
    let namespace = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "--"]);
        command
    };
    let probe = namespace().args(["ip", "link", "add", "loom-probe", "type", "veth"]).output();
    if !probe.as_ref().is_ok_and(|probe| probe.status.success()) {
        println!("SKIPPED: no network namespace, `ip` or cable: {probe:?}");
        return false;
    }
    let program = std::env::current_exe().expect("this program");
    let output = namespace().arg(program).args(["--exact", test, "--nocapture"]).env(INSIDE, "1").output();
    let output = output.expect("this program");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
    false
}

fn on(interface: &str) -> Hints<'_> {
    Hints { domain: Some(interface), ..Hints::default() }
}

fn ask(hints: &Hints<'_>) -> Result<Info<Tcp>, OpenError> {
    query(hints, SMALL)
}

fn address(info: &Info<Tcp>) -> SocketAddr {
    info.raw().address
}

fn index(interface: &str) -> u32 {
    crate::interface::index_of(interface).expect("the interface exists")
}

#[test]
fn interfaces_are_chosen_by_name() {
    if !is_inside("strangers::interfaces::interfaces_are_chosen_by_name") {
        return;
    }
    let v4 = |address: &str| address.parse::<SocketAddr>().expect("an address");
    let v6 = |ip: &str, scope| SocketAddr::from(SocketAddrV6::new(ip.parse().expect("an address"), 0, 0, scope));
    let ipv6 = AddressFormat::SOCKADDR_IN6;
    let given = EndpointAddr::from(v4("10.9.0.2:7471"));
    let local = EndpointAddr::from(v6("fe80::1", 0));
    let found = [
        (on(NAME), v4("10.9.0.1:0")),
        // The other end has another address.
        (on(OTHER), v4("10.9.1.1:0")),
        (on("lo"), v4("127.0.0.1:0")),
        (Hints { addr_format: ipv6, ..on(NAME) }, v6("fd00:9::1", 0)),
        (Hints { addr_format: ipv6, ..on(OTHER) }, v6("fe80::2", index(OTHER))),
        (Hints { addr_format: ipv6, ..on("lo") }, v6("::1", 0)),
        (Hints { source: Some(&given), ..on(NAME) }, v4("10.9.0.2:7471")),
        (Hints { source: Some(&local), ..on(NAME) }, v6("fe80::1", index(NAME))),
        (Hints { node: Some("10.9.0.2"), listen: true, ..on(NAME) }, v4("10.9.0.2:0")),
        (Hints { service: Some("7471"), listen: true, ..on(NAME) }, v4("10.9.0.1:7471")),
        (Hints { node: Some("fd00:9::7"), service: Some("1"), ..on(NAME) }, v6("fd00:9::1", 0)),
        // Without an interface, the scope names one.
        (Hints { node: Some("fe80::1%loom-cable-name"), listen: true, ..Hints::default() }, v6("fe80::1", index(NAME))),
        (Hints { node: Some("fe80::9%loom-cable-nama"), ..Hints::default() }, v6("fe80::2", index(OTHER))),
    ];
    for (hints, expected) in found {
        let info = ask(&hints).unwrap_or_else(|error| panic!("{hints:?}: {error}"));
        assert_eq!(address(&info), expected, "{hints:?}");
        assert_eq!(info.domain(), hints.domain.unwrap_or("sockets"));
    }
    let refused = [
        (on("loom-cable"), OpenError::NotOffered("domain")),
        (on("loom-cable-name-of-16-or-more"), OpenError::NotOffered("domain")),
        (on("lo:1"), OpenError::NotOffered("domain")),
        (on("lo\0"), OpenError::NotOffered("domain")),
        (on(""), OpenError::NotOffered("domain")),
        (on("loom-bare"), OpenError::NoAddress),
        (Hints { addr_format: ipv6, source: Some(&given), ..on(NAME) }, OpenError::NotOffered("addr_format")),
        (Hints { source: Some(&given), ..on(OTHER) }, OpenError::NoAddress),
        (Hints { node: Some("127.0.0.1"), listen: true, ..on(NAME) }, OpenError::NoAddress),
        (Hints { node: Some("fe80::1%loom-cable-nama"), listen: true, ..on(NAME) }, OpenError::NoAddress),
        (Hints { service: Some("http"), listen: true, ..on(NAME) }, OpenError::NotOffered("service")),
        (Hints { source: Some(&local), ..Hints::default() }, OpenError::NotOffered("source")),
        (Hints { node: Some("fe80::1%loom-none"), listen: true, ..Hints::default() }, OpenError::NotOffered("node")),
    ];
    for (hints, expected) in refused {
        assert_eq!(ask(&hints).expect_err("refused"), expected, "{hints:?}");
    }

    // A peer sees the address of the interface, not that of the route.
    let listener = TcpListener::bind("10.9.0.1:0").expect("the address exists");
    let peer = EndpointAddr::from(listener.local_addr().expect("bound"));
    for (interface, own) in [("lo", "127.0.0.1"), (OTHER, "10.9.1.1"), (NAME, "10.9.0.1")] {
        let node = Node::of(&ask(&on(interface)).expect("an address"), 8);
        let to = node.av.insert(&peer).expect("inserted");
        let _ = node.endpoint.send(to, vec![1; 8]).expect("posted");
        let (_, from) = listener.accept().expect("connected");
        assert_eq!(from.ip(), own.parse::<IpAddr>().expect("an address"));
    }

    // Control: link-local addresses require a scope.
    let (node, other) = (local_node(NAME), local_node(OTHER));
    assert!(std::net::TcpStream::connect((Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2), 9)).is_err());
    let without = |node: &Node| {
        let SocketAddr::V6(address) = node.address() else { panic!("IPv6") };
        // That of another host, and another label.
        EndpointAddr::from(SocketAddr::from(SocketAddrV6::new(*address.ip(), address.port(), 5, 77)))
    };
    let of_other = node.av.insert(&without(&other)).expect("inserted");
    let of_node = other.av.insert(&without(&node)).expect("inserted");
    for (node, other, to, from) in [(&node, &other, of_other, of_node), (&other, &node, of_node, of_other)] {
        let bytes: Vec<u8> = (0..200).collect();
        let received = other.endpoint.recv(from, vec![0; 200]).expect("posted");
        let sent = node.endpoint.send(to, bytes.clone()).expect("posted");
        let mut until = Instant::now() + LIMIT;
        while !other.is_done(received) || !node.is_done(sent) {
            assert!(!until.passed(), "the peers reach each other");
            node.poll();
            other.poll();
        }
        assert_eq!(other.cq.finish(received, until).expect("done").into_buf(), bytes);
        assert_eq!(node.result(sent), Ok(()));
    }

    // Requests for connections have the info of their listener.
    connects(&on(OTHER));
    connects(&Hints { addr_format: ipv6, ..on(OTHER) });
}

fn local_node(interface: &str) -> Node {
    let host = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, if interface == NAME { 1 } else { 2 });
    let source = EndpointAddr::from(SocketAddr::new(host.into(), 0));
    Node::of(&ask(&Hints { source: Some(&source), ..on(interface) }).expect("an address"), 8)
}
