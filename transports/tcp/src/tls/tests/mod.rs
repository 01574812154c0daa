//! Endpoints with certificates, over loopback and through a proxy.

#![allow(clippy::result_large_err, reason = "an endpoint comes back")]

mod handshakes;
mod proxy;

use core::net::SocketAddr;
use std::io::{Read, Write};
use std::string::{String, ToString};
use std::time::Instant;
use std::vec;
use std::vec::Vec;

use loom_core::{
    Access, CompletionLevel, Deadline, Errno, Hints, ImmediateData, Info, Mr, Peer, SendOptions, Source, Tag,
};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use self::proxy::Proxy;
use super::{Fault, MARKER, Records, Tls, query_with_tls};
use crate::strangers::sides::{self, LIMIT, Node, SMALL, Stranger};
use crate::{Tcp, TcpAttr};

const AUTHORITY: &[u8] = include_bytes!("../certificates/authority.pem");
const OTHER_AUTHORITY: &[u8] = include_bytes!("../certificates/other_authority.pem");
const NODE: &[u8] = include_bytes!("../certificates/node.pem");
const NAMED: &[u8] = include_bytes!("../certificates/named.pem");
const EXPIRED: &[u8] = include_bytes!("../certificates/expired.pem");
const STRANGER: &[u8] = include_bytes!("../certificates/stranger.pem");

fn tls(authority: &[u8], own: &[u8]) -> Tls {
    let mut authorities = RootCertStore::empty();
    authorities.add(CertificateDer::from_pem_slice(authority).expect("PEM")).expect("an authority");
    let chain = vec![CertificateDer::from_pem_slice(own).expect("PEM")];
    Tls::new(authorities, chain, PrivateKeyDer::from_pem_slice(own).expect("PEM")).expect("a key of the certificate")
}

fn trusted() -> Tls {
    tls(AUTHORITY, NODE)
}

fn info(host: &str, attr: TcpAttr, tls: &Tls) -> Info<Tcp> {
    query_with_tls(&Hints { node: Some(host), listen: true, ..Hints::default() }, attr, tls).expect("loopback")
}

fn node(tls: &Tls) -> Node {
    Node::of(&info("127.0.0.1", SMALL, tls), 8)
}

#[test]
fn memory_of_a_connection_is_as_documented() {
    assert_eq!(size_of::<Records>().div_ceil(1024), 131);
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251 + seed * 7).to_le_bytes()[0]).collect()
}

/// Sends a message with acknowledgement to the peer of an address, and returns what has arrived, or
/// the error with its text. `step` is called between polls.
fn message(
    (from, to): (&Node, &Node),
    peer: Peer,
    bytes: Vec<u8>,
    mut step: impl FnMut(),
) -> Result<Vec<u8>, (Errno, String)> {
    let received = to.endpoint.tagged_recv(Source::Any, Tag(5), vec![0; bytes.len()]).expect("posted");
    let options = SendOptions { level: Some(CompletionLevel::Delivery), ..SendOptions::default() };
    let sent = from.endpoint.tagged_send_with(peer, Tag(5), options, bytes).expect("posted");
    let mut until = Instant::now() + LIMIT;
    while from.cq.has_succeeded(sent).expect("posted").is_none() {
        assert!(!until.passed(), "the operation ends");
        step();
        from.poll();
        to.poll();
    }
    match from.cq.finish(sent, until).expect("over").result() {
        Ok(_) => Ok(to.cq.finish(received, until).expect("received").into_buf()),
        Err(failed) => {
            // Its bytes may have arrived.
            let _ = to.endpoint.cancel(received);
            let _ = to.cq.finish(received, until).expect("over").result();
            Err((failed.errno, from.cq.error_text(&failed).to_string()))
        }
    }
}

fn insert(node: &Node, address: SocketAddr) -> Peer {
    node.av.insert(&address.into()).expect("inserted")
}

