//! Peers that break the protocol: each ends its own link alone.

use std::time::{Duration, Instant};

use loom_core::av::Av;
use loom_core::completion::Completion;
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Spins;
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::error::PostError;
use loom_core::mr::Mr;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::vocabulary::{Access, Errno, ImmediateData, Tag, TagMatch};
use loom_tagged::Source as Anybody;
use loom_tagged::wire::{Body, HEADER_LEN, Header};
use loom_tagged::{Carrier, LinkError, Packet, TaggedAttr, TaggedEndpoint, TaggedEvent, Violation, WithPeer};
use proptest::prelude::*;

use super::world::nodes::{Buf, FITS, SMALL, packets, pattern, room};

const PACKET: u64 = SMALL.packet_size as u64;

/// Credits that a peer may grant at first, until it receives more than a greeting.
const CREDITS: [u32; 2] = [4, 4];

fn packet(seq: u32, credits: [u32; 2], body: Body, follow: &[u8]) -> Vec<u8> {
    [&Header { seq, credits, body }.encode(u32::try_from(follow.len()).unwrap()), follow].concat()
}

/// Packet number `seq` with valid credits.
fn good(seq: u32, body: Body, follow: &[u8]) -> Vec<u8> {
    packet(seq, CREDITS, body, follow)
}

fn hello() -> Vec<u8> {
    good(0, Body::Hello { packet_size: PACKET }, b"")
}

fn eager(seq: u32, tag: u64) -> Vec<u8> {
    good(seq, Body::Eager { tag: Tag(tag), data: None }, b"eager")
}

