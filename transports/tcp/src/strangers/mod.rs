//! Peers that do not keep the protocol, over raw sockets: they lose their connection, and other
//! peers go on.

#![allow(clippy::cast_possible_truncation, reason = "numbers below a hundred")]
#![allow(clippy::result_large_err, reason = "an endpoint comes back")]

mod claims;
mod interfaces;
mod killed;
mod limits;
mod rendezvous;
mod shared;
pub(crate) mod sides;
mod sleeping;

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::format;
use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Instant;
use std::vec;
use std::vec::Vec;

use loom_core::vocabulary::MemoryKey;
use loom_core::{
    Access, CompletionLevel, Cq, Deadline, Domain, EndpointAttributes, EndpointType, EqAttr, EqEvent, Errno,
    EventQueue, Hints, Mr, MsgEndpoint, OpenError, PostError, RemoteRegion, SendOptions, Source, Tag, ThePeer,
};

use crate::wire::{ConnectKind, FrameFlags, Operation, RdmData};
use crate::{Subnet, Tcp, TcpAttr, query};

use self::sides::{LIMIT, Node, SMALL, Stranger, connect_message, frame, one, request, tagged};

#[test]
fn nonsense_ends_its_connection_alone() {
    let (node, other) = (Node::open(), Node::open());
    let none = FrameFlags::empty();
    let greetings: [(&str, Vec<u8>); 5] = [
        ("another version", vec![4; 40]),
        ("no data", connect_message(ConnectKind::Request, &[])),
        ("a response", connect_message(ConnectKind::Response, &[0; 8])),
        ("a rejection", connect_message(ConnectKind::Reject, &[0; 8])),
        ("text", b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n".to_vec()),
    ];
    for (why, bytes) in greetings {
        let mut stranger = Stranger::connect(&node);
        stranger.send(&bytes);
        stranger.ends(&node, why);
    }
    let frames = [
        ("acknowledgement", frame(Operation::Acknowledgement, none, &[])),
        ("read response", frame(Operation::ReadResponse, none, &[1; 8])),
        ("clear to send", frame(Operation::ClearToSend { id: 1 }, none, &[])),
        ("rendezvous data", frame(Operation::Rendezvous { id: 1 }, none, &[1; 8])),
        ("unknown operation", vec![3, 9, 0, 0, 0, 0, 16, 0, 16, 0, 0, 0, 0, 0, 0, 0]),
        ("short header", vec![3, 0, 0, 0, 0, 0, 15, 0, 16, 0, 0, 0, 0, 0, 0, 0]),
        ("short frame", vec![3, 0, 0, 0, 0, 0, 16, 0, 15, 0, 0, 0, 0, 0, 0, 0]),
        ("five ranges", vec![3, 4, 0, 0, 0, 5, 120, 0, 120, 0, 0, 0, 0, 0, 0, 0]),
        ("a connect message", request(9)),
    ];
    for (why, bytes) in frames {
        let mut stranger = Stranger::greet(&node, 9);
        stranger.send(&bytes);
        stranger.ends(&node, why);
    }
    node.talks_to(&other);
}

#[test]
fn forged_keys_and_ranges_reach_no_memory() {
    let (node, other) = (Node::open(), Node::open());
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
    let memory = Mr::open(&node.domain, vec![5_u8; 64], access).expect("region");
    let locked = Mr::open(&node.domain, vec![5_u8; 64], Access::REMOTE_READ).expect("region");
    let (key, read_only) = (memory.remote().key, locked.remote().key);
    let write = |data, parts, payload: &[u8]| frame(Operation::Write { data, parts }, FrameFlags::empty(), payload);
    let read = |parts| frame(Operation::ReadRequest { parts }, FrameFlags::empty(), &[]);
    let attempts = [
        ("another key", write(None, one(0, 8, MemoryKey(key.0 ^ 1 << 40)), &[1; 8])),
        ("behind the end", write(None, one(57, 8, key), &[1; 8])),
        ("far behind", write(None, one(u64::MAX - 3, 8, key), &[1; 8])),
        ("no permission", write(None, one(0, 8, read_only), &[1; 8])),
        ("an event without a key", write(Some(9), one(0, 0, MemoryKey(key.0 ^ 1 << 40)), &[])),
        ("an event without a range", write(Some(9), heapless::Vec::new(), &[])),
        ("a read behind the end", read(one(1, 64, key))),
        ("a read of everything", read(one(0, u64::MAX, key))),
    ];
    for (why, bytes) in attempts {
        let mut stranger = Stranger::greet(&node, 9);
        stranger.send(&bytes);
        stranger.ends(&node, why);
    }
    let mut bytes = [0; 64];
    for region in [&memory, &locked] {
        region.window().copy_to(0, &mut bytes).expect("the whole window");
        assert_eq!(bytes, [5; 64]);
    }
    // Control: with the key, the same bytes are written and read.
    let mut stranger = Stranger::greet(&node, 9);
    stranger.send(&write(None, one(8, 8, key), &[1; 8]));
    stranger.send(&read(one(0, 24, key)));
    let answer = stranger.receive(&node, 16 + 24);
    assert_eq!(answer[16..], [[5; 8], [1; 8], [5; 8]].concat());
    assert!(node.cq.poll().expect("the queue works").is_none(), "no event is made");
    node.talks_to(&other);
}

/// A stranger makes no event of its own: operations in flight carry the reason.
#[test]
fn operations_in_flight_report_the_reason_of_a_refused_access() {
    let node = Node::open();
    let mut stranger = Stranger::greet(&node, 9);
    let peer = node.av.insert(&SocketAddr::from(([127, 0, 0, 1], 9)).into()).expect("inserted");
    let options = SendOptions { level: Some(CompletionLevel::Delivery), ..SendOptions::default() };
    let sent = node.endpoint.send_with(peer, options, vec![1; 8]).expect("posted");
    stranger.receive(&node, 24);
    let write = Operation::Write { data: None, parts: one(0, 8, MemoryKey(1)) };
    stranger.send(&frame(write, FrameFlags::empty(), &[1; 8]));
    let failed = node.cq.finish(sent, Instant::now() + LIMIT).expect("done").result().expect_err("refused");
    assert_eq!(failed.errno, Errno::EPROTO);
    let text = format!("{}", node.cq.error_text(&failed));
    assert_eq!(text, "the peer named remote memory with a wrong key, range or access");
    assert!(node.cq.poll().expect("the queue works").is_none(), "no event is made");
}

#[test]
fn messages_arrive_byte_by_byte() {
    let node = Node::open();
    let mut received: Vec<_> =
        (0..4).map(|tag| node.endpoint.tagged_recv(Source::Any, Tag(tag), vec![0; 300]).expect("posted")).collect();
    let mut stranger = Stranger::connect(&node);
    let mut bytes = request(9);
    for tag in 0..4 {
        bytes.extend(tagged(tag, &vec![tag as u8 + 1; 100 * tag as usize]));
    }
    for byte in bytes {
        stranger.send(&[byte]);
        node.poll();
    }
    for (tag, key) in received.drain(..).enumerate() {
        let done = node.cq.finish(key, Instant::now() + LIMIT).expect("done");
        let (buf, transfer) = done.into_result().expect("received");
        assert_eq!((transfer.len, &buf[..100 * tag]), (100 * tag, &vec![tag as u8 + 1; 100 * tag][..]));
        assert_eq!(transfer.source, None, "a stranger");
    }
}

#[test]
fn strangers_do_not_fill_the_memory_for_messages() {
    let (node, other) = (Node::open(), Node::open());
    let mut strangers: Vec<_> = (1..4).map(|port| Stranger::greet(&node, port)).collect();
    for stranger in &mut strangers {
        for tag in 0..500 {
            stranger.send(&tagged(tag, &[1; 10]));
        }
    }
    (0..100).for_each(|_| node.poll());
    // A message of a known peer is kept until its receive is posted.
    let (to_node, _) = (other.knows(&node), node.knows(&other));
    let sent = other.endpoint.tagged_send(to_node, Tag(1000), vec![9; 1000]).expect("posted");
    let mut until = Instant::now() + LIMIT;
    while !other.is_done(sent) {
        assert!(!until.passed(), "the message is sent");
        other.poll();
        node.poll();
    }
    (0..100).for_each(|_| node.poll());
    let received = node.endpoint.tagged_recv(Source::Any, Tag(1000), vec![0; 1000]).expect("posted");
    assert_eq!(node.cq.finish(received, until).expect("done").into_buf(), vec![9; 1000]);
    for tag in 0..3 {
        let received = node.endpoint.tagged_recv(Source::Any, Tag(tag), vec![0; 10]).expect("posted");
        assert_eq!(node.result(received), Ok(()));
    }
    node.talks_to(&other);
}

#[test]
fn silent_connections_make_room_for_peers() {
    let (node, other) = (Node::open(), Node::open());
    // Twice as many as places. Some greet.
    let silent: Vec<_> = (0..16).map(|_| Stranger::connect(&node)).collect();
    (0..100).for_each(|_| node.poll());
    let greeted: Vec<_> = (1..17)
        .map(|port| {
            let mut stranger = Stranger::connect(&node);
            stranger.send(&request(port));
            (0..10).for_each(|_| node.poll());
            stranger
        })
        .collect();
    other.talks_to(&node);
    drop((silent, greeted));
    // Others close after the header of a message.
    for port in 17..33 {
        let mut stranger = Stranger::connect(&node);
        stranger.send(&request(port));
        stranger.send(&frame(Operation::Message { data: None }, FrameFlags::empty(), &[1; 5000])[..16]);
        (0..10).for_each(|_| node.poll());
    }
    let third = Node::open();
    third.talks_to(&node);
    node.talks_to(&other);
}

#[test]
fn peers_that_do_not_answer_fail_with_a_reason() {
    let node = Node::open();
    let insert = |address: SocketAddr| node.av.insert(&address.into()).expect("inserted");
    // The kernel accepts for a listener.
    let listener = TcpListener::bind("127.0.0.1:0").expect("listener");
    let begin = Instant::now();
    let silent = insert(listener.local_addr().expect("address"));
    let sent = node.endpoint.send(silent, vec![1; 8]).expect("posted");
    let done = node.cq.finish(sent, begin + LIMIT).expect("done");
    let failed = done.result().expect_err("no answer");
    assert_eq!(failed.errno, Errno::ETIMEDOUT);
    let text = format!("{}", node.cq.error_text(&failed));
    assert!(text.contains("TcpAttr::connect_timeout"), "{text}");
    assert!(begin.elapsed() >= Duration::from_millis(180), "{:?}", begin.elapsed());
    let closed = insert(listener.local_addr().expect("address"));
    drop(listener);
    let sent = node.endpoint.send(closed, vec![1; 8]).expect("posted");
    assert_eq!(node.result(sent), Err(Errno::from_raw(111)));
    // An address that this interface does not reach.
    let far = insert("8.8.8.8:9".parse().expect("an address"));
    let refused = node.endpoint.send(far, vec![1; 8]).expect_err("not from 127.0.0.1");
    assert!(matches!(refused.error, PostError::Errno(_)), "{:?}", refused.error);
    assert_eq!(node.cq.in_flight(), 0);
    let foreign = node.av.insert(&"[::1]:9".parse().expect("an address"));
    assert!(foreign.is_err(), "{foreign:?}");
}

#[test]
fn peer_that_does_not_read_holds_up_only_itself() {
    let (node, other) = (Node::open(), Node::open());
    let listener = TcpListener::bind("127.0.0.1:0").expect("listener");
    let peer = node.av.insert(&listener.local_addr().expect("address").into()).expect("inserted");
    let sent: Vec<_> = (0..16).map(|seed| node.endpoint.send(peer, vec![seed; 1 << 20]).expect("posted")).collect();
    node.poll();
    let (mut stream, _) = listener.accept().expect("it connects");
    let answer = RdmData { version: 0, features: 0, port: 0, pid: 1 };
    (0..100).for_each(|_| node.poll());
    stream.write_all(&connect_message(ConnectKind::Response, &answer.encode())).expect("sent");
    (0..1000).for_each(|_| node.poll());
    assert!(sent.iter().any(|key| !node.is_done(*key)), "16 MiB exceed the kernel's buffers");
    node.talks_to(&other);
    stream.shutdown(Shutdown::Both).expect("shut down");
    drop(stream);
    let results: Vec<_> = sent.into_iter().map(|key| node.result(key)).collect();
    assert!(results.last().is_some_and(Result::is_err), "{results:?}");
    node.talks_to(&other);
}

/// More than the kernel has room for, and more often than a connection queues responses.
#[test]
fn reads_in_both_directions_go_on() {
    const LEN: usize = 1 << 20;
    let nodes = [Node::open(), Node::open()];
    let to = [nodes[0].knows(&nodes[1]), nodes[1].knows(&nodes[0])];
    let memory: Vec<_> = nodes
        .iter()
        .zip([3_u8, 4])
        .map(|(node, byte)| Mr::open(&node.domain, vec![byte; LEN], Access::REMOTE_READ).expect("region"))
        .collect();
    let mut reads = Vec::new();
    for (side, node) in nodes.iter().enumerate() {
        for _ in 0..48 {
            let remote: RemoteRegion = memory[1 - side].remote();
            reads.push((side, node.endpoint.read(to[side], &remote, 0, vec![0; LEN]).expect("posted")));
        }
    }
    let mut until = Instant::now() + LIMIT;
    while reads.iter().any(|(side, key)| !nodes[*side].is_done(*key)) {
        assert!(!until.passed(), "all reads end");
        nodes.iter().for_each(Node::poll);
    }
    for (side, key) in reads {
        let (buf, _) = nodes[side].cq.finish(key, until).expect("done").into_result().expect("read");
        assert!(buf.iter().all(|byte| usize::from(*byte) == 4 - side), "the other's bytes");
    }
}

#[test]
fn messages_before_the_end_of_a_connection_are_received() {
    let node = Node::open();
    let mut stranger = Stranger::greet(&node, 9);
    let peer = node.av.insert(&SocketAddr::from(([127, 0, 0, 1], 9)).into()).expect("inserted");
    let keys: Vec<_> =
        (0..5).map(|tag| node.endpoint.tagged_recv(Source::Any, Tag(tag), vec![0; 100]).expect("posted")).collect();
    for tag in 0..5 {
        stranger.send(&tagged(tag, &[tag as u8; 100]));
    }
    drop(stranger);
    // The first send makes the kernel answer with a reset, the second finds it.
    let sent: Vec<_> = (0..8).map(|_| node.endpoint.send(peer, vec![1; 8]).expect("posted")).collect();
    for (number, key) in keys.into_iter().enumerate() {
        assert_eq!(node.result(key), Ok(()), "message {number}");
    }
    for key in sent {
        let _ = node.result(key);
    }
}

#[test]
fn acknowledgements_before_the_end_of_a_connection_count() {
    let node = Node::open();
    let mut stranger = Stranger::greet(&node, 9);
    let peer = node.av.insert(&SocketAddr::from(([127, 0, 0, 1], 9)).into()).expect("inserted");
    let received = node.endpoint.tagged_recv(Source::Any, Tag(1), vec![0; 100]).expect("posted");
    let options = SendOptions { level: Some(CompletionLevel::Delivery), ..SendOptions::default() };
    let sent = node.endpoint.send_with(peer, options, vec![1; 8]).expect("posted");
    stranger.receive(&node, 24);
    stranger.send(&frame(Operation::Acknowledgement, FrameFlags::empty(), &[]));
    stranger.send(&tagged(1, &[2; 100]));
    drop(stranger);
    let others: Vec<_> = (0..4).map(|_| node.endpoint.send(peer, vec![1; 8]).expect("posted")).collect();
    assert_eq!((node.result(sent), node.result(received)), (Ok(()), Ok(())));
    for key in others {
        let _ = node.result(key);
    }
}

#[test]
fn peers_of_other_networks_cannot_connect() {
    const LONG: [Subnet; 1] = [Subnet { address: IpAddr::V4(Ipv4Addr::LOCALHOST), prefix: 33 }];
    static ALLOWED: [Subnet; 2] = [
        Subnet { address: IpAddr::V4(Ipv4Addr::new(127, 0, 1, 0)), prefix: 24 },
        Subnet { address: IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), prefix: 32 },
    ];
    let attr = TcpAttr { allowed: &ALLOWED, ..SMALL };
    let node = Node::with(attr);
    Stranger::connect(&node).ends(&node, "127.0.0.1");
    for host in ["127.0.0.2", "127.0.1.9"] {
        Node::at(host, SMALL).talks_to(&node);
    }
    // A connection of the node's own is to any peer.
    let other = Node::open();
    node.talks_to(&other);

    let refused = query(&Hints::default(), TcpAttr { allowed: &LONG, ..attr }).expect_err("too many bits");
    assert_eq!(refused, OpenError::OutOfRange("TcpAttr::allowed"));
}

