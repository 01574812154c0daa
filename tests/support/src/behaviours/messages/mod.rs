//! Messages and tagged messages.

pub mod multi;
pub mod peek;
pub mod pieces;
pub mod tagged_multi;
pub mod tags;
pub mod truncated;
pub mod unsignaled;

use loom_core::endpoint::RecvOptions;
use loom_core::endpoint::{Endpoint, Source};
use loom_core::error::PostError;
use loom_core::info::Info;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Caps, CompletionFlags, ImmediateData, Tag, TagMatch};

use crate::behaviours::needs::{Behaviour, MSG, TAGGED, tags};
use crate::behaviours::pair::{Bytes, OrCut, SIZES, carries_data, masks, most, on_pair, pattern, retry, room};

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    vec![
        ("message_reaches_posted_receive", MSG, message_reaches_posted_receive),
        ("message_waits_for_its_receive", MSG, message_waits_for_its_receive),
        ("messages_go_both_ways", MSG, messages_go_both_ways),
        ("tagged_message_reaches_posted_receive", TAGGED, tagged_message_reaches_posted_receive),
        ("tagged_message_waits_for_its_receive", TAGGED, tagged_message_waits_for_its_receive),
        ("tags_choose_the_receive", TAGGED, tags_choose_the_receive),
        ("ignored_bits_of_a_tag_match_anything", TAGGED, ignored_bits_of_a_tag_match_anything),
        ("oldest_receive_that_accepts_takes_the_message", TAGGED, oldest_receive_that_accepts_takes_the_message),
        ("messages_of_one_sender_keep_their_order", MSG, messages_of_one_sender_keep_their_order),
        ("tags_and_plain_messages_do_not_mix", TAGGED, tags_and_plain_messages_do_not_mix),
        ("immediate_data_arrives_with_the_message", MSG, immediate_data_arrives_with_the_message),
        ("injected_bytes_can_be_reused_at_once", MSG, injected_bytes_can_be_reused_at_once),
        ("too_long_to_inject_is_refused", MSG, too_long_to_inject_is_refused),
        ("directed_receive_takes_one_peer_or_is_refused", MSG, directed_receive_takes_one_peer_or_is_refused),
        ("directed_receives_stand_in_line_with_the_others", TAGGED, directed_receives_stand_in_line_with_the_others),
        (
            "plain_directed_receives_stand_in_line_with_the_others",
            MSG,
            plain_directed_receives_stand_in_line_with_the_others,
        ),
        ("source_is_the_sender_where_granted", MSG, source_is_the_sender_where_granted),
        (
            "longest_message_arrives_and_a_longer_one_is_refused",
            MSG,
            longest_message_arrives_and_a_longer_one_is_refused,
        ),
    ]
}

fn message_reaches_posted_receive<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        for (seed, len) in SIZES.map(|len| most(info, len)).into_iter().enumerate() {
            let received = pair.post(room(len), |buf| pair.b.recv(Source::Any, buf));
            let sent = pair.post(pattern(len, seed), |buf| pair.a.send(pair.to_b, buf));
            let (buf, transfer) = pair.finish(received);
            assert_eq!(transfer.len, len);
            assert!(transfer.flags.contains(CompletionFlags::RECV), "{}", transfer.flags);
            assert_eq!(transfer.tag, None);
            assert_eq!(transfer.data, None);
            assert!(buf == pattern(len, seed), "{len} bytes arrive unchanged");
            let (buf, transfer) = pair.finish(sent);
            assert_eq!(transfer.len, len);
            assert!(buf == pattern(len, seed), "the sender's buffer comes back unchanged");
        }
    });
}

fn message_waits_for_its_receive<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        for (seed, len) in SIZES.map(|len| most(info, len)).into_iter().enumerate() {
            let sent = pair.post(pattern(len, seed), |buf| pair.a.send(pair.to_b, buf));
            // Both sides make progress without a receive.
            for _ in 0..1000 {
                pair.cq.progress().or_cut("the queue works");
            }
            let received = pair.post(room(len + 3), |buf| pair.b.recv(Source::Any, buf));
            let (buf, transfer) = pair.finish(received);
            assert_eq!(transfer.len, len);
            assert!(buf[..len] == pattern(len, seed)[..], "{len} bytes arrive unchanged");
            assert!(buf[len..] == room(3)[..], "bytes beyond the message are not touched");
            pair.finish(sent);
        }
    });
}

