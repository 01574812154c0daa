//! One test for each rule.

use std::time::{Duration, Instant};

use loom_core::cq::CqError;
use loom_core::deadline::Spins;
use loom_core::error::PostError;
use loom_core::vocabulary::{Errno, ImmediateData, Tag, TagMatch};
use loom_tagged::{LinkError, Source, TaggedAttr, TaggedEvent};

use super::world::nodes::{FITS, Nodes, SMALL, link, pattern, room, with_nodes};

/// Lengths in bytes around the limits of a packet, of a few segments, and of the credit for
/// segments.
const SIZES: [usize; 11] = [0, 1, FITS - 1, FITS, FITS + 1, 2 * FITS, 2 * FITS + 1, 5 * FITS, 1000, 10_000, 100_000];

#[test]
fn messages_of_every_length_arrive_whether_they_are_expected_or_not() {
    for shuffled in [None, Some(1), Some(2)] {
        with_nodes(2, SMALL, shuffled, |nodes| {
            for (seed, len) in SIZES.into_iter().enumerate() {
                for expected in [true, false] {
                    let receive = |nodes: &mut Nodes<'_>| {
                        nodes.nodes[1].layer.tagged_recv(Source::Any, Tag(7), room(len + 3)).unwrap()
                    };
                    let before = expected.then(|| receive(nodes));
                    let sent = nodes.send_data(0, 1, 7, 99, pattern(len, seed)).unwrap();
                    nodes.settle();
                    let received = before.unwrap_or_else(|| receive(nodes));
                    let done = nodes.done(1);
                    assert_eq!((done.key(), done.link()), (received, Some(nodes.ids[0])));
                    let (bytes, result) = done.into_parts();
                    let transfer = result.unwrap();
                    assert_eq!((transfer.len, transfer.tag), (len, Some(Tag(7))));
                    assert_eq!(transfer.data, Some(ImmediateData(99)));
                    assert!(bytes[..len] == pattern(len, seed) && bytes[len..] == [0xee; 3], "{len} bytes");
                    let done = nodes.done(0);
                    assert_eq!((done.key(), done.result().unwrap().len), (sent, len));
                    assert_eq!(done.into_buf(), pattern(len, seed));
                    assert_eq!((nodes.nodes[0].layer.in_flight(), nodes.nodes[1].layer.in_flight()), (0, 0));
                }
            }
        });
    }
}

#[test]
fn messages_of_one_tag_are_received_in_the_order_in_which_they_were_sent() {
    for shuffled in [None, Some(3), Some(4), Some(5)] {
        with_nodes(2, SMALL, shuffled, |nodes| {
            let lens = [FITS, FITS + 1, 0, 5000, 3, 700, FITS, 1];
            let mut sent = 0;
            for (nth, len) in lens.into_iter().enumerate() {
                nodes.nodes[1].layer.tagged_recv(Source::Any, Tag(1), room(len)).unwrap();
                while nodes.send(0, 1, 1, pattern(len, nth)) == Err(PostError::Again) {
                    nodes.settle();
                }
                sent += 1;
            }
            nodes.settle();
            let mut received: Vec<_> = nodes.events(1).into_iter().collect();
            assert_eq!((received.len(), sent), (lens.len(), lens.len()));
            for (nth, len) in lens.into_iter().enumerate() {
                // Long messages may complete later.
                let at = received
                    .iter()
                    .position(|event| matches!(event, TaggedEvent::Op(done) if *done.buf() == pattern(len, nth)));
                let TaggedEvent::Op(done) = received.swap_remove(at.expect("each of them")) else { unreachable!() };
                assert_eq!(done.result().unwrap().len, len);
            }
            if shuffled.is_some() {
                assert!(nodes.nodes[0].wires[0].overtook.get() > 0, "the control: nothing was shuffled");
            }
        });
    }
}

