//! Memory shared with peers of the same host, and peers that misuse it.

#![allow(unsafe_code, reason = "sleeps on the descriptor of a queue")]

use core::net::{Ipv4Addr, SocketAddr};
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::format;
use std::io::Read;
use std::net::TcpListener;
use std::os::fd::AsRawFd as _;
use std::time::Instant;
use std::vec;
use std::vec::Vec;

use loom_core::{
    Access, Completion, CompletionLevel, Cq, CqAttr, Deadline, EqAttr, EventQueue, Mr, Peer, SendOptions, Source, Tag,
    WaitObj,
};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::BorrowedFd;
use rustix::time::Timespec;

use super::sides::{LIMIT, Node, Random, SMALL, Stranger, connect_message, frame, pattern, request, tagged};
use crate::TcpAttr;
use crate::memory::{Gather, Offer, Pipe, Ranges};
use crate::wire::{ConnectKind, ConnectMessage, FrameFlags, MAX_CONNECT_MESSAGE, Operation, RdmData};

const SHARING: TcpAttr = TcpAttr { shared_memory: 4096, connect_timeout: 5000, ..SMALL };

/// Features of a request and a response.
const ASKS: u8 = 2;
const OFFERS: u8 = 4;

fn greeting(kind: ConnectKind, features: u8) -> Vec<u8> {
    let data = RdmData { version: 1, features, port: 9, pid: std::process::id() };
    connect_message(kind, &data.encode())
}

/// Connects, and asks for shared memory. Returns the response's features.
fn ask(node: &Node) -> (Stranger, u8) {
    let mut stranger = Stranger::connect(node);
    stranger.send(&greeting(ConnectKind::Request, ASKS));
    let answer = stranger.receive(node, 40);
    let (message, ..) = ConnectMessage::parse(&answer).expect("an answer").expect("a whole one");
    let data = RdmData::parse(message.data).expect("of an endpoint");
    (stranger, data.features)
}

/// Connects as a peer with shared memory. The test has the other side.
fn share(node: &Node) -> (Stranger, Pipe) {
    let (mut stranger, features) = ask(node);
    assert_eq!(features, OFFERS);
    let offer = stranger.receive(node, Offer::LEN);
    let offer = Offer::parse(offer[..].try_into().expect("as long"));
    let pipe = Pipe::open(std::process::id(), &offer).expect("an offer of this process");
    stranger.send(&[1]);
    (stranger, pipe)
}

/// Node with a queue that may sleep.
fn sleeper(attr: TcpAttr) -> Node {
    let Node { domain, av, .. } = Node::with(attr);
    let cq = Cq::open(&domain, CqAttr { wait: WaitObj::FD, ..CqAttr::new(64) }).expect("queue");
    let endpoint = cq.endpoint(&av).expect("endpoint");
    Node { domain, av, cq, endpoint }
}

/// The stranger as a peer of the node.
fn stranger_of(node: &Node) -> Peer {
    node.av.insert(&SocketAddr::from((Ipv4Addr::LOCALHOST, 9)).into()).expect("inserted")
}

fn put(pipe: &mut Pipe, bytes: &[u8]) -> u64 {
    let (mut room, mut ranges) = (vec![0; 1 << 14], Ranges::default());
    let mut gather = Gather::over(&mut room, &mut ranges);
    gather.copy(bytes);
    pipe.send(gather).expect("consistent")
}

/// Sleeps on the queue's descriptor.
fn is_woken(node: &Node) -> bool {
    // SAFETY: the queue is open until the end of the test.
    let fd = unsafe { BorrowedFd::borrow_raw(node.cq.wait_fd().expect("a descriptor")) };
    let limit = Timespec { tv_sec: 5, tv_nsec: 0 };
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&limit)).expect("events") > 0
}

/// Reads all bytes as an honest peer. Returns their number.
fn take(stranger: &mut Stranger, pipe: &mut Pipe) -> usize {
    let (mut taken, mut room) = (0, vec![0; 1 << 16]);
    while pipe.has_bytes() {
        taken += pipe.read(&mut room).expect("consistent");
        pipe.wake_writer(|| {
            stranger.send(&[0]);
            true
        });
    }
    taken
}