fn messages_go_both_ways<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        for round in 0..20 {
            let at_b = pair.post(room(100), |buf| pair.b.recv(Source::Any, buf));
            let at_a = pair.post(room(100), |buf| pair.a.recv(Source::Any, buf));
            let from_a = pair.post(pattern(100, round), |buf| pair.a.send(pair.to_b, buf));
            let from_b = pair.post(pattern(100, round + 50), |buf| pair.b.send(pair.to_a, buf));
            assert_eq!(pair.finish(at_b).0, pattern(100, round));
            assert_eq!(pair.finish(at_a).0, pattern(100, round + 50));
            pair.finish(from_a);
            pair.finish(from_b);
        }
    });
}

fn tagged_message_reaches_posted_receive<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        for (seed, len) in SIZES.map(|len| most(info, len)).into_iter().enumerate() {
            let tag = Tag(0x1234_5678_0000 + seed as u64);
            let received = pair.post(room(len), |buf| pair.b.tagged_recv(Source::Any, tag, buf));
            let sent = pair.post(pattern(len, seed), |buf| pair.a.tagged_send(pair.to_b, tag, buf));
            let (buf, transfer) = pair.finish(received);
            assert_eq!((transfer.len, transfer.tag), (len, Some(tag)));
            assert!(buf == pattern(len, seed), "{len} bytes arrive unchanged");
            pair.finish(sent);
        }
    });
}

fn tagged_message_waits_for_its_receive<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        for (seed, len) in SIZES.map(|len| most(info, len)).into_iter().enumerate() {
            let sent = pair.post(pattern(len, seed), |buf| pair.a.tagged_send(pair.to_b, Tag(5), buf));
            for _ in 0..1000 {
                pair.cq.progress().or_cut("the queue works");
            }
            let received = pair.post(room(len), |buf| pair.b.tagged_recv(Source::Any, Tag(5), buf));
            let (buf, transfer) = pair.finish(received);
            assert_eq!(transfer.len, len);
            assert!(buf == pattern(len, seed), "{len} bytes arrive unchanged");
            pair.finish(sent);
        }
    });
}

fn tags_choose_the_receive<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let tags = [3u8, 1, 4, 15, 9, 2, 6];
        let receives = tags.map(|tag| pair.post(room(32), |buf| pair.b.tagged_recv(Source::Any, Tag(tag.into()), buf)));
        let mut sorted = tags;
        sorted.sort_unstable();
        let sends = sorted
            .map(|tag| pair.post(pattern(32, tag.into()), |buf| pair.a.tagged_send(pair.to_b, Tag(tag.into()), buf)));
        for (tag, key) in tags.into_iter().zip(receives) {
            let (buf, transfer) = pair.finish(key);
            assert_eq!(transfer.tag, Some(Tag(tag.into())));
            assert_eq!(buf, pattern(32, tag.into()));
        }
        for key in sends {
            pair.finish(key);
        }
    });
}

fn ignored_bits_of_a_tag_match_anything<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let wanted = TagMatch { tag: Tag(0xa00), ignore: 0x0ff };
        let send =
            |tag: u16| pair.post(pattern(8, tag.into()), |buf| pair.a.tagged_send(pair.to_b, Tag(tag.into()), buf));
        let receive = |want: TagMatch| pair.post(room(8), |buf| pair.b.tagged_recv(Source::Any, want, buf));
        let is_received = |key, tag: u16| {
            let (buf, transfer) = pair.finish(key);
            assert_eq!((transfer.tag, buf), (Some(Tag(tag.into())), pattern(8, tag.into())));
        };
        let masks = masks(info);
        if masks {
            let received = receive(wanted);
            let sends = [0xb42, 0xa42].map(send);
            // 0xb42 differs in a compared bit.
            is_received(received, 0xa42);
            is_received(receive(TagMatch::ANY), 0xb42);
            for key in sends {
                pair.finish(key);
            }
        } else {
            // A receive that never ends would be worse.
            crate::report::not_granted();
            for want in [wanted, TagMatch { tag: Tag(0xa00), ignore: 1 << 63 }, TagMatch::ANY] {
                let rejected = pair.b.tagged_recv(Source::Any, want, room(8)).expect_err("it is refused");
                assert_eq!((rejected.error, rejected.value), (PostError::MaskedTag, room(8)));
                let rejected = pair.b.tagged_recv_with(Source::Any, want, RecvOptions::default(), room(8));
                assert_eq!(rejected.map(drop).map_err(|rejected| rejected.error), Err(PostError::MaskedTag));
            }
            assert_eq!(pair.cq.in_flight(), 0);
        }
        // Messages that arrive before their receives: the last one arrives after all others.
        let sends = [0xa01, 0xb01, 0xa02, 0xb02, 0xc00].map(send);
        is_received(receive(Tag(0xc00).into()), 0xc00);
        for key in sends {
            pair.finish(key);
        }
        for tag in [0xa01, 0xa02] {
            is_received(receive(if masks { wanted } else { Tag(tag.into()).into() }), tag);
        }
        // The masked receives leave the messages of the exact ones.
        for tag in [0xb02, 0xb01] {
            is_received(receive(Tag(tag.into()).into()), tag);
        }
    });
}