fn exchange(from: &Node, to: &Node) {
    let peer = from.knows(to);
    to.knows(from);
    for (seed, len) in [0, 1, 500, 4096, 16_384, 16_385, 100_000, 1 << 20].into_iter().enumerate() {
        let bytes = pattern(len, seed);
        let arrived = message((from, to), peer, bytes.clone(), || {}).expect("delivered");
        assert!(arrived == bytes, "{len} bytes");
    }
}

/// Writes with immediate data, and reads, of several ranges of records.
fn rma(from: &Node, to: &Node) {
    const LEN: usize = 200_000;
    let (peer, access) = (from.knows(to), Access::REMOTE_READ | Access::REMOTE_WRITE);
    let region = Mr::open(&to.domain, vec![0; LEN], access).expect("region");
    let data = ImmediateData(77);
    let written = from.endpoint.write_data(peer, &region.remote(), 0, data, pattern(LEN, 3)).expect("posted");
    let mut until = Instant::now() + LIMIT;
    while !from.is_done(written) {
        assert!(!until.passed(), "the write ends");
        from.poll();
        to.poll();
    }
    from.cq.finish(written, until).expect("over").into_result().expect("written");
    let read = from.endpoint.read(peer, &region.remote(), 0, vec![0; LEN]).expect("posted");
    while !from.is_done(read) {
        assert!(!until.passed(), "the read ends");
        from.poll();
        to.poll();
    }
    let read = from.cq.finish(read, until).expect("over").into_buf();
    assert!(read == pattern(LEN, 3), "the bytes written");
}

#[test]
fn endpoints_with_certificates_exchange_messages_and_memory() {
    for host in ["127.0.0.1", "::1"] {
        let [one, other] = [(), ()].map(|()| Node::of(&info(host, SMALL, &trusted()), 8));
        exchange(&one, &other);
        exchange(&other, &one);
        rma(&one, &other);
        rma(&other, &one);
    }
    // One name for all.
    let name = ServerName::try_from("named.loom.test").expect("a name");
    let [one, other] = [(), ()].map(|()| node(&tls(AUTHORITY, NAMED).peer_name(name.clone())));
    exchange(&one, &other);
}

#[test]
fn keys_change_while_messages_go_on() {
    let [one, other] = [(), ()].map(|()| node(&trusted().records_per_key(3)));
    exchange(&one, &other);
    rma(&one, &other);
    exchange(&other, &one);
}

#[test]
fn peers_without_a_good_certificate_are_refused() {
    let named = ServerName::try_from("other.loom.test").expect("a name");
    let cases = [
        ("another authority", tls(AUTHORITY, STRANGER), Fault::Alert),
        ("trusts another authority", tls(OTHER_AUTHORITY, NODE), Fault::Certificate),
        ("expired", tls(AUTHORITY, EXPIRED), Fault::Alert),
        ("has another name", tls(AUTHORITY, NAMED), Fault::Alert),
        ("expects another name", trusted().peer_name(named), Fault::Certificate),
    ];
    let (server, friend) = (node(&trusted()), node(&trusted()));
    for (why, tls, fault) in cases {
        let client = node(&tls);
        let peer = client.knows(&server);
        let refused = message((&client, &server), peer, vec![1; 8], || {}).expect_err(why);
        assert_eq!((refused.0, Some(refused.1.as_str())), (Errno::EKEYREJECTED, Fault::text(fault.code())), "{why}");
        // In the other direction.
        let peer = server.knows(&client);
        let refused = message((&server, &client), peer, vec![1; 8], || {}).expect_err(why);
        assert_eq!(refused.0, Errno::EKEYREJECTED, "{why}");
        friend.talks_to(&server);
    }
    // Without TLS.
    let plain = Node::open();
    let to = insert(&plain, server.address());
    assert!(message((&plain, &server), to, vec![1; 8], || {}).is_err());
    let to = insert(&server, plain.address());
    let refused = message((&server, &plain), to, vec![1; 8], || {}).expect_err("no TLS");
    assert!(refused.0 == Errno::EKEYREJECTED || refused.0 == Errno::ENOTCONN, "{refused:?}");
    friend.talks_to(&server);
}

