//! Multi-receives of tagged messages: one buffer for many messages that a tag accepts.

#![allow(unsafe_code, reason = "multi-receives over transports that do not promise to keep to their buffer")]

use loom_core::av::Av;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::{Binding, Endpoint, Source};
use loom_core::engine::op_table::OpKey;
use loom_core::error::{PostError, Rejected};
use loom_core::info::Info;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Caps, CompletionFlags, EndpointOption, Errno, ImmediateData, Tag, TagMatch};

use super::multi::{ONLY_BY_UNSAFE_FORM, end, has, nothing, piece, told};
use crate::behaviours::needs::{Behaviour, TAGGED_MULTI};
use crate::behaviours::pair::{Bytes, OrCut, Pair, is_strict, is_tested, pattern, room};
use crate::memory::allocator;

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    vec![
        ("tagged_messages_fill_one_buffer", TAGGED_MULTI, tagged_messages_fill_one_buffer),
        ("tags_decide_which_buffer_is_filled", TAGGED_MULTI, tags_decide_which_buffer_is_filled),
        ("long_tagged_message_is_truncated_in_a_buffer", TAGGED_MULTI, long_tagged_message_is_truncated_in_a_buffer),
        ("a_cancelled_buffer_of_tags_comes_back", TAGGED_MULTI, a_cancelled_buffer_of_tags_comes_back),
        (
            "a_buffer_of_tags_that_is_not_kept_to_is_refused",
            TAGGED_MULTI,
            a_buffer_of_tags_that_is_not_kept_to_is_refused,
        ),
    ]
}

/// Opens a pair. `b` returns a buffer when fewer than `min` bytes are left.
fn on_pair_with_min<T: Transport + 'static>(info: &Info<T>, min: usize, test: impl FnOnce(&Pair<'_, '_, T>)) {
    let domain = Domain::open(info).expect("domain");
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    let cq = Cq::open_in(&domain, CqAttr::new(128), allocator()).expect("queue");
    let a = cq.endpoint(&av).expect("endpoint a");
    let b = cq.endpoint(Binding::to(&av).option(EndpointOption::MIN_MULTI_RECV, min)).expect("endpoint b");
    let to_a = av.insert(&a.address().expect("address of a")).expect("a in the vector");
    let to_b = av.insert(&b.address().expect("address of b")).expect("b in the vector");
    let pair = Pair { cq: &cq, av: &av, domain: &domain, a, b, to_a, to_b };
    pair.warm_up();
    test(&pair);
}

/// Posts a multi-receive. Over a transport that may exceed the buffer, tests only send messages
/// that fit, and cancel it without messages in flight.
fn fill<T: Transport + 'static>(
    endpoint: &Endpoint<'_, T, Bytes>,
    from: Source,
    tag: TagMatch,
    buf: Bytes,
) -> Result<OpKey, Rejected<Bytes>> {
    match endpoint.tagged_multi_recv(from, tag, buf) {
        Err(Rejected { value: buf, error: PostError::NotSafe }) => {
            crate::report::partly(ONLY_BY_UNSAFE_FORM);
            // SAFETY: see the rule of this function.
            unsafe { endpoint.multi_recv_unchecked(from, Some(tag), buf) }
        }
        result => result,
    }
}

fn post<T: Transport + 'static>(pair: &Pair<'_, '_, T>, from: Source, tag: TagMatch, len: usize) -> OpKey {
    pair.post(room(len), |buf| fill(&pair.b, from, tag, buf))
}

fn send<T: Transport + 'static>(pair: &Pair<'_, '_, T>, tag: u64, bytes: Bytes) -> OpKey {
    pair.post(bytes, |buf| pair.a.tagged_send(pair.to_b, Tag(tag), buf))
}

/// Match that ignores the lower four of eight bits.
const SEVENTIES: TagMatch = TagMatch { tag: Tag(0x70), ignore: 0xf };