/// Returns a match for every tag if bits can be ignored, or for the given one.
fn any_or<T: Transport + 'static>(info: &Info<T>, tag: Tag) -> TagMatch {
    if masks(info) {
        return TagMatch::ANY;
    }
    crate::report::partly(
        "loom refuses receives with ignored bits, because they would miss messages that have arrived \
            (`shm-masked-receive-misses-what-has-arrived`)",
    );
    tag.into()
}

fn oldest_receive_that_accepts_takes_the_message<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let any = pair.post(room(8), |buf| pair.b.tagged_recv(Source::Any, any_or(info, Tag(7)), buf));
        let exact = pair.post(room(8), |buf| pair.b.tagged_recv(Source::Any, Tag(7), buf));
        let first = pair.post(pattern(8, 1), |buf| pair.a.tagged_send(pair.to_b, Tag(7), buf));
        let second = pair.post(pattern(8, 2), |buf| pair.a.tagged_send(pair.to_b, Tag(7), buf));
        let arrived = [any, exact].map(|key| pair.finish(key).0);
        assert_eq!(arrived, [pattern(8, 1), pattern(8, 2)], "the wildcard was posted first");
        pair.finish(first);
        pair.finish(second);
    });
}

fn messages_of_one_sender_keep_their_order<T: Transport + 'static>(info: &Info<T>) {
    const COUNT: usize = 20;
    on_pair(info, |pair| {
        // Short and long ones use different protocols, and still keep their order.
        let longest = most(info, 100_000);
        let len = |seed: usize| if seed.is_multiple_of(3) { longest } else { 16 };
        let sends: Vec<_> =
            (0..COUNT).map(|seed| pair.post(pattern(len(seed), seed), |buf| pair.a.send(pair.to_b, buf))).collect();
        let receives: Vec<_> =
            (0..COUNT).map(|_| pair.post(room(longest), |buf| pair.b.recv(Source::Any, buf))).collect();
        let arrived: Vec<_> = receives.into_iter().map(|key| pair.finish(key)).collect();
        for (seed, (buf, transfer)) in arrived.into_iter().enumerate() {
            assert_eq!(transfer.len, len(seed), "message {seed}");
            assert!(buf[..len(seed)] == pattern(len(seed), seed)[..], "message {seed} arrives in turn");
        }
        for key in sends {
            pair.finish(key);
        }
    });
}

fn tags_and_plain_messages_do_not_mix<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let tagged = pair.post(room(8), |buf| pair.b.tagged_recv(Source::Any, any_or(info, Tag(0)), buf));
        let plain = pair.post(room(8), |buf| pair.b.recv(Source::Any, buf));
        let sends = [
            pair.post(pattern(8, 1), |buf| pair.a.send(pair.to_b, buf)),
            pair.post(pattern(8, 2), |buf| pair.a.tagged_send(pair.to_b, Tag(0), buf)),
        ];
        assert_eq!(pair.finish(plain).0, pattern(8, 1));
        assert_eq!(pair.finish(tagged).0, pattern(8, 2));
        for key in sends {
            pair.finish(key);
        }
    });
}