#[test]
fn a_sender_without_credit_is_refused_and_everything_arrives() {
    with_nodes(2, SMALL, None, |nodes| {
        const MESSAGES: usize = 500;
        let lens = |nth: usize| [10, FITS, FITS + 1, 300][nth % 4];
        let (mut sent, mut refused) = (0, 0);
        // Without receives, the peer accepts as many messages as it has packets for.
        loop {
            match nodes.send(0, 1, sent as u64, pattern(lens(sent), sent)) {
                Ok(_) => sent += 1,
                Err(error) => {
                    assert_eq!(error, PostError::Again);
                    refused += 1;
                    nodes.settle();
                    if refused > 20 {
                        break;
                    }
                }
            }
        }
        assert_eq!((sent, nodes.nodes[1].layer.waiting()), (4, 4));
        let before = nodes.nodes[0].wires[0].sent.get();
        nodes.settle();
        assert_eq!(nodes.nodes[0].wires[0].sent.get(), before, "nothing is sent again and again");
        // The other direction is not blocked.
        nodes.nodes[0].layer.tagged_recv(Source::Any, Tag(5), room(4000)).unwrap();
        nodes.send(1, 0, 5, pattern(4000, 5)).unwrap();
        assert_eq!(nodes.done(1).result().unwrap().len, 4000);
        let (mut ended, mut received) = (0, 0);
        let mut back = false;
        while received < MESSAGES {
            let want = Tag(received as u64);
            nodes.nodes[1].layer.tagged_recv(nodes.ids[0], want, room(lens(received))).unwrap();
            while sent < MESSAGES && sent <= received + 4 {
                match nodes.send(0, 1, sent as u64, pattern(lens(sent), sent)) {
                    Ok(_) => sent += 1,
                    Err(error) => {
                        assert_eq!(error, PostError::Again);
                        break;
                    }
                }
            }
            let done = nodes.done(1);
            assert_eq!(done.into_buf(), pattern(lens(received), received));
            received += 1;
            for event in nodes.events(0) {
                let TaggedEvent::Op(done) = event else { panic!("{event:?}") };
                let transfer = done.result().unwrap();
                match transfer.tag {
                    Some(_) => back = done.into_buf() == pattern(4000, 5),
                    None => ended += 1,
                }
            }
        }
        assert!(back && ended == MESSAGES);
    });
}

#[test]
fn a_message_that_is_too_long_is_cut_and_the_rest_is_not_sent() {
    with_nodes(2, SMALL, Some(9), |nodes| {
        for (len, fits) in [(FITS, FITS - 1), (10, 0), (10_000, 9_999), (10_000, 100), (10_000, 0)] {
            nodes.send_data(0, 1, 3, 4, pattern(len, 1)).unwrap();
            nodes.settle();
            let before = nodes.nodes[0].wires[0].sent.get();
            nodes.nodes[1].layer.tagged_recv(Source::Any, Tag(3), room(fits)).unwrap();
            let (bytes, result) = nodes.done(1).into_parts();
            let error = result.unwrap_err();
            assert_eq!((error.errno, error.len, error.overflow), (Errno::ETRUNC, Some(fits), Some(len - fits)));
            assert_eq!((error.tag, error.data), (Tag(3), ImmediateData(4)));
            assert_eq!(error.provider_errno, Errno::ETRUNC.as_raw());
            assert_eq!(bytes, pattern(len, 1)[..fits]);
            assert_eq!(nodes.done(0).result().unwrap().len, len, "the sender is not told");
            let segments = nodes.nodes[0].wires[0].sent.get() - before;
            assert!(segments <= fits.div_ceil(FITS) * 2 + 2, "{segments} packets for {fits} bytes");
        }
    });
}

#[test]
fn masks_and_links_choose_the_oldest_message_and_the_oldest_receive() {
    with_nodes(3, SMALL, None, |nodes| {
        let [first, second] = [nodes.ids[0], nodes.ids[1]];
        // Receives of node 2: a mask, one link, an exact tag, everything.
        let receives: [(Source, TagMatch); 4] = [
            (Source::Any, TagMatch { tag: Tag(0x10), ignore: 0xf }),
            (second.into(), Tag(0x20).into()),
            (Source::Any, Tag(0x20).into()),
            (Source::Any, TagMatch::ANY),
        ];
        let keys = receives.map(|(from, tag)| nodes.nodes[2].layer.tagged_recv(from, tag, room(900)).unwrap());
        let order = [
            (0, 0x20, keys[2], first),
            (1, 0x1f, keys[0], second),
            (1, 0x20, keys[1], second),
            (0, 0x20, keys[3], first),
        ];
        for (seed, (from, tag, key, link)) in order.into_iter().enumerate() {
            nodes.send(from, 2, tag, pattern(seed * 250, seed)).unwrap();
            let done = nodes.done(2);
            assert_eq!((done.key(), done.link()), (key, Some(link)));
            assert_eq!(done.buf()[..seed * 250], pattern(seed * 250, seed));
        }
    });
}

