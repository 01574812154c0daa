//! Long tagged messages, which are sent on request.

use std::time::Instant;
use std::vec;
use std::vec::Vec;

use loom_core::{CompletionLevel, Errno, ImmediateData, OpKey, SendOptions, Source, Tag};

use super::sides::{LIMIT, Node, SMALL, Stranger, frame, pattern, polled, tagged};
use crate::TcpAttr;
use crate::wire::{ByteOrder, Frame, FrameFlags, Operation};

/// Messages of more than 1,000 bytes are announced.
const ANNOUNCING: TcpAttr = TcpAttr { rendezvous_size: 1000, tx_depth: 512, rx_depth: 512, ..SMALL };

fn recv(node: &Node, tag: u64, len: usize) -> OpKey {
    node.endpoint.tagged_recv(Source::Any, Tag(tag), vec![0; len]).expect("posted")
}

#[test]
fn long_messages_arrive_before_and_after_their_receives() {
    for level in [None, Some(CompletionLevel::Delivery)] {
        let [from, to] = [(), ()].map(|()| Node::with(ANNOUNCING));
        let (peer, _) = (from.knows(&to), to.knows(&from));
        let options = SendOptions { data: Some(ImmediateData(7)), level, ..SendOptions::default() };
        for (seed, len) in [0, 1000, 1001, 5000, 70_000, 1 << 20].into_iter().enumerate() {
            for is_early in [true, false] {
                let early = is_early.then(|| recv(&to, 5, len));
                let sent = from.endpoint.tagged_send_with(peer, Tag(5), options, pattern(len, seed)).expect("posted");
                if !is_early {
                    (0..200).for_each(|_| [&from, &to].into_iter().for_each(Node::poll));
                    assert!(len <= 1000 || !from.is_done(sent), "{len} bytes wait for a receive");
                }
                let received = early.unwrap_or_else(|| recv(&to, 5, len));
                polled([&from, &to], "a message", || from.is_done(sent) && to.is_done(received));
                from.cq.finish(sent, Instant::now() + LIMIT).expect("over").into_result().expect("sent");
                let (bytes, transfer) =
                    to.cq.finish(received, Instant::now() + LIMIT).expect("over").into_result().expect("received");
                assert!(bytes == pattern(len, seed), "{len} bytes");
                assert_eq!((transfer.len, transfer.data, transfer.tag), (len, options.data, Some(Tag(5))));
            }
        }
    }
}

/// More messages than numbers, the long ones with the tags of short ones.
#[test]
fn messages_of_a_tag_keep_their_order() {
    const MESSAGES: usize = 300;
    let [from, to] = [(), ()].map(|()| Node::with(ANNOUNCING));
    let (peer, _) = (from.knows(&to), to.knows(&from));
    let len = |number: usize| if number.is_multiple_of(7) { 100 } else { 1001 + number };
    let send = |number| from.endpoint.tagged_send(peer, Tag(number as u64 % 3), pattern(len(number), number));
    let sent: Vec<_> = (0..MESSAGES).map(|number| send(number).expect("posted")).collect();
    (0..500).for_each(|_| [&from, &to].into_iter().for_each(Node::poll));
    let received: Vec<_> = (0..MESSAGES).map(|number| recv(&to, number as u64 % 3, 2000)).collect();
    polled([&from, &to], "all messages", || received.iter().all(|key| to.is_done(*key)));
    for (number, key) in received.into_iter().enumerate() {
        let (bytes, transfer) = to.cq.finish(key, Instant::now()).expect("over").into_result().expect("received");
        assert!(bytes[..transfer.len] == pattern(len(number), number), "message {number}");
    }
    for key in sent {
        assert_eq!(from.result(key), Ok(()));
    }
}

#[test]
fn long_message_without_a_receive_holds_up_no_other() {
    // The control: without announcements it does.
    for rendezvous_size in [1000, u32::MAX] {
        let [from, to] = [(), ()].map(|()| Node::with(TcpAttr { rendezvous_size, ..SMALL }));
        let (peer, _) = (from.knows(&to), to.knows(&from));
        let long = from.endpoint.tagged_send(peer, Tag(1), pattern(1 << 20, 1)).expect("posted");
        let short = from.endpoint.tagged_send(peer, Tag(2), pattern(64, 2)).expect("posted");
        let received = recv(&to, 2, 64);
        (0..2000).for_each(|_| [&from, &to].into_iter().for_each(Node::poll));
        assert_eq!(to.is_done(received), rendezvous_size == 1000);
        let long_received = recv(&to, 1, 1 << 20);
        polled([&from, &to], "both", || to.is_done(received) && to.is_done(long_received));
        assert!(to.cq.finish(long_received, Instant::now()).expect("over").into_buf() == pattern(1 << 20, 1));
        assert_eq!((from.result(long), from.result(short), to.result(received)), (Ok(()), Ok(()), Ok(())));
    }
}

fn announcement(id: u8, tag: u64, len: u64) -> Vec<u8> {
    frame(Operation::ReadyToSend { id, tag, len, data: None }, FrameFlags::empty(), &[])
}