fn immediate_data_arrives_with_the_message<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let data = ImmediateData(0x0123_4567);
        if !carries_data(info) {
            crate::report::not_granted();
            let rejected = pair.a.send_data(pair.to_b, data, pattern(8, 1)).expect_err("it is not granted");
            assert_eq!((rejected.error, rejected.value), (PostError::DataWidth { limit: 0 }, pattern(8, 1)));
            assert_eq!(pair.a.inject_data(pair.to_b, data, &room(8)), Err(PostError::DataWidth { limit: 0 }));
            return pair.warm_up();
        }
        for len in [0, 64] {
            let received = pair.post(room(len), |buf| pair.b.recv(Source::Any, buf));
            let sent = pair.post(pattern(len, 1), |buf| pair.a.send_data(pair.to_b, data, buf));
            assert_eq!(pair.finish(received).1.data, Some(data));
            pair.finish(sent);

            if !tags(info) {
                continue;
            }
            let received = pair.receive(1, len);
            let sent = pair.post(pattern(len, 2), |buf| pair.a.tagged_send_data(pair.to_b, Tag(1), data, buf));
            let (buf, transfer) = pair.finish(received);
            assert_eq!((transfer.data, transfer.tag), (Some(data), Some(Tag(1))));
            assert_eq!(buf, pattern(len, 2));
            pair.finish(sent);
        }
    });
}

fn injected_bytes_can_be_reused_at_once<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let limit = pair.a.inject_size().min(256);
        let mut bytes = pattern(limit, 1).into_vec();
        let plain = pair.post(room(limit), |buf| pair.b.recv(Source::Any, buf));
        let other = pair.receive(9, limit);
        retry(pair.cq, || pair.a.inject(pair.to_b, &bytes));
        bytes.copy_from_slice(&pattern(limit, 2));
        retry(pair.cq, || match tags(info) {
            true => pair.a.tagged_inject(pair.to_b, Tag(9), &bytes),
            false => pair.a.inject(pair.to_b, &bytes),
        });
        bytes.fill(0);
        assert_eq!(pair.finish(plain).0, pattern(limit, 1));
        assert_eq!(pair.finish(other).0, pattern(limit, 2));
        if !carries_data(info) {
            return;
        }

        let data = ImmediateData(77);
        let plain = pair.post(room(4), |buf| pair.b.recv(Source::Any, buf));
        let other = pair.receive(9, 4);
        retry(pair.cq, || pair.a.inject_data(pair.to_b, data, &pattern(4, 3)));
        retry(pair.cq, || match tags(info) {
            true => pair.a.tagged_inject_data(pair.to_b, Tag(9), data, &pattern(4, 4)),
            false => pair.a.inject_data(pair.to_b, data, &pattern(4, 4)),
        });
        for (key, seed) in [(plain, 3), (other, 4)] {
            let (buf, transfer) = pair.finish(key);
            assert_eq!(transfer.data, Some(data));
            assert_eq!(buf, pattern(4, seed));
        }
    });
}

fn too_long_to_inject_is_refused<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let limit = pair.a.inject_size();
        let long = pattern(limit + 1, 1);
        assert_eq!(pair.a.inject(pair.to_b, &long), Err(PostError::TooLong { limit }));
        if tags(info) {
            assert_eq!(pair.a.tagged_inject(pair.to_b, Tag(1), &long), Err(PostError::TooLong { limit }));
        }
        pair.warm_up();
    });
}

fn directed_receive_takes_one_peer_or_is_refused<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        if !info.caps().contains(Caps::DIRECTED_RECV) {
            crate::report::not_granted();
            let rejected = pair.b.recv(pair.to_a, room(8)).expect_err("not granted");
            assert_eq!(rejected.error, PostError::NotGranted(Caps::DIRECTED_RECV));
            assert_eq!(rejected.value, room(8), "the buffer comes back");
            let rejected = pair.b.tagged_recv(pair.to_a, Tag(1), room(8)).expect_err("not granted");
            let missing = if tags(info) { Caps::DIRECTED_RECV } else { Caps::TAGGED };
            assert_eq!(rejected.error, PostError::NotGranted(missing));
            return;
        }
        if !tags(info) {
            // Without tags, the test uses plain messages.
            return plain_directed_receives_stand_in_line_with_the_others(info);
        }
        let c = pair.cq.endpoint(pair.av).expect("endpoint c");
        let to_c = pair.av.insert(&c.address().expect("address of c")).expect("c in the vector");
        let from_c = pair.post(room(8), |buf| pair.b.tagged_recv(to_c, Tag(1), buf));
        let from_a = pair.post(room(8), |buf| pair.b.tagged_recv(Source::Peer(pair.to_a), Tag(1), buf));
        let sends = [
            pair.post(pattern(8, 1), |buf| pair.a.tagged_send(pair.to_b, Tag(1), buf)),
            pair.post(pattern(8, 2), |buf| c.tagged_send(pair.to_b, Tag(1), buf)),
        ];
        assert_eq!(pair.finish(from_a).0, pattern(8, 1));
        assert_eq!(pair.finish(from_c).0, pattern(8, 2));
        for key in sends {
            pair.finish(key);
        }
    });
}