/// The last free place is for the connection that takes it.
#[test]
fn one_connection_is_enough_for_one_peer() {
    let (node, other) = (Node::with(TcpAttr { connections: 1, ..SMALL }), Node::open());
    other.talks_to(&node);
}

#[test]
fn peers_are_reached_by_names_and_over_ipv6() {
    let has_ipv6 = TcpListener::bind("[::1]:0").is_ok();
    for host in ["localhost", "127.0.0.1", "::1"].into_iter().take(2 + usize::from(has_ipv6)) {
        let (node, other) = (Node::at(host, SMALL), Node::at(host, SMALL));
        node.talks_to(&other);
        let port = format!("{}", other.address().port());
        let to = node.av.insert_service(host, Some(&port)).expect("resolved");
        assert_eq!(node.av.find(&other.endpoint.address().expect("address")), Some(to), "{host}");
    }
}

#[test]
fn many_peers_talk_at_once() {
    const PEERS: usize = 64;
    let attr = TcpAttr { connections: 80, peers: 64, rx_depth: 256, unexpected: 1024, ..SMALL };
    let server = Node::with(attr);
    let clients: Vec<_> = (0..PEERS).map(|_| Node::open()).collect();
    let to: Vec<_> = clients.iter().map(|client| (client.knows(&server), server.knows(client)).0).collect();
    let received: Vec<_> = (0..PEERS as u64)
        .map(|tag| server.endpoint.tagged_recv(Source::Any, Tag(tag), vec![0; 5000]).expect("posted"))
        .collect();
    let mut sent = Vec::new();
    for (number, (client, to)) in clients.iter().zip(&to).enumerate() {
        let message = vec![number as u8; 5000];
        sent.push(client.endpoint.tagged_send(*to, Tag(number as u64), message).expect("posted"));
    }
    let mut until = Instant::now() + LIMIT;
    while received.iter().any(|key| !server.is_done(*key)) {
        assert!(!until.passed(), "all messages arrive");
        server.poll();
        clients.iter().for_each(Node::poll);
    }
    for (number, key) in received.into_iter().enumerate() {
        let (buf, transfer) = server.cq.finish(key, until).expect("done").into_result().expect("received");
        assert_eq!(buf, vec![number as u8; 5000]);
        assert!(transfer.source.is_some(), "a known peer");
    }
    for (client, key) in clients.iter().zip(sent) {
        assert_eq!(client.result(key), Ok(()));
    }
}