fn tagged_messages_fill_one_buffer<T: Transport + 'static>(info: &Info<T>) {
    on_pair_with_min(info, 100, |pair| {
        for round in 0..10 {
            let early = send(pair, 0x70, pattern(33, 99));
            if round % 2 == 1 {
                for _ in 0..1000 {
                    pair.cq.progress().or_cut("the queue works");
                }
            }
            let key = post(pair, Source::Any, SEVENTIES, 1000);
            let first = piece(pair);
            assert!(told(&first) == &pattern(33, 99)[..] && first.key() == key, "what was there first");
            pair.finish(early);
            let lens = [0, 1, 7, 64, 200, 250, 90, 128, 167];
            for (seed, len) in lens.into_iter().enumerate() {
                let (tag, data) = (Tag(0x71 + seed as u64), (seed % 2 == 1).then_some(ImmediateData(seed as u64)));
                let sent = pair.post(pattern(len, seed), |buf| match data {
                    None => pair.a.tagged_send(pair.to_b, tag, buf),
                    Some(data) => pair.a.tagged_send_data(pair.to_b, tag, data, buf),
                });
                let piece = piece(pair);
                let transfer = piece.result().or_cut("it arrives");
                assert_eq!((piece.key(), transfer.len, transfer.data, transfer.tag), (key, len, data, Some(tag)));
                let expected = CompletionFlags::TAGGED | CompletionFlags::RECV;
                assert!(transfer.flags.contains(expected), "{}", transfer.flags);
                assert!(told(&piece) == &pattern(len, seed)[..], "message {seed} of {len} bytes");
                if info.caps().contains(Caps::SOURCE) {
                    assert_eq!(transfer.source.and_then(|source| pair.av.peer(source)), Some(pair.to_a));
                }
                pair.finish(sent);
            }
            drop(first);
            let done = end(pair);
            assert_eq!(done.key(), key);
            let (buf, result) = done.into_parts();
            assert_eq!((result.or_cut("the operation succeeds").len, buf.len()), (0, 1000));
            assert!(lens.into_iter().enumerate().all(|(seed, len)| has(&buf, &pattern(len, seed))));
            assert_eq!(pair.cq.in_flight(), 0);
        }
    });
}

fn tags_decide_which_buffer_is_filled<T: Transport + 'static>(info: &Info<T>) {
    on_pair_with_min(info, 64, |pair| {
        let exact = post(pair, Source::Any, Tag(0x75).into(), 1000);
        let from_b = if info.caps().contains(Caps::DIRECTED_RECV) { Source::Peer(pair.to_b) } else { Source::Any };
        // A tag that no message has, directed to another sender.
        let directed = post(pair, from_b, TagMatch { tag: Tag(0x9_0000), ignore: 0xff }, 1000);
        let masked = post(pair, Source::Any, SEVENTIES, 1000);
        let expected = [(0x75, exact), (0x76, masked), (0x75, exact), (0x7f, masked), (0x70, masked)];
        for (seed, (tag, key)) in expected.into_iter().enumerate() {
            let sent = send(pair, tag, pattern(50, seed));
            let piece = piece(pair);
            assert_eq!((piece.key(), piece.result().or_cut("it arrives").tag), (key, Some(Tag(tag))));
            assert!(told(&piece) == &pattern(50, seed)[..]);
            pair.finish(sent);
        }
        // Another receive takes a message of another tag, and one without.
        for tagged in [true, false] {
            let (received, sent) = if tagged {
                let received = pair.post(room(8), |buf| pair.b.tagged_recv(Source::Any, Tag(0x80), buf));
                (received, send(pair, 0x80, pattern(8, 1)))
            } else {
                let received = pair.post(room(8), |buf| pair.b.recv(Source::Any, buf));
                (received, pair.post(pattern(8, 1), |buf| pair.a.send(pair.to_b, buf)))
            };
            assert_eq!(pair.finish(received).0, pattern(8, 1));
            pair.finish(sent);
        }
        for key in [exact, directed, masked] {
            pair.b.cancel(key).expect("cancel");
            pair.fail(key, Errno::ECANCELED);
        }
    });
}