#[test]
fn messages_are_looked_at_claimed_and_thrown_away() {
    for shuffled in [None, Some(7)] {
        with_nodes(2, SMALL, shuffled, |nodes| {
            for (tag, len) in [(1, 10), (1, 500), (2, 0), (3, 9000)] {
                nodes.send(0, 1, tag, pattern(len, len)).unwrap();
                nodes.settle();
            }
            let layer = &mut nodes.nodes[1].layer;
            assert_eq!(layer.tagged_peek(Source::Any, Tag(9)), None);
            let found = layer.tagged_peek(Source::Any, Tag(1)).unwrap();
            assert_eq!((found.tag, found.len, found.data), (Tag(1), 10, None));
            assert_eq!(layer.tagged_peek(Source::Any, Tag(1)), Some(found));
            let (short, claim_short) = layer.tagged_peek_claim(Source::Any, Tag(1)).unwrap();
            let (long, claim_long) = layer.tagged_peek_claim(Source::Any, Tag(1)).unwrap();
            assert_eq!((short.len, long.len), (10, 500));
            assert_eq!(layer.tagged_peek(Source::Any, Tag(1)), None);
            assert_eq!(layer.tagged_peek_discard(Source::Any, TagMatch::ANY).unwrap().tag, Tag(2));
            layer.tagged_claim(claim_long, room(500)).unwrap();
            let refused = layer.tagged_claim(claim_long, room(1)).unwrap_err();
            assert_eq!((refused.error, refused.value), (PostError::UnknownClaim, room(1)));
            let (_, claim) = layer.tagged_peek_claim(Source::Any, Tag(3)).unwrap();
            assert_eq!(layer.tagged_discard(claim), Ok(()));
            assert_eq!(layer.tagged_discard(claim), Err(PostError::UnknownClaim));
            assert_eq!(nodes.done(1).into_buf(), pattern(500, 500));
            nodes.nodes[1].layer.tagged_claim(claim_short, room(10)).unwrap();
            assert_eq!(nodes.done(1).into_buf(), pattern(10, 10));
            nodes.settle();
            let sent = nodes.events(0);
            assert!(
                sent.len() == 4
                    && sent.iter().all(|event| matches!(event, TaggedEvent::Op(done) if done.result().is_ok()))
            );
        });
    }
}

#[test]
fn receives_are_cancelled_at_once_and_sends_before_a_receive_takes_them() {
    with_nodes(2, SMALL, Some(11), |nodes| {
        let receive = nodes.nodes[1].layer.tagged_recv(Source::Any, Tag(1), room(8)).unwrap();
        nodes.nodes[1].layer.cancel(receive).unwrap();
        let Some(TaggedEvent::Op(done)) = nodes.nodes[1].layer.poll().unwrap() else { panic!("at once") };
        let (buf, result) = done.into_parts();
        assert_eq!((buf, result.unwrap_err().errno), (room(8), Errno::ECANCELED));
        assert_eq!(nodes.nodes[1].layer.cancel(receive), Err(Errno::ENOENT));

        // The request has arrived, has not arrived yet, or its answer is in flight.
        for (settled, asked) in [(true, false), (false, false), (true, true)] {
            let send = nodes.send(0, 1, 2, pattern(900, 1)).unwrap();
            if settled {
                nodes.settle();
            }
            let taken = asked.then(|| nodes.nodes[1].layer.tagged_recv(Source::Any, Tag(2), room(900)).unwrap());
            nodes.nodes[0].layer.cancel(send).unwrap();
            nodes.nodes[0].layer.cancel(send).unwrap();
            let (buf, result) = nodes.done(0).into_parts();
            assert_eq!(buf, pattern(900, 1));
            match taken {
                None => assert_eq!(result.unwrap_err().errno, Errno::ECANCELED),
                Some(_) => {
                    assert_eq!(result.unwrap().len, 900, "it was too late");
                    assert_eq!(nodes.done(1).into_buf(), pattern(900, 1));
                }
            }
            assert_eq!(nodes.nodes[1].layer.waiting(), 0);
        }
        // An eager message cannot be cancelled.
        let send = nodes.send(0, 1, 3, pattern(9, 1)).unwrap();
        nodes.nodes[0].layer.cancel(send).unwrap();
        assert!(nodes.done(0).result().is_ok());
        assert_eq!(nodes.nodes[1].layer.waiting(), 1);
    });
}