/// Number of mappings of shared memory of these lengths in this process.
pub(super) fn mappings(lengths: Range<usize>) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let is_long = |line: &&str| {
        let (begin, end) = line.split_once(' ').and_then(|(range, _)| range.split_once('-')).expect("a range");
        let number = |text| usize::from_str_radix(text, 16).expect("an address");
        lengths.contains(&(number(end) - number(begin)))
    };
    maps.lines().filter(|line| line.contains("memfd:loom-tcp")).filter(is_long).count()
}

#[test]
fn messages_of_all_lengths_go_through_shared_memory() {
    // Rings of a length that no other test has.
    let [from, to] = [(), ()].map(|()| Node::with(TcpAttr { shared_memory: 1 << 16, ..SHARING }));
    let (peer, _) = (from.knows(&to), to.knows(&from));
    for (seed, len) in [0, 1, 90, 120, 121, 1000, 4096, 5000, 70_000, 1 << 20].into_iter().enumerate() {
        for level in [None, Some(CompletionLevel::Delivery)] {
            let received = to.endpoint.tagged_recv(Source::Any, Tag(5), vec![0; len]).expect("posted");
            let options = SendOptions { level, ..SendOptions::default() };
            let sent = from.endpoint.tagged_send_with(peer, Tag(5), options, pattern(len, seed)).expect("posted");
            let mut until = Instant::now() + LIMIT;
            while !from.is_done(sent) || !to.is_done(received) {
                assert!(!until.passed(), "{len} bytes");
                from.poll();
                to.poll();
            }
            from.cq.finish(sent, until).expect("over").into_result().expect("sent");
            let (bytes, _) = to.cq.finish(received, until).expect("over").into_result().expect("received");
            assert!(bytes == pattern(len, seed), "{len} bytes");
        }
    }
    assert_eq!(mappings(2 << 16..3 << 16), 2, "both ends have the memory");
}

#[test]
fn a_side_without_shared_memory_uses_the_socket() {
    for attrs in [[SMALL, SHARING], [SHARING, SMALL]] {
        let [from, to] = attrs.map(Node::with);
        from.talks_to(&to);
        to.talks_to(&from);
    }
    let (mut stranger, features) = ask(&Node::with(SMALL));
    assert_eq!(features, 0);
    stranger.send(&[0]);
}

/// A peer of another user or container cannot open the memory.
#[test]
fn a_peer_that_declines_uses_the_socket() {
    let (node, other) = (Node::with(SHARING), Node::with(SHARING));
    let (mut stranger, _) = ask(&node);
    let _ = stranger.receive(&node, Offer::LEN);
    stranger.send(&[0]);
    let received = node.endpoint.tagged_recv(Source::Any, Tag(7), vec![0; 300]).expect("posted");
    stranger.send(&super::tagged(7, &[3; 300]));
    assert_eq!(node.result(received), Ok(()));
    node.talks_to(&other);
}

#[test]
fn offers_of_other_files_are_declined() {
    let file = std::env::temp_dir().join(format!("loom-tcp-{}", std::process::id()));
    std::fs::write(&file, vec![0; 1 << 16]).expect("written");
    let plain = std::fs::File::options().read(true).write(true).open(&file).expect("open");
    std::fs::remove_file(&file).expect("removed");
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    let (_pipe, memory) = Pipe::create(4096, [7, 8]).expect("memory");
    let good = Offer::of(&memory, 4096, [7, 8]);
    let offers = [
        ("a file that may shrink", Offer { fd: plain.as_raw_fd(), ..good }),
        ("a pipe", Offer { fd: reader.as_raw_fd(), ..good }),
        ("a closed descriptor", Offer { fd: 1 << 20, ..good }),
        ("a negative descriptor", Offer { fd: -1, ..good }),
        ("another nonce", Offer { nonce: [7, 9], ..good }),
        ("another capacity", Offer { capacity: 8192, ..good }),
        ("an odd capacity", Offer { capacity: 4097, ..good }),
        ("no capacity", Offer { capacity: 0, ..good }),
    ];
    for (why, offer) in offers {
        assert!(Pipe::open(std::process::id(), &offer).is_err(), "{why}");
    }
    assert!(Pipe::open(u32::MAX, &good).is_err(), "another process");
    // Control.
    assert!(Pipe::open(std::process::id(), &good).is_ok());
}