#[test]
fn receive_of_an_announced_message_fails_with_its_connection() {
    let (node, other) = (Node::with(ANNOUNCING), Node::open());
    let waiting = recv(&node, 7, 100);
    let mut stranger = Stranger::greet(&node, 9);
    stranger.send(&announcement(1, 7, 50));
    // The request.
    let request = stranger.receive(&node, 16);
    let (request, _) = Frame::parse(&request, ByteOrder::NATIVE).expect("a frame").expect("whole");
    assert_eq!(request.operation, Operation::ClearToSend { id: 1 });
    assert!(!node.is_done(waiting));
    drop(stranger);
    assert!(node.result(waiting).is_err_and(|errno| errno != Errno::ECANCELED));
    node.talks_to(&other);
    assert_eq!(node.cq.in_flight(), 0);
}

#[test]
fn receive_of_an_announced_message_can_be_cancelled() {
    let (node, other) = (Node::with(ANNOUNCING), Node::open());
    for sends in [true, false] {
        let waiting = recv(&node, 7, 100);
        let mut stranger = Stranger::greet(&node, 9);
        stranger.send(&announcement(1, 7, 50));
        stranger.receive(&node, 16);
        node.endpoint.cancel(waiting).expect("posted");
        assert_eq!(node.result(waiting), Err(Errno::ECANCELED));
        if sends {
            // Its bytes are dropped, and the connection goes on.
            let data = frame(Operation::Rendezvous { id: 1 }, FrameFlags::empty(), &[3; 50]);
            let next = recv(&node, 8, 4);
            stranger.send(&[data, tagged(8, &[1; 4])].concat());
            assert_eq!(node.result(next), Ok(()));
        }
        drop(stranger);
        node.talks_to(&other);
        assert_eq!(node.cq.in_flight(), 0);
    }
}

/// The peer's requests lie behind messages that wait for receives.
#[test]
fn long_messages_are_sent_at_once_while_the_connection_waits() {
    let [from, to] = [(), ()].map(|()| Node::with(TcpAttr { rendezvous_size: 1000, ..SMALL }));
    let (peer, back) = (from.knows(&to), to.knows(&from));
    let send = |tag| to.endpoint.tagged_send(back, Tag(tag), pattern(64, 1)).expect("posted");
    let flood: Vec<_> = (1..40).map(send).collect();
    (0..2000).for_each(|_| [&from, &to].into_iter().for_each(Node::poll));
    let received = recv(&to, 0, 1 << 20);
    let sent = from.endpoint.tagged_send(peer, Tag(0), pattern(1 << 20, 0)).expect("posted");
    polled([&from, &to], "the message", || from.is_done(sent) && to.is_done(received));
    assert_eq!((from.result(sent), to.result(received)), (Ok(()), Ok(())));
    drop(flood);
}

#[test]
fn receive_ends_although_its_peer_ended_while_it_was_paused() {
    let node = Node::with(ANNOUNCING);
    let mut stranger = Stranger::greet(&node, 9);
    node.av.insert(&core::net::SocketAddr::from(([127, 0, 0, 1], 9)).into()).expect("inserted");
    stranger.send(&announcement(1, 7, 50));
    (0..200).for_each(|_| stranger.send(&tagged(8, &[1; 8])));
    (0..500).for_each(|_| node.poll());
    drop(stranger);
    (0..500).for_each(|_| node.poll());
    let waiting = recv(&node, 7, 100);
    (0..100).for_each(|_| node.poll());
    let _ = node.endpoint.cancel(waiting);
    assert!(node.result(waiting).is_err());
}

#[test]
fn malformed_rendezvous_ends_its_connection_alone() {
    let (node, other) = (Node::with(ANNOUNCING), Node::open());
    let data = |id, len: usize| frame(Operation::Rendezvous { id }, FrameFlags::empty(), &vec![3; len]);
    let clear = |id| frame(Operation::ClearToSend { id }, FrameFlags::empty(), &[]);
    let cases = [
        ("more bytes", [announcement(1, 7, 50), data(1, 51)].concat()),
        ("fewer bytes", [announcement(1, 7, 50), data(1, 49)].concat()),
        ("another number", [announcement(1, 7, 50), data(2, 50)].concat()),
        ("a request without an announcement", clear(1)),
        ("twice the bytes", [announcement(1, 7, 50), data(1, 50), data(1, 50)].concat()),
    ];
    for (why, bytes) in cases {
        let waiting = recv(&node, 7, 100);
        let mut stranger = Stranger::greet(&node, 9);
        stranger.send(&bytes);
        stranger.ends(&node, why);
        match why {
            "twice the bytes" => assert_eq!(node.result(waiting), Ok(())),
            "a request without an announcement" => {
                node.endpoint.cancel(waiting).expect("posted");
                assert_eq!(node.result(waiting), Err(Errno::ECANCELED));
            }
            _ => assert!(node.result(waiting).is_err(), "{why}"),
        }
        node.talks_to(&other);
    }
    // Announcements beyond all room, without a receive: they wait, and other peers go on.
    let mut stranger = Stranger::greet(&node, 9);
    node.av.insert(&core::net::SocketAddr::from(([127, 0, 0, 1], 9)).into()).expect("inserted");
    (1..=254).chain(1..=46).for_each(|number| stranger.send(&announcement(number, 11, 1 << 40)));
    (0..200).for_each(|_| node.poll());
    node.talks_to(&other);
    drop(stranger);
    node.talks_to(&other);
}