#[test]
fn refused_posts_give_the_buffer_back_and_waiting_is_bounded() {
    let attr = TaggedAttr { operations: 2, ..SMALL };
    with_nodes(2, attr, None, |nodes| {
        let link = nodes.ids[0];
        let layer = &mut nodes.nodes[0].layer;
        let keys = [1, 2].map(|tag| layer.tagged_recv(link, Tag(tag), room(4)).unwrap());
        let refused = layer.tagged_recv(link, Tag(3), room(5)).unwrap_err();
        assert_eq!((refused.error, refused.value), (PostError::Full, room(5)));
        let refused = layer.tagged_send(link, Tag(3), pattern(5, 5)).unwrap_err();
        assert_eq!((refused.error, refused.value), (PostError::Full, pattern(5, 5)));
        let mut deadline = Spins(100);
        assert!(layer.wait(keys[0], &mut deadline).unwrap().is_none());
        assert_eq!(deadline.0, 0, "it has waited so long");
        layer.cancel(keys[0]).unwrap();
        assert!(layer.wait(keys[0], Spins(0)).unwrap().is_some());
        assert_eq!(layer.wait(keys[0], Spins(0)).unwrap_err(), CqError::UnknownKey);
        assert_eq!(layer.tagged_inject(link, Tag(1), &[0; FITS + 1]), Err(PostError::TooLong { limit: FITS }));
        assert_eq!(layer.tagged_inject(link, Tag(1), &pattern(FITS, 6)), Ok(()));
        nodes.settle();
        nodes.nodes[1].layer.tagged_recv(Source::Any, Tag(1), room(FITS)).unwrap();
        assert_eq!(nodes.done(1).into_buf(), pattern(FITS, 6));
        let layer = &mut nodes.nodes[0].layer;
        assert_eq!(layer.tagged_inject_data(link, Tag(1), ImmediateData(99), &pattern(3, 7)), Ok(()));
        nodes.settle();
        nodes.nodes[1].layer.tagged_recv(Source::Any, Tag(1), room(3)).unwrap();
        let (bytes, result) = nodes.done(1).into_parts();
        assert_eq!((bytes, result.unwrap().data), (pattern(3, 7), Some(ImmediateData(99))));
    });
}

#[test]
fn a_closed_link_ends_its_operations_and_keeps_arrived_messages() {
    with_nodes(3, SMALL, None, |nodes| {
        let [gone, stays] = [nodes.ids[0], nodes.ids[1]];
        nodes.send(0, 2, 1, pattern(9, 1)).unwrap();
        nodes.send(0, 2, 2, pattern(900, 1)).unwrap();
        nodes.settle();
        nodes.send(0, 2, 4, pattern(900, 1)).unwrap();
        nodes.settle();
        let layer = &mut nodes.nodes[2].layer;
        let (_, claim) = layer.tagged_peek_claim(gone, Tag(4)).unwrap();
        let directed = layer.tagged_recv(gone, Tag(7), room(70)).unwrap();
        let anybody = layer.tagged_recv(Source::Any, Tag(8), room(80)).unwrap();
        let asked = layer.tagged_send(gone, Tag(3), pattern(400, 4)).unwrap();
        layer.close_link(gone);
        let mut ended = Vec::new();
        while let Some(event) = layer.poll().unwrap() {
            match event {
                TaggedEvent::LinkFailed { link, error } => assert_eq!((link, error), (gone, LinkError::Closed)),
                TaggedEvent::Op(done) => ended.push((done.key(), done.result().unwrap_err().errno, done.buf().len())),
                other => panic!("{other:?}"),
            }
        }
        ended.sort_by_key(|(.., len)| *len);
        assert_eq!(ended, [(directed, Errno::ECANCELED, 70), (asked, Errno::ECANCELED, 400)]);
        assert_eq!(layer.tagged_peek(Source::Any, Tag(2)), None, "the rest of it would not come");
        layer.tagged_claim(claim, room(900)).unwrap();
        assert_eq!(nodes.done(2).result().unwrap_err().errno, Errno::ECANCELED);
        nodes.nodes[2].layer.tagged_recv(gone, Tag(1), room(9)).unwrap();
        assert_eq!(nodes.done(2).into_buf(), pattern(9, 1));
        let layer = &mut nodes.nodes[2].layer;
        let refused = layer.tagged_send(gone, Tag(1), room(1)).unwrap_err();
        assert_eq!(refused.error, PostError::Errno(Errno::ECANCELED));
        let refused = layer.tagged_recv(gone, Tag(1), room(1)).unwrap_err();
        assert_eq!(refused.error, PostError::Errno(Errno::ECANCELED));
        layer.close_link(gone);
        assert!(layer.is_up(stays) && layer.poll().unwrap().is_none());
        nodes.send(1, 2, 8, pattern(80, 8)).unwrap();
        let done = nodes.done(2);
        assert_eq!((done.key(), done.into_buf()), (anybody, pattern(80, 8)));
    });
}