#[test]
fn a_connection_that_ends_returns_its_memory_and_descriptor() {
    let node = Node::with(SHARING);
    for _ in 0..100 {
        let (stranger, pipe) = share(&node);
        drop(stranger);
        drop(pipe);
        node.poll();
    }
    let other = Node::with(SHARING);
    node.talks_to(&other);
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("descriptors").filter(|entry| {
        let path = entry.as_ref().expect("an entry").path();
        std::fs::read_link(path).is_ok_and(|file| file.to_string_lossy().contains("memfd:loom-tcp"))
    });
    assert!(descriptors.count() < 20, "descriptors are closed after the answer");
    assert!(mappings(0..usize::MAX) < 50, "memory is unmapped");
}

/// Stores anything in words of the directions, the word of a cell, or any word.
fn scribble(pipe: &Pipe, random: &mut Random, cells: u64) {
    let cell = random.below(cells);
    let of_cell = |direction| pipe.first_cell(direction) + 16 * (cell as usize % 64);
    let at = match random.below(4) {
        0 => random.below(pipe.first_cell(0) as u64) as usize,
        1 => of_cell(0),
        2 => of_cell(1),
        _ => random.below(pipe.len_in_words() as u64) as usize,
    };
    let value = match random.below(4) {
        0 => (cell + 1) << 32 | random.below(128),
        1 => (cell + 1) << 32 | 1 << 31 | random.below(8192),
        2 => random.below(3),
        _ => random.word(),
    };
    pipe.scribble(at, value);
}