#[test]
fn altered_record_ends_its_connection() {
    let (server, friend) = (node(&trusted()), node(&trusted()));
    for at in [3000, 3001, 4000, 9000] {
        let client = node(&trusted());
        let mut proxy = Proxy::to(server.address());
        let to = insert(&client, proxy.address());
        // Control: the proxy forwards.
        let arrived = message((&client, &server), to, pattern(100, 1), || proxy.step()).expect("forwarded");
        assert!(arrived == pattern(100, 1));
        proxy.alter_after(at);
        let failed = message((&client, &server), to, pattern(20_000, 2), || proxy.step()).expect_err("altered");
        assert!(proxy.has_altered());
        assert!([Errno::ENOTCONN, Errno::from_raw(104), Errno::from_raw(32)].contains(&failed.0), "{failed:?}");
        friend.talks_to(&server);
    }
    // The acknowledgement of the server.
    let client = node(&trusted());
    let mut proxy = Proxy::to(server.address());
    let to = insert(&client, proxy.address());
    message((&client, &server), to, pattern(100, 1), || proxy.step()).expect("forwarded");
    proxy.alter_answer_after(10);
    let failed = message((&client, &server), to, pattern(100, 2), || proxy.step()).expect_err("altered");
    assert_eq!((failed.0, Some(failed.1.as_str())), (Errno::EKEYREJECTED, Fault::text(Fault::Record.code())));
    friend.talks_to(&server);
}

/// As without TLS, success means that the kernel has the bytes.
#[test]
fn completed_sends_arrive_although_the_endpoint_closes() {
    for (client, server) in [(node(&trusted()), node(&trusted())), (Node::open(), Node::open())] {
        let to = client.knows(&server);
        server.knows(&client);
        exchange(&client, &server);
        let mut sent = Vec::new();
        while let Ok(key) = client.endpoint.tagged_send(to, Tag(sent.len() as u64), pattern(10_000, sent.len())) {
            sent.push(key);
            client.poll();
        }
        (0..1000).for_each(|_| client.poll());
        let completed = sent.iter().filter(|key| client.is_done(**key)).count();
        assert!(completed > 10 && completed < sent.len(), "{completed} of {}", sent.len());
        drop(client);
        for number in 0..completed {
            let tag = Tag(number as u64);
            let received = server.endpoint.tagged_recv(Source::Any, tag, vec![0; 10_000]).expect("posted");
            let received = server.cq.finish(received, Instant::now() + LIMIT).expect("arrives").into_buf();
            assert!(received == pattern(10_000, number), "message {number} of {completed}");
        }
    }
}

/// The protocol of TLS, and certificates, from a client of rustls.
#[test]
fn handshakes_without_marker_or_certificate_are_refused() {
    let server = node(&trusted());
    let good = trusted().0.client.as_ref().clone();
    let with_protocols = |protocols: &[&[u8]]| {
        let mut config = good.clone();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        config
    };
    let mut anonymous = with_protocols(&[MARKER]);
    anonymous.client_auth_cert_resolver = std::sync::Arc::new(NoCertificate);
    let cases = [
        ("good", with_protocols(&[MARKER]), true),
        ("no protocol", with_protocols(&[]), false),
        ("another protocol", with_protocols(&[b"h2"]), false),
        ("no certificate", anonymous, false),
    ];
    for (why, config, is_good) in cases {
        let name = ServerName::try_from("127.0.0.1").expect("an address");
        let mut client = rustls::ClientConnection::new(std::sync::Arc::new(config), name).expect("a client");
        let mut stranger = Stranger::connect(&server).0;
        let until = Instant::now() + LIMIT;
        let mut has_greeted = false;
        // The answer to a request, or the end.
        let answered = loop {
            assert!(Instant::now() < until, "{why}");
            server.poll();
            if client.wants_write() {
                let _ = client.write_tls(&mut stranger);
            }
            match client.read_tls(&mut stranger) {
                Ok(0) => break false,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => break false,
            }
            if client.process_new_packets().is_err() {
                break false;
            }
            if !client.is_handshaking() && !has_greeted {
                client.writer().write_all(&sides::request(9)).expect("room");
                has_greeted = true;
            }
            if client.reader().read(&mut [0; 40]).is_ok_and(|len| len > 0) {
                break true;
            }
        };
        assert_eq!(answered, is_good, "{why}");
    }
}