#[test]
fn closing_gives_every_buffer_back() {
    with_nodes(2, SMALL, None, |nodes| {
        nodes.send(0, 1, 1, pattern(900, 1)).unwrap();
        nodes.send(0, 1, 2, pattern(9, 2)).unwrap();
        let link = nodes.ids[0];
        nodes.nodes[0].layer.tagged_recv(link, Tag(1), room(3)).unwrap();
        nodes.settle();
        let node = nodes.nodes.remove(0);
        let mut back = Vec::new();
        node.layer.close(|done| {
            let (buf, result) = done.into_parts();
            back.push((buf.len(), result.err().map(|error| error.errno)));
        });
        back.sort_unstable_by_key(|(len, _)| *len);
        assert_eq!(back, [(3, Some(Errno::ECANCELED)), (9, None), (900, Some(Errno::ECANCELED))]);
    });
}

#[test]
fn long_messages_pass_each_other() {
    for (control, sends, messages) in [(4, 1, 1), (4, 2, 1), (4, 8, 4), (5, 3, 2), (16, 16, 4)] {
        for shuffled in [None, Some(1), Some(2)] {
            with_nodes(3, TaggedAttr { control, sends, messages, ..SMALL }, shuffled, |nodes| {
                const LENS: [usize; 4] = [5000, FITS, 3000, 20_000];
                for (round, len) in LENS.into_iter().enumerate() {
                    for at in 0..3 {
                        for other in (0..3).filter(|other| *other != at) {
                            let from = nodes.ids[link(at, other)];
                            nodes.nodes[at].layer.tagged_recv(from, Tag(round as u64), room(len)).unwrap();
                        }
                    }
                }
                let pairs = (0..3).flat_map(|from| (0..3).filter(move |to| *to != from).map(move |to| (from, to)));
                let mut next: Vec<_> = pairs.map(|(from, to)| (from, to, 0)).collect();
                let mut ended = 0;
                let deadline = Instant::now() + Duration::from_secs(60);
                while ended < 2 * 3 * 2 * LENS.len() {
                    assert!(Instant::now() < deadline, "{ended} operations have ended; of {next:?}");
                    for (from, to, round) in &mut next {
                        if let Some(len) = LENS.get(*round)
                            && nodes.send(*from, *to, *round as u64, pattern(*len, *round)).is_ok()
                        {
                            *round += 1;
                        }
                    }
                    nodes.step();
                    for at in 0..3 {
                        for event in nodes.events(at) {
                            let TaggedEvent::Op(done) = event else { panic!("{event:?}") };
                            let transfer = done.result().unwrap();
                            if let Some(tag) = transfer.tag {
                                let round = usize::try_from(tag.0).unwrap();
                                assert!(done.into_buf() == pattern(LENS[round], round));
                            }
                            ended += 1;
                        }
                    }
                }
            });
        }
    }
}
