//! Claims and discards of messages that have not arrived, or have no room.

use core::net::SocketAddr;
use std::time::Instant;
use std::vec;
use std::vec::Vec;

use loom_core::completion::{Claim, Found};
use loom_core::{CompletionLevel, Deadline, Errno, OpKey, PostError, SendOptions, Source, Tag, TagMatch};

use super::sides::{LIMIT, Node, SMALL, Stranger, pattern, polled, tagged};
use crate::TcpAttr;

fn answer(node: &Node, key: OpKey) -> Option<Found> {
    let peek = node.cq.wait_peek(key, Instant::now() + LIMIT).expect("the queue works").expect("an answer");
    peek.message().expect("the peek works")
}

/// Peeks until there is a message, also while a peer sends.
fn find(nodes: [&Node; 2], peek: impl Fn(&Node) -> Result<OpKey, PostError>) -> Found {
    let mut until = Instant::now() + LIMIT;
    loop {
        nodes[0].poll();
        if let Some(found) = answer(nodes[1], peek(nodes[1]).expect("posted")) {
            return found;
        }
        assert!(!until.passed(), "a message");
    }
}

fn claim(nodes: [&Node; 2], tag: u64, len: usize) -> Claim {
    let found = find(nodes, |node| node.endpoint.tagged_peek_claim(Source::Any, Tag(tag)));
    assert_eq!((found.tag, found.len), (Tag(tag), len));
    let again = nodes[1].endpoint.tagged_peek(Source::Any, Tag(tag)).expect("posted");
    assert!(answer(nodes[1], again).is_none(), "no other peek finds it");
    found.claim.expect("a claim")
}

/// Messages that are kept, announced, and without room, each claimed and discarded. Their sends
/// complete, and the connection goes on.
#[test]
fn messages_of_all_lengths_are_claimed_and_discarded() {
    for rendezvous_size in [1000, u32::MAX] {
        let [from, to] = [(), ()].map(|()| Node::with(TcpAttr { rendezvous_size, ..SMALL }));
        let (both, (peer, _)) = ([&from, &to], (from.knows(&to), to.knows(&from)));
        let options = SendOptions { level: Some(CompletionLevel::Delivery), ..SendOptions::default() };
        for (seed, len) in [0, 100, 1001, 10_000, 1 << 20].into_iter().enumerate() {
            let send = || from.endpoint.tagged_send_with(peer, Tag(5), options, pattern(len, seed)).expect("posted");
            for discards in [false, true] {
                let sent = send();
                let claim = claim(both, 5, len);
                let end = if discards {
                    let found = answer(&to, to.endpoint.tagged_discard(claim).expect("posted"));
                    assert_eq!(found.map(|found| (found.len, found.tag)), Some((len, Tag(5))));
                    None
                } else {
                    // A receive does not take it.
                    let other = to.endpoint.tagged_recv(Source::Any, TagMatch::ANY, vec![0; 8]).expect("posted");
                    (0..50).for_each(|_| both.into_iter().for_each(Node::poll));
                    assert!(!to.is_done(other));
                    to.endpoint.cancel(other).expect("posted");
                    assert_eq!(to.result(other), Err(Errno::ECANCELED));
                    Some(to.endpoint.tagged_claim(claim, vec![0; len]).expect("posted"))
                };
                polled(both, "the message", || from.is_done(sent) && end.is_none_or(|end| to.is_done(end)));
                if let Some(end) = end {
                    let (bytes, transfer) =
                        to.cq.finish(end, Instant::now() + LIMIT).expect("over").into_result().expect("received");
                    assert_eq!((transfer.len, transfer.tag), (len, Some(Tag(5))));
                    assert!(bytes == pattern(len, seed), "{len} bytes");
                }
                assert_eq!(from.result(sent), Ok(()));
            }
            let sent = send();
            let found = find(both, |node| node.endpoint.tagged_peek_discard(Source::Any, Tag(5)));
            assert_eq!((found.len, found.claim), (len, None));
            polled(both, "the dropped message", || from.is_done(sent));
            assert_eq!(from.result(sent), Ok(()));
            from.talks_to(&to);
        }
        assert_eq!((from.cq.in_flight(), to.cq.in_flight()), (0, 0));
    }
}

/// Bytes that arrive behind the claim or discard go there.
#[test]
fn messages_are_claimed_before_their_last_byte() {
    let (node, other) = (Node::open(), Node::open());
    let mut stranger = Stranger::greet(&node, 9);
    let peer = node.av.insert(&SocketAddr::from(([127, 0, 0, 1], 9)).into()).expect("inserted");
    let both = [&other, &node];
    for discards in [false, true] {
        let bytes = tagged(5, &pattern(3000, 1));
        stranger.send(&bytes[..1000]);
        let claimed = claim(both, 5, 3000);
        stranger.send(&bytes[1000..2000]);
        (0..20).for_each(|_| node.poll());
        let fetched = if discards {
            answer(&node, node.endpoint.tagged_discard(claimed).expect("posted")).expect("a message");
            None
        } else {
            Some(node.endpoint.tagged_claim(claimed, vec![0; 3000]).expect("posted"))
        };
        stranger.send(&bytes[2000..]);
        stranger.send(&tagged(6, &[7; 8]));
        let next = node.endpoint.tagged_recv(peer, Tag(6), vec![0; 8]).expect("posted");
        assert_eq!(node.result(next), Ok(()));
        if let Some(fetched) = fetched {
            assert!(node.cq.finish(fetched, Instant::now() + LIMIT).expect("done").into_buf() == pattern(3000, 1));
        }
    }
    node.talks_to(&other);
    assert_eq!(node.cq.in_flight(), 0);
}

/// A message of a sender that is not in the vector has no room. A whole one stays after its
/// connection and peer, others end with the connection.
#[test]
fn claimed_messages_end_with_their_connection_or_stay() {
    let (node, other) = (Node::open(), Node::open());
    let both = [&other, &node];
    let whole = [tagged(5, &pattern(300, 1)), tagged(6, &pattern(300, 2))[..200].to_vec()].concat();
    for (inserts, fetches) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut stranger = Stranger::greet(&node, 9);
        let address = SocketAddr::from(([127, 0, 0, 1], 9)).into();
        let peer = inserts.then(|| node.av.insert(&address).expect("inserted"));
        stranger.send(&whole);
        let first = claim(both, 5, 300);
        let part = inserts.then(|| claim(both, 6, 300));
        drop(stranger);
        // Its end is noticed behind a message that waits.
        (0..50).for_each(|_| node.poll());
        if let Some(peer) = peer {
            assert!(node.av.remove(peer));
        }
        let end = |claim: Claim| {
            if fetches {
                let key = node.endpoint.tagged_claim(claim, vec![0; 300]).expect("posted");
                let (buf, result) = node.cq.finish(key, Instant::now() + LIMIT).expect("done").into_parts();
                result.is_ok().then_some(buf)
            } else {
                answer(&node, node.endpoint.tagged_discard(claim).expect("posted")).map(|_| Vec::new())
            }
        };
        let expected = if fetches { pattern(300, 1) } else { Vec::new() };
        assert!(end(first) == Some(expected), "the whole message");
        assert_eq!(part.and_then(end), None, "a part of a message");
        node.talks_to(&other);
        assert_eq!(node.cq.in_flight(), 0);
    }
}