#[derive(Debug)]
struct NoCertificate;

impl rustls::client::ResolvesClientCert for NoCertificate {
    fn resolve(
        &self,
        _: &[&[u8]],
        _: &[rustls::SignatureScheme],
    ) -> Option<std::sync::Arc<rustls::sign::CertifiedKey>> {
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

/// Silent strangers take places of strangers.
#[test]
fn strangers_do_not_end_connections_with_certificates() {
    let (server, client) = (node(&trusted()), node(&trusted()));
    // The server does not have its address: the message waits.
    let to = insert(&client, server.address());
    let sent = client.endpoint.tagged_send(to, Tag(1), vec![7; 5000]).expect("posted");
    (0..1000).for_each(|_| [&client, &server].into_iter().for_each(Node::poll));
    let strangers: Vec<_> = (0..20)
        .map(|_| {
            let stranger = Stranger::connect(&server);
            (0..50).for_each(|_| [&client, &server].into_iter().for_each(Node::poll));
            stranger
        })
        .collect();
    let received = server.endpoint.tagged_recv(Source::Any, Tag(1), vec![0; 5000]).expect("posted");
    let received = server.cq.finish(received, Instant::now() + LIMIT).expect("over").into_buf();
    assert!(received == vec![7; 5000]);
    assert_eq!(client.result(sent), Ok(()));
    drop(strangers);
}

#[test]
fn bytes_on_the_wire_are_encrypted() {
    for secure in [true, false] {
        let nodes = [(), ()].map(|()| if secure { node(&trusted()) } else { Node::open() });
        let mut proxy = Proxy::to(nodes[1].address());
        let to = insert(&nodes[0], proxy.address());
        let secret = b"the secret of this message".repeat(10);
        let arrived = message((&nodes[0], &nodes[1]), to, secret.clone(), || proxy.step()).expect("forwarded");
        assert!(arrived == secret);
        let shows = proxy.forwarded().windows(26).any(|bytes| bytes == &secret[..26]);
        assert_eq!(shows, !secure, "with and without TLS");
    }
}

#[test]
fn handshake_and_records_arrive_byte_by_byte() {
    let [client, server] = [(), ()].map(|()| node(&trusted()));
    let mut proxy = Proxy::to(server.address());
    proxy.pieces_of(1);
    let to = insert(&client, proxy.address());
    let arrived = message((&client, &server), to, pattern(300, 1), || proxy.step()).expect("forwarded");
    assert!(arrived == pattern(300, 1));
}

/// Unexpected messages hold up the connection. The kernel has no more bytes when receives come.
#[test]
fn connection_goes_on_after_a_pause() {
    let [client, server] = [(), ()].map(|()| node(&trusted()));
    let to = client.knows(&server);
    server.knows(&client);
    let lens: Vec<usize> = (0..40).map(|number| 500 + number * 400).collect();
    let sent: Vec<_> = lens
        .iter()
        .enumerate()
        .map(|(seed, len)| client.endpoint.tagged_send(to, Tag(5), pattern(*len, seed)).expect("posted"))
        .collect();
    // More than the memory for unexpected messages has room for.
    (0..2000).for_each(|_| {
        client.poll();
        server.poll();
    });
    assert!(sent.iter().all(|key| client.is_done(*key)), "the kernel has all bytes");
    for (seed, len) in lens.into_iter().enumerate() {
        let received = server.endpoint.tagged_recv(Source::Any, Tag(5), vec![0; len]).expect("posted");
        let received = server.cq.finish(received, Instant::now() + LIMIT).expect("over").into_buf();
        assert!(received == pattern(len, seed), "message {seed}");
    }
}

#[test]
fn much_in_both_directions_goes_on() {
    let nodes = [(), ()].map(|()| node(&trusted()));
    let to = [nodes[0].knows(&nodes[1]), nodes[1].knows(&nodes[0])];
    let post = |from: usize, seed: usize| {
        let (node, other) = (&nodes[from], &nodes[1 - from]);
        let received = other.endpoint.tagged_recv(Source::Any, Tag(seed as u64), vec![0; 2 << 20]).expect("posted");
        (node.endpoint.tagged_send(to[from], Tag(seed as u64), pattern(2 << 20, seed)).expect("posted"), received)
    };
    let keys: Vec<_> = (0..8).map(|seed| [post(0, seed), post(1, seed)]).collect();
    let mut until = Instant::now() + LIMIT;
    let is_done = |[(ab, ba_received), (ba, ab_received)]: &[_; 2]| {
        nodes[0].is_done(*ab)
            && nodes[1].is_done(*ba)
            && nodes[1].is_done(*ba_received)
            && nodes[0].is_done(*ab_received)
    };
    while !keys.iter().all(is_done) {
        assert!(!until.passed(), "all messages arrive");
        nodes[0].poll();
        nodes[1].poll();
    }
    for (seed, [(_, at_other), (_, at_first)]) in keys.into_iter().enumerate() {
        assert!(nodes[1].cq.finish(at_other, until).expect("over").into_buf() == pattern(2 << 20, seed));
        assert!(nodes[0].cq.finish(at_first, until).expect("over").into_buf() == pattern(2 << 20, seed));
    }
}

/// The first message of a handshake, in records of one byte, and in one.
#[test]
fn fragments_of_a_handshake_are_answered() {
    let server = node(&trusted());
    let config = trusted().0.client.clone();
    let name = ServerName::try_from("127.0.0.1").expect("an address");
    let mut client = rustls::ClientConnection::new(config, name).expect("a client");
    let mut hello = Vec::new();
    client.write_tls(&mut hello).expect("written");
    let fragments: Vec<u8> = hello[5..].iter().flat_map(|byte| [22, 3, 1, 0, 1, *byte]).collect();
    for bytes in [hello, fragments.clone()] {
        let mut stranger = Stranger::connect(&server);
        stranger.send(&bytes);
        // A handshake record of TLS.
        assert_eq!(stranger.receive(&server, 5)[..3], [22, 3, 3]);
    }
    // In pieces, with an end after each of them.
    for end in (1..fragments.len()).step_by(97) {
        let mut stranger = Stranger::connect(&server);
        for piece in fragments[..end].chunks(50) {
            stranger.send(piece);
            (0..3).for_each(|_| server.poll());
        }
    }
    node(&trusted()).talks_to(&server);
}

/// Byte of a handshake message with the maximum length, in a record of its own.
fn endless(at: u32) -> [u8; 6] {
    let byte = [1, 0, 0xff, 0xff].get(at as usize).copied().unwrap_or(0);
    [22, 3, 1, 0, 1, byte]
}

#[test]
fn strangers_end_with_the_timeout_or_at_once() {
    // A timeout of a minute: only a refusal ends a connection within the limit of the test.
    let patient = Node::of(&info("127.0.0.1", TcpAttr { connect_timeout: 60_000, ..SMALL }, &trusted()), 8);
    let (server, friend) = (node(&trusted()), node(&trusted()));
    for (why, bytes) in [
        ("text", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        ("a request without TLS", sides::request(9)),
        ("a long record", vec![22, 3, 1, 0xff, 0xff, 1, 2, 3]),
        ("a record of data", vec![23, 3, 3, 0, 5, 1, 2, 3, 4, 5]),
        ("an empty handshake", vec![22, 3, 1, 0, 0]),
        ("silence after the beginning of a handshake", vec![22, 3, 1, 1, 0, 1]),
        ("more than a handshake has", (0..20_000).flat_map(|byte: u32| endless(byte)).collect()),
        ("silence", Vec::new()),
    ] {
        let server = if why.starts_with("silence") { &server } else { &patient };
        let mut stranger = Stranger::connect(server);
        stranger.send(&bytes);
        friend.talks_to(server);
        stranger.ends(server, why);
    }
    friend.talks_to(&server);
}