#[test]
fn connections_may_end_after_each_byte() {
    let (node, other) = (Node::open(), Node::open());
    let region = Mr::open(&node.domain, vec![0_u8; 16], Access::REMOTE_WRITE).expect("region");
    let write = Operation::Write { data: None, parts: one(0, 16, region.remote().key) };
    let write = frame(write, FrameFlags::empty(), &[7; 16]);
    let (greeting, message) = (request(9), tagged(1, &[3; 100]));
    let (header, whole) = (message.len() - 100, greeting.len() + message.len() + write.len());
    for (len, is_reset) in (0..=whole).flat_map(|len| [(len, false), (len, true)]) {
        let key = node.endpoint.tagged_recv(Source::Any, Tag(1), vec![0; 100]).expect("posted");
        let mut stranger = Stranger::connect(&node);
        stranger.send(&greeting[..len.min(greeting.len())]);
        if let Some(rest) = len.checked_sub(greeting.len()) {
            stranger.awaits(&node, 40);
            stranger.send(&[&message[..], &write].concat()[..rest]);
            if !is_reset {
                stranger.receive(&node, 40);
            }
        }
        // With an unread answer, the kernel resets the connection.
        drop(stranger);
        let arrived = len.saturating_sub(greeting.len());
        if arrived < header {
            node.talks_to(&other);
            node.endpoint.cancel(key).expect("it has not arrived");
        }
        match node.result(key) {
            Ok(()) => assert!(arrived >= message.len(), "{len}: received"),
            Err(errno) => assert!(arrived < message.len(), "{len}: {errno:?}"),
        }
    }
    node.talks_to(&other);
    let mut bytes = [0; 16];
    region.window().copy_to(0, &mut bytes).expect("within");
    assert_eq!((bytes, node.cq.in_flight()), ([7; 16], 0));
}