fn directed_receives_stand_in_line_with_the_others<T: Transport + 'static>(info: &Info<T>) {
    directed_among_others(info, true);
}

fn plain_directed_receives_stand_in_line_with_the_others<T: Transport + 'static>(info: &Info<T>) {
    directed_among_others(info, false);
}

fn directed_among_others<T: Transport + 'static>(info: &Info<T>, tagged: bool) {
    on_pair(info, |pair| {
        if !info.caps().contains(Caps::DIRECTED_RECV) || !(tagged || T::quirks(info.raw()).directed_recv) {
            crate::report::not_granted();
            let rejected = pair.b.recv(pair.to_a, room(8)).expect_err("it is not granted");
            assert_eq!((rejected.error, rejected.value), (PostError::NotGranted(Caps::DIRECTED_RECV), room(8)));
            return;
        }
        let c = pair.cq.endpoint(pair.av).expect("endpoint c");
        let to_c = pair.av.insert(&c.address().expect("address of c")).expect("c in the vector");
        let receive = |from| {
            pair.post(
                room(8),
                |buf| {
                    if tagged { pair.b.tagged_recv(from, Tag(1), buf) } else { pair.b.recv(from, buf) }
                },
            )
        };
        let send = |endpoint: &Endpoint<'_, T, Bytes>, seed| {
            pair.post(pattern(8, seed), |buf| {
                if tagged { endpoint.tagged_send(pair.to_b, Tag(1), buf) } else { endpoint.send(pair.to_b, buf) }
            })
        };
        let [from_c, open, from_a] = [to_c.into(), Source::Any, pair.to_a.into()].map(receive);
        let first = send(&pair.a, 1);
        assert_eq!(pair.finish(open).0, pattern(8, 1), "the oldest that accepts it");
        let second = send(&pair.a, 2);
        assert_eq!(pair.finish(from_a).0, pattern(8, 2));
        let third = send(&c, 3);
        assert_eq!(pair.finish(from_c).0, pattern(8, 3));
        for key in [first, second, third] {
            pair.finish(key);
        }
    });
}

fn source_is_the_sender_where_granted<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let c = pair.cq.endpoint(pair.av).expect("endpoint c");
        let to_c = pair.av.insert(&c.address().expect("address of c")).expect("c in the vector");
        for (endpoint, peer) in [(&pair.a, pair.to_a), (&c, to_c), (&pair.a, pair.to_a)] {
            let received = pair.post(room(8), |buf| pair.b.recv(Source::Any, buf));
            let sent = pair.post(pattern(8, 1), |buf| endpoint.send(pair.to_b, buf));
            let source = pair.finish(received).1.source;
            if info.caps().contains(Caps::SOURCE) {
                let source = source.expect("the provider grants sources");
                assert_eq!(pair.av.peer(source), Some(peer));
            } else {
                crate::report::not_granted();
                assert_eq!(source, None);
            }
            pair.finish(sent);
        }
    });
}

fn longest_message_arrives_and_a_longer_one_is_refused<T: Transport + 'static>(info: &Info<T>) {
    let limit = info.attributes().endpoint.max_msg_size;
    if limit > 1 << 24 {
        return crate::report::partly("The tests send no message of the greatest length");
    }
    on_pair(info, |pair| {
        let longer = pattern(limit + 1, 1);
        let rejected = pair.a.send(pair.to_b, longer.clone()).expect_err("too long");
        assert_eq!(rejected.error, PostError::TooLong { limit });
        assert!(rejected.value == longer, "the buffer comes back");
        let received = pair.post(room(limit), |buf| pair.b.recv(Source::Any, buf));
        let sent = pair.post(pattern(limit, 2), |buf| pair.a.send(pair.to_b, buf));
        let (buf, transfer) = pair.finish(received);
        assert!(transfer.len == limit && buf == pattern(limit, 2));
        pair.finish(sent);
    });
}