/// A process that has the memory of a connection, and writes anything to it at any time.
#[test]
fn a_peer_that_writes_nonsense_to_shared_memory_harms_only_itself() {
    let (node, other) = (Node::with(SHARING), Node::with(SHARING));
    let secret = Mr::open(&node.domain, vec![5_u8; 64], Access::REMOTE_WRITE).expect("region");
    let peer = stranger_of(&node);
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut ended = 0;
    for _ in 0..200 {
        let (stranger, pipe) = share(&node);
        for _ in 0..100 {
            scribble(&pipe, &mut random, 4);
            let _ = node.endpoint.tagged_inject(peer, Tag(1), &[1; 100]);
            let _ = node.endpoint.tagged_send(peer, Tag(1), vec![1; 3000]);
            node.poll();
            while node.cq.poll().expect("the queue works").is_some() {}
        }
        let mut until = Instant::now() + Duration::from_millis(1);
        while !until.passed() {
            node.poll();
        }
        ended += usize::from(
            !matches!((&stranger.0).read(&mut [0; 1024]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock),
        );
    }
    let mut bytes = [0; 64];
    secret.window().copy_to(0, &mut bytes).expect("the window");
    assert_eq!(bytes, [5; 64]);
    assert!(ended > 50, "{ended} connections ended by a violation: the stores are seen");
    node.talks_to(&other);
}

#[test]
fn a_sleeper_with_a_blocked_message_learns_of_room() {
    let node = sleeper(SHARING);
    let peer = stranger_of(&node);
    let (mut stranger, mut pipe) = share(&node);
    let sent = node.endpoint.tagged_send(peer, Tag(1), vec![1; 20_000]).expect("posted");
    // A message without a receive or room, and bytes behind it.
    let blocked = frame(Operation::Tagged { tag: 5, data: None }, FrameFlags::empty(), &[0; 100]);
    let long = [&blocked[..4], &[0, 0, blocked[6], blocked[7]], &u64::MAX.to_ne_bytes(), &blocked[16..]].concat();
    put(&mut pipe, &long);
    let (mut taken, mut until) = (0, Instant::now() + LIMIT);
    while !node.is_done(sent) {
        assert!(!until.passed(), "{taken} bytes are sent");
        // It sleeps after a bounded number of polls.
        assert!(
            (0..20_000).any(|_| {
                node.poll();
                node.cq.may_sleep().expect("the queue sleeps")
            }) || node.is_done(sent)
        );
        taken += take(&mut stranger, &mut pipe);
        assert!(node.is_done(sent) || is_woken(&node), "the peer sends a byte");
    }
    assert!(taken + take(&mut stranger, &mut pipe) >= 20_000);
}

/// Side of a hostile peer, for its thread.
struct Hostile(Pipe);

// SAFETY: the thread uses the pipe alone, by atomic stores.
unsafe impl Send for Hostile {}

impl Hostile {
    /// Stores until the flag is set, at a pace of the seed. Returns the number of stores.
    fn scribble(self, seed: u64, stop: &AtomicBool) -> u64 {
        let (mut random, mut stores) = (Random(seed), 0);
        let pace = 1 << random.below(13);
        while !stop.load(Ordering::Relaxed) {
            scribble(&self.0, &mut random, 64);
            stores += 1;
            (0..random.below(pace)).for_each(|_| core::hint::spin_loop());
        }
        stores
    }
}

/// `LOOM_STORES` has their number, for longer runs.
#[test]
fn nonsense_in_shared_memory_during_all_operations_harms_only_its_peer() {
    let wanted = std::env::var("LOOM_STORES").map_or(20_000, |stores| stores.parse().expect("a number"));
    let (node, other) = (Node::with(SHARING), Node::with(SHARING));
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
    let secret = Mr::open(&node.domain, vec![5_u8; 64], access).expect("region");
    let remote = Mr::open(&other.domain, vec![6_u8; 64], access).expect("region").remote();
    let peer = stranger_of(&node);
    let (mut stores, mut random) = (0, Random(0x9E37_79B9_7F4A_7C15));
    let (mut ended, mut finished) = (0, 0);
    while stores < wanted {
        let (stranger, pipe) = share(&node);
        let (stop, seed) = (AtomicBool::new(false), random.word());
        let mut keys = Vec::new();
        stores += std::thread::scope(|scope| {
            let hostile = Hostile(pipe);
            let thread = scope.spawn(|| hostile.scribble(seed, &stop));
            for number in 0..200 {
                let (room, tag) = (vec![7; random.below(6000) as usize], Tag(random.below(4)));
                let posted = match number % 5 {
                    0 => node.endpoint.tagged_recv(Source::Any, tag, room),
                    1 => node.endpoint.tagged_send(peer, tag, room),
                    2 => node.endpoint.write(peer, &remote, 0, vec![7; 64]),
                    3 => node.endpoint.read(peer, &remote, 0, vec![7; 64]),
                    _ => node.endpoint.recv(Source::Any, room),
                };
                keys.extend(posted.ok());
                node.poll();
            }
            stop.store(true, Ordering::Relaxed);
            thread.join().expect("it stores")
        });
        drop(stranger);
        let mut until = Instant::now() + LIMIT;
        while !keys.is_empty() {
            assert!(!until.passed(), "{} operations are left", keys.len());
            node.poll();
            keys.retain(|key| match node.cq.has_succeeded(*key).expect("a known key") {
                None => {
                    let _ = node.endpoint.cancel(*key);
                    true
                }
                Some(succeeded) => {
                    (ended, finished) = (ended + 1, finished + usize::from(succeeded));
                    let _ = node.cq.finish(*key, Instant::now() + LIMIT).expect("over");
                    false
                }
            });
        }
    }
    std::println!("{stores} stores, {ended} operations, {finished} of them with success");
    assert!(finished > 0 && finished < ended, "{finished} of {ended} operations succeed");
    let mut bytes = [0; 64];
    secret.window().copy_to(0, &mut bytes).expect("the window");
    assert_eq!(bytes, [5; 64], "no key was known");
    node.talks_to(&other);
}

#[test]
fn sends_that_complete_at_once_do_not_keep_other_peers_waiting() {
    let [from, to, other] = [(), (), ()].map(|()| Node::with(SHARING));
    from.talks_to(&to);
    let (peer, back) = (from.knows(&to), other.knows(&from));
    let received = from.endpoint.tagged_recv(Source::Any, Tag(3), vec![0; 8]).expect("posted");
    let _ = other.endpoint.tagged_send(back, Tag(3), vec![3; 8]).expect("posted");
    let mut until = Instant::now() + LIMIT;
    loop {
        assert!(!until.passed(), "the other peer's message arrives");
        let _ = to.endpoint.tagged_recv(Source::Any, Tag(4), vec![0; 8]).expect("posted");
        let _ = from.endpoint.tagged_send(peer, Tag(4), vec![4; 8]).expect("posted");
        // One event for each send.
        let Some(Completion::Op(done)) = from.cq.poll().expect("the queue works") else { panic!("it is sent") };
        if done.key() == received {
            break assert_eq!(done.into_buf(), vec![3; 8]);
        }
        other.poll();
        while to.cq.poll().expect("the queue works").is_some() {}
    }
}

#[test]
fn an_event_queue_that_sleeps_keeps_messages_in_progress() {
    let node = Node::with(TcpAttr { event_queues: 1, ..SHARING });
    let events = EventQueue::open(&node.domain, EqAttr { wait: WaitObj::FD, ..EqAttr::default() }).expect("queue");
    let peer = stranger_of(&node);
    let (mut stranger, mut pipe) = share(&node);
    let sent = node.endpoint.tagged_send(peer, Tag(1), vec![1; 20_000]).expect("posted");
    node.poll();
    while !events.may_sleep().expect("the queue sleeps") {
        node.poll();
    }
    put(&mut pipe, &tagged(7, &[3; 60]));
    let mut is_woken = false;
    pipe.wake_reader(|| {
        is_woken = true;
        true
    });
    assert!(is_woken, "a byte wakes the sleeper");
    let mut until = Instant::now() + LIMIT;
    while !node.is_done(sent) {
        assert!(!until.passed(), "the message is sent");
        take(&mut stranger, &mut pipe);
        node.poll();
    }
}

#[test]
fn inconsistent_positions_end_the_operations() {
    let node = Node::with(SHARING);
    let peer = stranger_of(&node);
    let (_stranger, pipe) = share(&node);
    let sent = node.endpoint.tagged_send(peer, Tag(1), vec![1; 20_000]).expect("posted");
    (0..100).for_each(|_| node.poll());
    // Every word of the directions.
    (16..pipe.first_cell(0)).for_each(|word| pipe.scribble(word, 1 << 40));
    assert_eq!(node.result(sent), Err(loom_core::Errno::EPROTO));
}

#[test]
fn a_slow_initiator_keeps_its_message() {
    let [from, to] = [(), ()].map(|()| Node::with(TcpAttr { connect_timeout: 100, ..SHARING }));
    let (peer, _) = (from.knows(&to), to.knows(&from));
    let received = to.endpoint.tagged_recv(Source::Any, Tag(3), vec![0; 64]).expect("posted");
    let sent = from.endpoint.tagged_send(peer, Tag(3), vec![7; 64]).expect("posted");
    // The request is sent, and the answer is not read for longer than the timeout.
    (0..100).for_each(|_| from.poll());
    let mut until = Instant::now() + Duration::from_millis(400);
    while !until.passed() {
        to.poll();
    }
    let mut until = Instant::now() + LIMIT;
    while !to.is_done(received) || !from.is_done(sent) {
        assert!(!until.passed(), "the message arrives");
        from.poll();
        to.poll();
    }
}

#[test]
fn strangers_do_not_displace_a_peer_that_has_not_answered() {
    let node = Node::with(SHARING);
    let peer = stranger_of(&node);
    let (mut stranger, features) = ask(&node);
    assert_eq!(features, OFFERS);
    let sent = node.endpoint.tagged_send(peer, Tag(3), vec![7; 64]).expect("posted");
    let strangers: Vec<_> = (100..120)
        .map(|port| {
            let mut other = Stranger::connect(&node);
            other.send(&request(port));
            (0..2000).for_each(|_| node.poll());
            other
        })
        .collect();
    let _ = stranger.receive(&node, Offer::LEN);
    stranger.send(&[0]);
    assert_eq!(node.result(sent), Ok(()));
    drop(strangers);
}

#[test]
fn a_peer_at_another_address_is_not_asked() {
    let node = Node::with(SHARING);
    let listener = TcpListener::bind("127.0.0.2:0").expect("loopback");
    let peer = node.av.insert(&listener.local_addr().expect("address").into()).expect("inserted");
    node.endpoint.tagged_inject(peer, Tag(1), &[1]).expect("posted");
    (0..2000).for_each(|_| node.poll());
    let (mut stream, _) = listener.accept().expect("connected");
    (0..2000).for_each(|_| node.poll());
    let mut bytes = [0; MAX_CONNECT_MESSAGE];
    let len = stream.read(&mut bytes).expect("a request");
    let (message, ..) = ConnectMessage::parse(&bytes[..len]).expect("a request").expect("a whole one");
    assert_eq!(RdmData::parse(message.data).expect("of an endpoint").features, 0);
}

#[test]
fn a_new_connection_is_answered_beside_a_quiet_one() {
    let node = Node::with(SHARING);
    let _quiet = share(&node);
    let mut stranger = Stranger::connect(&node);
    stranger.send(&request(77));
    let (mut polls, mut bytes) = (0, [0; 40]);
    while (&stranger.0).read(&mut bytes).is_err() {
        polls += 1;
        assert!(polls < 10_000, "the kernel is looked at");
        node.poll();
    }
}