/// Plays the packets of a peer from its third on. This side has posted a receive of tag 9, a
/// receive of tag 8 with a message of 900 bytes in flight, and a request of 900 bytes to the peer.
/// `story` takes the operation of that request and the receive of tag 8. Returns the error of the
/// link.
fn meet(story: impl FnOnce(u64, u64) -> Vec<Vec<u8>>) -> Option<LinkError> {
    let network = Network::new(NetworkAttr::DEFAULT).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 4).unwrap();
    let cq = Cq::<_, Packet<Buf>>::open(&domain, CqAttr::new(64)).unwrap();
    let strange_cq = Cq::<_, Vec<u8>>::open(&domain, CqAttr::new(64)).unwrap();
    let (endpoint, stranger) = (cq.endpoint(&av).unwrap(), strange_cq.endpoint(&av).unwrap());
    let [to_it, to_stranger] =
        [endpoint.address(), stranger.address()].map(|address| av.insert(&address.unwrap()).unwrap());
    let mut layer = TaggedEndpoint::<_, Vec<u8>, _>::open(cq, SMALL).unwrap();
    let link = layer.add_link(WithPeer::new(&endpoint, to_stranger), packets(&SMALL)).unwrap();
    let waits = layer.tagged_recv(link, Tag(9), room(30)).unwrap();
    let arriving = layer.tagged_recv(link, Tag(8), room(900)).unwrap();
    let send = |bytes: Vec<u8>| {
        let key = stranger.send(to_it, bytes).unwrap();
        strange_cq.wait(key, Spins(1000)).unwrap();
    };
    let next = || {
        let key = stranger.recv(Source::Peer(to_it), vec![0; SMALL.packet_size as usize]).unwrap();
        let (bytes, result) = strange_cq.wait(key, Spins(1000)).unwrap().expect("a packet").into_parts();
        Header::decode(&bytes[..result.unwrap().len]).unwrap().0.body
    };
    assert_eq!(next(), Body::Hello { packet_size: PACKET });
    let mut asked = None;
    let mut told = (0, 0);
    let mut error = None;
    let mut ended = 0;
    let mut story = Some(story);
    for step in 0..2 {
        let packets = match step {
            0 => vec![hello(), good(1, Body::Request { tag: Tag(8), data: None, len: 900, sender: 77 }, b"")],
            _ => story.take().unwrap()(told.0, told.1),
        };
        packets.into_iter().for_each(send);
        for _ in 0..8 {
            while let Some(event) = layer.poll().unwrap() {
                match event {
                    TaggedEvent::LinkFailed { link: of, error: why } => {
                        assert_eq!((of, error.replace(why)), (link, None), "once");
                    }
                    TaggedEvent::Op(done) => {
                        ended += 1;
                        let errno = done.result().err().map(|error| error.errno);
                        assert!(errno.is_none() || errno == Some(Errno::EPROTO), "{errno:?}");
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        if step == 0 {
            assert_eq!(error, None);
            asked = Some(layer.tagged_send(link, Tag(1), pattern(900, 1)).unwrap());
            let Body::Clear { len: 900, sender: 77, receiver } = next() else { panic!("an answer") };
            let Body::Request { tag: Tag(1), len: 900, sender, .. } = next() else { panic!("a request") };
            told = (sender, receiver);
        }
    }
    assert_eq!(layer.link_error(link), error);
    if error.is_some() {
        assert_eq!(layer.in_flight(), 0, "everything has ended");
        assert_eq!(ended, 3, "{waits:?}, {arriving:?} and {asked:?}");
        let refused = layer.tagged_send(link, Tag(1), room(1)).unwrap_err();
        assert_eq!(refused.error, PostError::Errno(Errno::EPROTO));
        while layer.tagged_peek_discard(Anybody::Any, TagMatch::ANY).is_some() {}
    }
    error
}

#[test]
fn a_peer_that_keeps_to_the_protocol_is_no_stranger() {
    assert_eq!(meet(|_, _| vec![]), None);
    assert_eq!(meet(|_, _| vec![eager(2, 9), eager(3, 1), eager(4, 1)]), None);
    // Out of order.
    assert_eq!(meet(|_, _| vec![eager(4, 1), eager(2, 9), eager(3, 1)]), None);
    let all = |asked, receiver| {
        let segment = |seq| good(seq, Body::Segment { receiver }, &pattern(FITS, 0));
        vec![good(3, Body::Clear { len: 900, sender: asked, receiver: 5 }, b""), segment(2)]
    };
    assert_eq!(meet(all), None);
    // Withdrawals of answered or unknown requests are allowed.
    assert_eq!(
        meet(|_, _| vec![good(2, Body::Withdraw { sender: 77 }, b""), good(3, Body::Withdraw { sender: 78 }, b"")]),
        None
    );
}

/// Measures the time to process three withdrawals of unknown requests.
fn time_of_withdrawals(attr: TaggedAttr) -> Duration {
    let network = Network::new(NetworkAttr { tx_depth: 2048, rx_depth: 2048, ..NetworkAttr::DEFAULT }).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let cq = Cq::<_, Packet<Buf>>::open(&domain, CqAttr::new(2048)).unwrap();
    let strange_cq = Cq::<_, Vec<u8>>::open(&domain, CqAttr::new(64)).unwrap();
    let (endpoint, stranger) = (cq.endpoint(&av).unwrap(), strange_cq.endpoint(&av).unwrap());
    let [to_it, to_stranger] =
        [endpoint.address(), stranger.address()].map(|address| av.insert(&address.unwrap()).unwrap());
    let mut layer = TaggedEndpoint::<_, Vec<u8>, _>::open(cq, attr).unwrap();
    let link = layer.add_link(WithPeer::new(&endpoint, to_stranger), packets(&attr)).unwrap();
    let send = |bytes: Vec<u8>| {
        let key = stranger.send(to_it, bytes).unwrap();
        assert!(strange_cq.wait(key, Spins(1000)).unwrap().is_some());
    };
    send(hello());
    layer.progress().unwrap();
    assert!(layer.is_up(link));
    (1..=3).for_each(|seq| send(good(seq, Body::Withdraw { sender: 77 }, b"")));
    let begun = Instant::now();
    layer.progress().unwrap();
    let took = begun.elapsed();
    assert_eq!(layer.link_error(link), None);
    took
}

/// The cost of a withdrawal does not grow with the capacity for other peers.
#[test]
fn withdrawal_of_a_peer_searches_only_its_own_messages() {
    let large = TaggedAttr { links: 64, messages: 1024, ..SMALL };
    let shortest = |attr| (0..5).map(|_| time_of_withdrawals(attr)).min().unwrap();
    let (small, large) = (shortest(SMALL), shortest(large));
    assert!(large < 20 * small, "{large:?}, and {small:?} where little can wait");
}

/// Skipping the events of writes to exposed memory is bounded.
#[test]
fn a_peer_that_writes_all_the_time_does_not_keep_whoever_polls() {
    let network = Network::new(NetworkAttr { tx_depth: 512, rx_depth: 512, ..NetworkAttr::DEFAULT }).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let cq = Cq::<_, Packet<Buf>>::open(&domain, CqAttr::new(64)).unwrap();
    let strange_cq = Cq::<_, Vec<u8>>::open(&domain, CqAttr::new(64)).unwrap();
    let (endpoint, stranger) = (cq.endpoint(&av).unwrap(), strange_cq.endpoint(&av).unwrap());
    let [to_it, to_stranger] =
        [endpoint.address(), stranger.address()].map(|address| av.insert(&address.unwrap()).unwrap());
    let exposed = Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE).unwrap();
    let mut layer = TaggedEndpoint::<_, Vec<u8>, _>::open(cq.clone(), SMALL).unwrap();
    let link = layer.add_link(WithPeer::new(&endpoint, to_stranger), packets(&SMALL)).unwrap();
    // Sends its own greeting.
    layer.progress().unwrap();
    for _ in 0..200 {
        stranger.inject_write_data(to_it, &exposed.remote(), 0, ImmediateData(7), b"written").unwrap();
    }
    let key = stranger.send(to_it, hello()).unwrap();
    assert!(WithPeer::<_, Buf>::poll(&cq).unwrap().is_none());
    let more = cq.poll().unwrap().expect("the rest is for the next time");
    assert!(matches!(more, Completion::Remote(_)));
    let rests = (0..200).position(|_| {
        layer.progress().unwrap();
        layer.is_up(link)
    });
    assert!(rests.is_some() && strange_cq.wait(key, Spins(1000)).unwrap().is_some());
}

#[test]
fn invalid_packets_end_the_link() {
    for (junk, error) in [
        (vec![], Violation::Short { len: 0 }),
        (vec![0; HEADER_LEN - 1], Violation::Short { len: HEADER_LEN - 1 }),
        (vec![0xff; HEADER_LEN], Violation::Magic),
        (b"GET / HTTP/1.1\r\nHost: example.org\r\nUser-Agent: someone who is lost\r\n\r\n".to_vec(), Violation::Magic),
        ([&hello()[..2], &[9], &hello()[3..]].concat(), Violation::Version(9)),
        ([&hello()[..3], &[77], &hello()[4..]].concat(), Violation::Kind(77)),
        ([&eager(2, 1)[..], b"!"].concat(), Violation::Length),
        ([&eager(2, 1)[..21], &[1], &eager(2, 1)[22..]].concat(), Violation::Unused),
    ] {
        assert_eq!(meet(|_, _| vec![junk]), Some(LinkError::Protocol(error)));
    }
    // The carrier reports a message longer than a packet.
    let long = meet(|_, _| vec![good(2, Body::Eager { tag: Tag(1), data: None }, &pattern(FITS + 1, 0))]);
    assert!(matches!(long, Some(LinkError::Carrier(error)) if error.errno == Errno::ETRUNC), "{long:?}");
}

#[test]
fn repeated_or_early_packets_end_the_link() {
    let repeated = Some(LinkError::Protocol(Violation::Repeated));
    let beyond = Some(LinkError::Protocol(Violation::Beyond));
    assert_eq!(meet(|_, _| vec![eager(2, 1), eager(2, 1)]), repeated);
    assert_eq!(meet(|_, _| vec![eager(3, 1), eager(3, 1)]), repeated);
    assert_eq!(meet(|_, _| vec![eager(1, 1)]), repeated);
    assert_eq!(meet(|_, _| vec![eager(2 + 8, 1)]), beyond);
    assert_eq!(meet(|_, _| vec![eager(1 << 30, 1)]), beyond);
    assert_eq!(
        meet(|_, _| vec![good(2, Body::Hello { packet_size: PACKET }, b"")]),
        Some(LinkError::Protocol(Violation::Hello))
    );
}

#[test]
fn overdrawn_or_invalid_credit_ends_the_link() {
    let overdrawn = Some(LinkError::Protocol(Violation::Overdrawn));
    let not_granted = Some(LinkError::Protocol(Violation::NotGranted));
    // Four messages, one of them sent before.
    assert_eq!(meet(|_, _| (2..5).map(|seq| eager(seq, 1)).collect()), None);
    assert_eq!(meet(|_, _| (2..6).map(|seq| eager(seq, 1)).collect()), None, "the credit of the first is free");
    assert_eq!(meet(|_, _| (2..7).map(|seq| eager(seq, 1)).collect()), overdrawn);
    for credits in [[3, 4], [4, 3], [7, 4], [4, 8], [u32::MAX, 4], [4, 1 << 31], [0, 0]] {
        assert_eq!(meet(|_, _| vec![packet(2, credits, Body::Credit, b"")]), not_granted, "{credits:?}");
    }
}

#[test]
fn unsolicited_answers_end_the_link() {
    let unasked = Some(LinkError::Protocol(Violation::Unasked));
    let stories: [fn(u64, u64) -> Body; 8] = [
        |asked, _| Body::Clear { len: 901, sender: asked, receiver: 5 },
        |asked, _| Body::Clear { len: u64::MAX, sender: asked, receiver: 5 },
        |asked, _| Body::Clear { len: 1, sender: asked + 1, receiver: 5 },
        |asked, _| Body::Clear { len: 1, sender: asked + (1 << 32), receiver: 5 },
        |_, _| Body::Clear { len: 0, sender: u64::MAX, receiver: 5 },
        |_, receiver| Body::Clear { len: 1, sender: receiver, receiver: 5 },
        |asked, _| Body::Withdrawn { sender: asked },
        |_, _| Body::Withdrawn { sender: 0 },
    ];
    for story in stories {
        assert_eq!(meet(|asked, receiver| vec![good(2, story(asked, receiver), b"")]), unasked);
    }
    let cleared = |len| move |asked, _| good(len, Body::Clear { len: 900, sender: asked, receiver: 5 }, b"");
    assert_eq!(meet(|asked, _| vec![cleared(2)(asked, 0), cleared(3)(asked, 0)]), unasked);
    // Segments of an unknown receive, of a receive without a message, and beyond the requested
    // length.
    let segment = |seq, receiver: u64| good(seq, Body::Segment { receiver }, &pattern(FITS, 0));
    assert_eq!(meet(|_, _| vec![segment(2, 1 << 40)]), unasked);
    assert_eq!(meet(|_, receiver| vec![segment(2, receiver - 1)]), unasked);
    assert_eq!(meet(|_, receiver| vec![segment(2, receiver + (1 << 32))]), unasked);
    // The receive of 30 bytes was posted before the other one.
    let request = || good(2, Body::Request { tag: Tag(9), data: None, len: 50, sender: 78 }, b"");
    let of_waiting = |receiver: u64, len| good(3, Body::Segment { receiver: receiver - 1 }, &pattern(len, 0));
    assert_eq!(meet(|_, receiver| vec![request(), of_waiting(receiver, 29)]), None);
    assert_eq!(meet(|_, receiver| vec![request(), of_waiting(receiver, 31)]), unasked);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn no_packets_do_harm(
        packets in proptest::collection::vec(
            (0u32..12, any::<[u8; 2]>(), any::<u8>(), 0..HEADER_LEN, any::<u8>(), 0u64..4, any::<bool>()),
            0..6,
        ),
    ) {
        meet(|asked, receiver| {
            let bytes = |(seq, [messages, control], kind, at, byte, number, junk): (u32, [u8; 2], u8, usize, u8, u64, bool)| {
                let tag = Tag(number + 7);
                let (body, follow): (_, &[u8]) = match kind % 8 {
                    0 => (Body::Hello { packet_size: number * 40 }, b""),
                    1 => (Body::Eager { tag, data: None }, b"bytes"),
                    2 => (Body::Request { tag, data: None, len: number * 40, sender: number }, b""),
                    3 => (Body::Clear { len: number * 40, sender: asked + number / 3, receiver: number }, b""),
                    4 => (Body::Segment { receiver: receiver - number % 2 }, b"segment"),
                    5 => (Body::Withdraw { sender: number + 76 }, b""),
                    6 => (Body::Withdrawn { sender: asked + number / 3 }, b""),
                    _ => (Body::Credit, b""),
                };
                let credits = [4 + u32::from(messages % 3), 4 + u32::from(control % 3)];
                let mut bytes = packet(seq, credits, body, follow);
                if junk {
                    bytes[at] = byte;
                }
                bytes
            };
            packets.into_iter().map(bytes).collect()
        });
    }
}