fn long_tagged_message_is_truncated_in_a_buffer<T: Transport + 'static>(info: &Info<T>) {
    on_pair_with_min(info, 64, |pair| {
        let key = post(pair, Source::Any, SEVENTIES, 1000);
        let first = send(pair, 0x71, pattern(500, 1));
        assert!(told(&piece(pair)) == &pattern(500, 1)[..]);
        pair.finish(first);
        let second = send(pair, 0x72, pattern(600, 2));
        let failed = piece(pair);
        let error = failed.result().expect_err("it does not fit");
        assert_eq!((error.errno, failed.key(), failed.bytes().len()), (Errno::ETRUNC, key, 0));
        let _ = pair.end(second);
        drop(failed);
        let _ = pair.b.cancel(key);
        assert_eq!(pair.end(key).0.len(), 1000);
    });
}

fn a_cancelled_buffer_of_tags_comes_back<T: Transport + 'static>(info: &Info<T>) {
    on_pair_with_min(info, 64, |pair| {
        let key = post(pair, Source::Any, SEVENTIES, 1000);
        pair.b.cancel(key).expect("cancel");
        assert_eq!(pair.fail(key, Errno::ECANCELED).0, room(1000));

        let key = post(pair, Source::Any, SEVENTIES, 1000);
        let sent = send(pair, 0x71, pattern(100, 1));
        let held = piece(pair);
        pair.finish(sent);
        pair.b.cancel(key).expect("cancel");
        nothing(pair);
        assert!(told(&held) == &pattern(100, 1)[..], "it stays readable");
        drop(held);
        assert!(has(&pair.fail(key, Errno::ECANCELED).0, &pattern(100, 1)));

        let received = pair.post(room(10), |buf| pair.b.tagged_recv(Source::Any, SEVENTIES, buf));
        let sent = send(pair, 0x72, pattern(10, 2));
        assert!(pair.finish(received).0 == pattern(10, 2), "the next receive gets the next message");
        pair.finish(sent);
    });
}

fn a_buffer_of_tags_that_is_not_kept_to_is_refused<T: Transport + 'static>(info: &Info<T>) {
    on_pair_with_min(info, 64, |pair| {
        let safe = T::quirks(info.raw()).tagged_multi_recv;
        assert_eq!(safe, info.provider() == "soft" && !is_strict(info) && is_tested(info));
        if safe {
            let key = pair.post(room(100), |buf| pair.b.tagged_multi_recv(Source::Any, SEVENTIES, buf));
            pair.b.cancel(key).expect("cancel");
            pair.fail(key, Errno::ECANCELED);
        } else {
            let rejected = pair.b.tagged_multi_recv(Source::Any, SEVENTIES, room(100)).expect_err("it is not safe");
            assert_eq!((rejected.error, rejected.value), (PostError::NotSafe, room(100)));
        }
    });
}

/// Checks the refusal if they are not granted.
pub fn tagged_multi_receives_are_refused<T: Transport + 'static>(pair: &Pair<'_, '_, T>, missing: Caps) {
    let missing = missing & (Caps::TAGGED | Caps::TAGGED_MULTI_RECV);
    let refused = |posted: Result<OpKey, Rejected<Bytes>>| {
        let rejected = posted.expect_err("they are not granted");
        assert_eq!((rejected.error, rejected.value), (PostError::NotGranted(missing), room(64)));
    };
    refused(pair.b.tagged_multi_recv(Source::Any, SEVENTIES, room(64)));
    // SAFETY: the post is refused.
    refused(unsafe { pair.b.multi_recv_unchecked(Source::Any, Some(SEVENTIES), room(64)) });
}