#[test]
fn peers_come_and_go() {
    let descriptors = || std::fs::read_dir("/proc/self/fd").expect("the system has it").count();
    let server = Node::open();
    let mut before = 0;
    for round in 0..200 {
        if round == 20 {
            before = descriptors();
        }
        let client = Node::open();
        client.talks_to(&server);
        if round % 2 == 0 {
            server.talks_to(&client);
        }
        let address = client.endpoint.address().expect("address");
        drop(client);
        let peer = server.av.find(&address).expect("inserted");
        assert!(server.av.remove(peer), "removed");
    }
    // Other tests of this process open sockets meanwhile.
    let grown = descriptors().saturating_sub(before);
    assert!(grown < 150, "{grown} more descriptors");
    assert_eq!(server.cq.in_flight(), 0);
}

#[test]
fn strangers_do_not_end_connections() {
    connects(&Hints::default());
}

/// Connects two endpoints of a domain with these hints, beside strangers.
fn connects(hints: &Hints<'_>) {
    let hints = Hints { endpoint_attr: EndpointAttributes::of(EndpointType::MSG), ..hints.clone() };
    let attr = TcpAttr { endpoints: 3, ..SMALL };
    let domain = Domain::open(&query(&hints, attr).expect("loopback")).expect("domain");
    let (eq, cq) =
        (EventQueue::open(&domain, EqAttr::default()).expect("queue"), Cq::open(&domain, 16).expect("queue"));
    let listener = eq.listen(domain.info()).expect("listens");
    let address = listener.address().expect("address");
    let client = cq.msg_endpoint(&eq, domain.info()).expect("endpoint").connect(&address, &[]).expect("connects");
    let (mut client, mut server, mut accepting) = (Some(client), None, None);
    let mut until = Instant::now() + LIMIT;
    let (mut established, mut accepted) = (None, None);
    while established.is_none() || accepted.is_none() {
        assert!(!until.passed(), "connected");
        match eq.poll().expect("the queue works") {
            Some(EqEvent::Request(request)) => {
                let endpoint: MsgEndpoint<'_, Tcp, Vec<u8>, _> = request.endpoint(&cq, &eq).expect("endpoint");
                accepting = Some(endpoint.accept(&[]).expect("accepts"));
            }
            Some(EqEvent::Connected(event)) => {
                for (waits, ends) in [(&mut client, &mut established), (&mut accepting, &mut accepted)] {
                    match waits.take().map(|waits| waits.established(&event)) {
                        Some(Ok(end)) => *ends = Some(end),
                        Some(Err(other)) => *waits = Some(other),
                        None => {}
                    }
                }
            }
            Some(_) => panic!("another event"),
            None => {}
        }
    }
    server.replace(accepted.expect("accepted"));
    let socket = SocketAddr::try_from(&address).expect("socket");
    let strangers: Vec<_> = (0..32)
        .map(|number| {
            let mut stream = TcpStream::connect(socket).expect("the kernel accepts");
            if number % 2 == 0 {
                stream.write_all(&connect_message(ConnectKind::Request, &[])).expect("sent");
            }
            (0..20).for_each(|_| _ = cq.progress().expect("the queue works"));
            stream
        })
        .collect();
    let (client, server) = (established.expect("connected"), server.expect("accepted"));
    let received = server.recv(ThePeer, vec![0; 8]).expect("posted");
    cq.post(vec![7; 8], until, |buf| client.send(ThePeer, buf)).expect("posted");
    assert_eq!(cq.finish(received, until).expect("done").into_result().expect("received").0, vec![7; 8]);
    drop(strangers);
}
