//! An endpoint with its own domain, a raw socket to it, and bytes on that socket.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;
use std::vec;
use std::vec::Vec;

use loom_core::vocabulary::MemoryKey;
use loom_core::{Av, Cq, Deadline, Domain, Endpoint, Errno, Hints, Info, OpKey, Peer, Source, Tag};

use crate::wire::{
    ByteOrder, ConnectKind, ConnectMessage, Frame, FrameFlags, MAX_CONNECT_MESSAGE, MAX_HEADER, Operation, RdmData,
    RemoteRange,
};
use crate::{Tcp, TcpAttr, query};

pub(crate) const LIMIT: Duration = Duration::from_secs(20);

pub(crate) const SMALL: TcpAttr = TcpAttr {
    endpoints: 2,
    connections: 8,
    queues: 2,
    peers: 8,
    tx_depth: 64,
    rx_depth: 64,
    unexpected: 64,
    unexpected_size: 1 << 16,
    receive_buffer: 4096,
    connect_timeout: 200,
    ..TcpAttr::DEFAULT
};

/// Endpoint with its own domain.
pub(crate) struct Node {
    pub(crate) domain: Domain<'static, Tcp>,
    pub(crate) av: Av<'static, Tcp>,
    pub(crate) cq: Cq<'static, Tcp, Vec<u8>>,
    pub(crate) endpoint: Endpoint<'static, Tcp, Vec<u8>>,
}

impl Node {
    pub(crate) fn open() -> Self {
        Self::with(SMALL)
    }

    pub(crate) fn with(attr: TcpAttr) -> Self {
        Self::at("127.0.0.1", attr)
    }

    pub(crate) fn at(host: &str, attr: TcpAttr) -> Self {
        let hints = Hints { node: Some(host), listen: true, ..Hints::default() };
        Self::of(&query(&hints, attr).expect("loopback"), attr.peers as usize)
    }

    pub(crate) fn of(info: &Info<Tcp>, peers: usize) -> Self {
        let domain = Domain::open(info).expect("domain");
        let (av, cq) = (Av::open(&domain, peers).expect("vector"), Cq::open(&domain, 1024).expect("queue"));
        let endpoint = cq.endpoint(&av).expect("endpoint");
        Node { domain, av, cq, endpoint }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::try_from(&self.endpoint.address().expect("address")).expect("socket")
    }

    pub(crate) fn knows(&self, other: &Node) -> Peer {
        self.av.insert(&other.endpoint.address().expect("address")).expect("inserted")
    }

    pub(crate) fn poll(&self) {
        self.cq.progress().expect("the queue works");
    }

    /// Exchanges a message with another node, whatever else goes on.
    pub(crate) fn talks_to(&self, other: &Node) {
        let (to, _) = (self.knows(other), other.knows(self));
        let received = other.endpoint.tagged_recv(Source::Any, Tag(99), vec![0; 64]).expect("posted");
        let sent = self.endpoint.tagged_send(to, Tag(99), vec![7; 64]).expect("posted");
        let mut until = Instant::now() + LIMIT;
        while !other.is_done(received) || !self.is_done(sent) {
            assert!(!until.passed(), "peers go on");
            self.poll();
            other.poll();
        }
        assert_eq!(other.cq.finish(received, until).expect("done").into_result().expect("received").0, vec![7; 64]);
        self.cq.finish(sent, until).expect("done").into_result().expect("sent");
    }

    pub(crate) fn is_done(&self, key: OpKey) -> bool {
        self.cq.has_succeeded(key).expect("a known key").is_some()
    }

    pub(crate) fn result(&self, key: OpKey) -> Result<(), Errno> {
        let done = self.cq.finish(key, Instant::now() + LIMIT).unwrap_or_else(|error| panic!("{key:?}: {error:?}"));
        done.result().map(drop).map_err(|failed| failed.errno)
    }
}

pub(crate) fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251 + seed * 7).to_le_bytes()[0]).collect()
}

pub(crate) fn polled(nodes: [&Node; 2], what: &str, is_done: impl Fn() -> bool) {
    let mut until = Instant::now() + LIMIT;
    while !is_done() {
        assert!(!until.passed(), "{what}");
        nodes[0].poll();
        nodes[1].poll();
    }
}

/// Numbers without a pattern (xorshift).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn word(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.word() % end
    }
}

/// Raw socket to a node.
pub(crate) struct Stranger(pub(crate) TcpStream);

impl Stranger {
    pub(crate) fn connect(node: &Node) -> Self {
        let stream = TcpStream::connect(node.address()).expect("the node listens");
        stream.set_nodelay(true).expect("option");
        stream.set_nonblocking(true).expect("option");
        Stranger(stream)
    }

    /// Connects as the endpoint with this port, and is accepted.
    pub(crate) fn greet(node: &Node, port: u16) -> Self {
        let mut stranger = Self::connect(node);
        stranger.send(&request(port));
        let answer = stranger.receive(node, 40);
        let (message, ..) = ConnectMessage::parse(&answer).expect("an answer").expect("a whole one");
        assert_eq!(message.kind, ConnectKind::Response);
        stranger
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the kernel has room");
    }

    pub(crate) fn receive(&mut self, node: &Node, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let (mut at, mut until) = (0, Instant::now() + LIMIT);
        while at < len {
            assert!(!until.passed(), "{at} of {len} bytes arrive");
            node.poll();
            match self.0.read(&mut bytes[at..]) {
                Ok(0) => panic!("the node has closed the connection after {at} bytes"),
                Ok(received) => at += received,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        bytes
    }

    /// Waits until bytes have arrived, which stay unread.
    pub(crate) fn awaits(&self, node: &Node, len: usize) {
        let (mut bytes, mut until) = (vec![0; len], Instant::now() + LIMIT);
        while self.0.peek(&mut bytes).unwrap_or(0) < len {
            assert!(!until.passed(), "{len} bytes arrive");
            node.poll();
        }
    }

    /// Waits until the node closes the connection.
    pub(crate) fn ends(mut self, node: &Node, why: &str) {
        let mut until = Instant::now() + LIMIT;
        loop {
            assert!(!until.passed(), "{why}: the connection ends");
            node.poll();
            match self.0.read(&mut [0; 1024]) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }
}

pub(crate) fn connect_message(kind: ConnectKind, data: &[u8]) -> Vec<u8> {
    let mut bytes = [0; MAX_CONNECT_MESSAGE];
    let len = ConnectMessage { kind, data }.encode(&mut bytes).expect("short");
    bytes[..len].to_vec()
}

pub(crate) fn request(port: u16) -> Vec<u8> {
    connect_message(ConnectKind::Request, &RdmData { version: 0, features: 0, port, pid: 4711 }.encode())
}

pub(crate) fn frame(operation: Operation, flags: FrameFlags, payload: &[u8]) -> Vec<u8> {
    let mut bytes = [0; MAX_HEADER];
    let len = Frame { operation, flags, payload: payload.len() as u64 }.encode(ByteOrder::NATIVE, 0, &mut bytes);
    [&bytes[..len], payload].concat()
}

pub(crate) fn tagged(tag: u64, payload: &[u8]) -> Vec<u8> {
    frame(Operation::Tagged { tag, data: None }, FrameFlags::empty(), payload)
}

pub(crate) fn one(addr: u64, len: u64, key: MemoryKey) -> heapless::Vec<RemoteRange, 4> {
    core::iter::once(RemoteRange { addr, len, key: key.0 }).collect()
}
