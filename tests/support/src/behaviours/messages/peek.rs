//! Peeks at messages before their receives, claims and discards.

use loom_core::completion::{Claim, Completion, Found, Peek};
use loom_core::cq::{CqAttr, CqError};
use loom_core::deadline::Deadline;
use loom_core::endpoint::Source;
use loom_core::engine::op_table::OpKey;
use loom_core::error::PostError;
use loom_core::info::Info;
use loom_core::transport::{Claims, Transport};
use loom_core::vocabulary::{Caps, Errno, ImmediateData, Tag, TagMatch};

use crate::behaviours::needs::{Behaviour, TAGGED};
use crate::behaviours::pair::{LIMIT, OrCut, Pair, carries_data, limit, on_pair, on_pair_with, pattern, room};

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    vec![
        ("a_peek_finds_arrived_messages", TAGGED, a_peek_finds_arrived_messages),
        ("a_peek_without_a_message_is_empty", TAGGED, a_peek_without_a_message_is_empty),
        ("a_peek_matches_by_tag_and_source", TAGGED, a_peek_matches_by_tag_and_source),
        ("a_claimed_message_matches_no_other_receive", TAGGED, a_claimed_message_matches_no_other_receive),
        ("claims_need_a_queue_for_them", TAGGED, claims_need_a_queue_for_them),
        ("a_discarded_message_is_gone", TAGGED, a_discarded_message_is_gone),
        ("a_claimed_message_can_be_discarded", TAGGED, a_claimed_message_can_be_discarded),
        ("claims_end_with_their_endpoint", TAGGED, claims_end_with_their_endpoint),
    ]
}

/// Opens a pair that peeks. For transports without peeks, checks the refusal.
fn on_peeking_pair<T: Transport + 'static>(info: &Info<T>, test: impl FnOnce(&Pair<'_, '_, T>)) {
    on_pair_with(info, CqAttr { claims: true, ..CqAttr::new(64) }, |pair| {
        if !T::quirks(info.raw()).peek {
            crate::report::not_granted();
            let error = pair.b.tagged_peek(Source::Any, Tag(1)).expect_err("it would be a receive");
            return assert_eq!(error, PostError::Errno(Errno::EOPNOTSUPP));
        }
        pair.warm_up();
        test(pair);
    });
}

fn answer<T: Transport + 'static>(pair: &Pair<'_, '_, T>, key: OpKey) -> Peek {
    let peek = pair.cq.wait_peek(key, limit()).or_cut("the queue works").expect("an answer in time");
    assert_eq!(peek.key, key);
    peek
}

/// Posts one peek, with retries.
fn ask<T: Transport + 'static>(pair: &Pair<'_, '_, T>, ask: impl Fn() -> Result<OpKey, PostError>) -> OpKey {
    let mut deadline = limit();
    loop {
        match ask() {
            Ok(key) => return key,
            Err(error) if error.is_transient() && !deadline.passed() => {
                pair.cq.progress().or_cut("the queue works");
            }
            Err(error) => return Err(error).or_cut("a peek"),
        }
    }
}

fn find<T: Transport + 'static>(pair: &Pair<'_, '_, T>, peek: impl Fn() -> Result<OpKey, PostError>) -> Found {
    let mut deadline = limit();
    while !deadline.passed() {
        if let Some(found) = answer(pair, ask(pair, &peek)).message().or_cut("the peek works") {
            return found;
        }
    }
    panic!("no message within {LIMIT:?}");
}

fn send<T: Transport + 'static>(pair: &Pair<'_, '_, T>, tag: u64, len: usize, seed: usize) -> OpKey {
    pair.post(pattern(len, seed), |buf| match carries_data(pair.domain.info()) {
        true => pair.a.tagged_send_data(pair.to_b, Tag(tag), ImmediateData(77), buf),
        false => pair.a.tagged_send(pair.to_b, Tag(tag), buf),
    })
}

fn receive<T: Transport + 'static>(pair: &Pair<'_, '_, T>, tag: u64, len: usize) -> OpKey {
    pair.post(room(len), |buf| pair.b.tagged_recv(Source::Any, Tag(tag), buf))
}

fn fetch<T: Transport + 'static>(pair: &Pair<'_, '_, T>, claim: Claim, len: usize) -> OpKey {
    pair.post(room(len), |buf| pair.b.tagged_claim(claim, buf))
}

/// Lengths of messages that wait together. Over `net`, a message that it does not buffer blocks
/// those behind it.
fn sizes<T: Transport + 'static>(info: &Info<T>, longest: usize) -> impl Iterator<Item = (usize, usize)> {
    let net = info.provider() == "net";
    if net {
        crate::report::partly(
            "Only short messages can be claimed or discarded: a long one holds up those behind it \
            until it is received",
        );
    }
    let longest = if net { 8 } else { longest };
    [0, 8, 5000, 1 << 20].into_iter().filter(move |len| *len <= longest).enumerate()
}

fn a_peek_finds_arrived_messages<T: Transport + 'static>(info: &Info<T>) {
    on_peeking_pair(info, |pair| {
        for (seed, len) in [0, 8, 5000, 1 << 20].into_iter().enumerate() {
            let sent = send(pair, 5, len, seed);
            for _ in 0..3 {
                let found = find(pair, || pair.b.tagged_peek(Source::Any, Tag(5)));
                assert_eq!((found.len, found.tag, found.claim), (len, Tag(5), None));
                assert!(found.data.is_none_or(|data| data == ImmediateData(77)), "{found:?}");
            }
            let received = receive(pair, 5, len);
            let (buf, transfer) = pair.finish(received);
            assert_eq!(transfer.len, len);
            if info.provider() == "sockets" && transfer.data.is_none() {
                crate::report::partly(
                    "A receive of a message that has waited does not report the immediate data \
                        (`sockets-immediate-data-is-not-told`)",
                );
            } else {
                assert_eq!(transfer.data, carries_data(info).then_some(ImmediateData(77)));
            }
            assert!(buf == pattern(len, seed), "it is all there, however often it was looked at");
            pair.finish(sent);
            let key = ask(pair, || pair.b.tagged_peek(Source::Any, Tag(5)));
            assert!(answer(pair, key).message().or_cut("the peek works").is_none(), "it is gone");
        }
    });
}

fn a_peek_without_a_message_is_empty<T: Transport + 'static>(info: &Info<T>) {
    on_peeking_pair(info, |pair| {
        for _ in 0..200 {
            let key = ask(pair, || pair.b.tagged_peek(Source::Any, TagMatch::ANY));
            assert!(answer(pair, key).message().or_cut("the peek works").is_none());
            assert_eq!(pair.cq.wait_peek(key, limit()).expect_err("it was answered"), CqError::UnknownKey);
        }
        let key = ask(pair, || pair.b.tagged_peek(Source::Any, Tag(1)));
        let mut deadline = limit();
        let peek = loop {
            match pair.cq.poll().or_cut("the queue works") {
                Some(Completion::Peek(peek)) => break peek,
                Some(other) => panic!("{other:?}"),
                None => assert!(!deadline.passed(), "no answer"),
            }
        };
        assert_eq!((peek.key, peek.message().or_cut("the peek works").is_none()), (key, true));
        assert_eq!(pair.cq.in_flight(), 0);
        // No peek takes a later message.
        let sent = send(pair, 1, 100, 1);
        let received = receive(pair, 1, 100);
        assert!(pair.finish(received).0 == pattern(100, 1));
        pair.finish(sent);
    });
}

fn a_peek_matches_by_tag_and_source<T: Transport + 'static>(info: &Info<T>) {
    on_peeking_pair(info, |pair| {
        let sends = [send(pair, 0x10, 10, 1), send(pair, 0x21, 20, 2), send(pair, 0x22, 30, 3)];
        // The youngest first: after its arrival, all have arrived.
        for (tag, len) in [(0x22, 30), (0x21, 20), (0x10, 10)] {
            assert_eq!(find(pair, || pair.b.tagged_peek(Source::Any, Tag(tag))).len, len);
        }
        let oldest = find(pair, || pair.b.tagged_peek(Source::Any, TagMatch::ANY));
        assert_eq!((oldest.tag, oldest.len), (Tag(0x10), 10));
        let some = find(pair, || pair.b.tagged_peek(Source::Any, TagMatch { tag: Tag(0x20), ignore: 0xf }));
        assert_eq!((some.tag, some.len), (Tag(0x21), 20));
        if info.caps().contains(Caps::DIRECTED_RECV) {
            assert_eq!(find(pair, || pair.b.tagged_peek(pair.to_a, Tag(0x21))).len, 20);
            let key = ask(pair, || pair.b.tagged_peek(pair.to_b, Tag(0x21)));
            assert!(answer(pair, key).message().or_cut("the peek works").is_none(), "it is not from b");
        }
        for (tag, len, seed) in [(0x21, 20, 2), (0x10, 10, 1), (0x22, 30, 3)] {
            let received = receive(pair, tag, len);
            assert!(pair.finish(received).0 == pattern(len, seed));
        }
        sends.into_iter().for_each(|key| drop(pair.finish(key)));
    });
}

fn a_claimed_message_matches_no_other_receive<T: Transport + 'static>(info: &Info<T>) {
    on_peeking_pair(info, |pair| {
        if !claims(pair) {
            return;
        }
        for (seed, len) in sizes(info, 1 << 20) {
            let sends = [1, 2, 3].map(|number| send(pair, 5, len, 10 * seed + number));
            let claim = |seed| {
                let found = find(pair, || pair.b.tagged_peek_claim(Source::Any, Tag(5)));
                assert_eq!((found.len, found.tag), (len, Tag(5)), "message {seed}");
                found.claim.expect("it was to be claimed")
            };
            let (first, second) = (claim(1), claim(2));
            let third = find(pair, || pair.b.tagged_peek(Source::Any, Tag(5)));
            assert_eq!(third.claim, None);
            // A refused buffer leaves the claim.
            let received = receive(pair, 5, len);
            assert!(pair.finish(received).0 == pattern(len, 10 * seed + 3), "a receive takes what is not claimed");
            let key = fetch(pair, second, len + 3);
            let (buf, transfer) = pair.finish(key);
            assert_eq!((transfer.len, transfer.tag), (len, Some(Tag(5))));
            assert!(buf[..len] == pattern(len, 10 * seed + 2)[..], "the second");
            let key = fetch(pair, first, len);
            assert!(pair.finish(key).0 == pattern(len, 10 * seed + 1), "the first");
            sends.into_iter().for_each(|key| drop(pair.finish(key)));
            for claim in [first, second] {
                let rejected = pair.b.tagged_claim(claim, room(8)).expect_err("it was fetched");
                assert_eq!((rejected.error, rejected.value), (PostError::UnknownClaim, room(8)));
            }
            assert_eq!(pair.cq.in_flight(), 0);
        }
        let key = ask(pair, || pair.b.tagged_peek_claim(Source::Any, Tag(5)));
        assert!(answer(pair, key).message().or_cut("the peek works").is_none(), "nothing is left");
        // A claim belongs to its endpoint.
        let sent = send(pair, 6, 8, 1);
        let claim = find(pair, || pair.b.tagged_peek_claim(Source::Any, Tag(6))).claim.expect("a claim");
        let rejected = pair.a.tagged_claim(claim, room(8)).expect_err("it is b's");
        assert_eq!(rejected.error, PostError::UnknownClaim);
        let key = fetch(pair, claim, 8);
        assert!(pair.finish(key).0 == pattern(8, 1));
        pair.finish(sent);
    });
}

fn claims_need_a_queue_for_them<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let quirks = T::quirks(info.raw());
        let claim = || pair.b.tagged_peek_claim(Source::Any, Tag(5));
        if quirks.peek && quirks.claims == Claims::ByContext {
            // Any queue is accepted.
            assert!(answer(pair, ask(pair, claim)).message().or_cut("the peek works").is_none());
        } else {
            assert_eq!(claim(), Err(PostError::Errno(Errno::EOPNOTSUPP)));
        }
    });
}

/// Returns `true` if messages can be claimed, and checks the refusal otherwise.
fn claims<T: Transport + 'static>(pair: &Pair<'_, '_, T>) -> bool {
    let claims = T::quirks(pair.domain.info().raw()).claims != Claims::Not;
    if !claims {
        crate::report::not_granted();
        let refused = Err(PostError::Errno(Errno::EOPNOTSUPP));
        assert_eq!(pair.b.tagged_peek_claim(Source::Any, Tag(5)), refused);
    }
    claims
}

/// Returns `true` if messages can be discarded, and checks the refusal otherwise.
fn discards<T: Transport + 'static>(pair: &Pair<'_, '_, T>) -> bool {
    let discards = T::quirks(pair.domain.info().raw()).discard;
    if !discards {
        crate::report::not_granted();
        let refused = Err(PostError::Errno(Errno::EOPNOTSUPP));
        assert_eq!(pair.b.tagged_peek_discard(Source::Any, Tag(5)), refused);
    }
    discards
}

/// Waits until a message has arrived to its last byte: a message that was sent after it has
/// arrived.
fn arrive<T: Transport + 'static>(pair: &Pair<'_, '_, T>) {
    let behind = send(pair, 99, 8, 9);
    let received = receive(pair, 99, 8);
    pair.finish(received);
    pair.finish(behind);
}

fn a_discarded_message_is_gone<T: Transport + 'static>(info: &Info<T>) {
    on_peeking_pair(info, |pair| {
        if !discards(pair) {
            return;
        }
        for (_, len) in sizes(info, 5000) {
            let sends = [send(pair, 5, len, 1), send(pair, 5, len, 2)];
            arrive(pair);
            let found = find(pair, || pair.b.tagged_peek_discard(Source::Any, Tag(5)));
            assert_eq!((found.tag, found.claim), (Tag(5), None));
            let received = receive(pair, 5, len);
            assert!(pair.finish(received).0 == pattern(len, 2), "the next one is received");
            sends.into_iter().for_each(|key| drop(pair.finish(key)));
            let key = ask(pair, || pair.b.tagged_peek_discard(Source::Any, Tag(5)));
            assert!(answer(pair, key).message().or_cut("the peek works").is_none());
        }
        pair.warm_up();
    });
}

fn a_claimed_message_can_be_discarded<T: Transport + 'static>(info: &Info<T>) {
    on_peeking_pair(info, |pair| {
        if !discards(pair) {
            return;
        }
        for (_, len) in sizes(info, 5000) {
            let sends = [send(pair, 5, len, 1), send(pair, 5, len, 2)];
            arrive(pair);
            let claim = find(pair, || pair.b.tagged_peek_claim(Source::Any, Tag(5))).claim.expect("a claim");
            let key = ask(pair, || pair.b.tagged_discard(claim));
            let found = answer(pair, key).message().or_cut("the discard works").expect("there was a message");
            assert_eq!(found.claim, None);
            assert_eq!(pair.b.tagged_discard(claim), Err(PostError::UnknownClaim));
            let received = receive(pair, 5, len);
            assert!(pair.finish(received).0 == pattern(len, 2), "the next one is received");
            sends.into_iter().for_each(|key| drop(pair.finish(key)));
        }
        assert_eq!(pair.cq.in_flight(), 0);
        pair.warm_up();
    });
}

fn claims_end_with_their_endpoint<T: Transport + 'static>(info: &Info<T>) {
    on_peeking_pair(info, |pair| {
        if !claims(pair) {
            return;
        }
        let c = pair.cq.endpoint(pair.av).expect("endpoint c");
        let to_c = pair.av.insert(&c.address().expect("address of c")).expect("c in the vector");
        let longest = if info.provider() == "net" { 8 } else { 100_000 };
        let sends = [8, longest].map(|len| pair.post(pattern(len, 1), |buf| pair.a.tagged_send(to_c, Tag(5), buf)));
        let claims = [(); 2].map(|()| find(pair, || c.tagged_peek_claim(Source::Any, Tag(5))).claim.expect("a claim"));
        let asked = ask(pair, || c.tagged_peek(Source::Any, Tag(6)));
        drop(c);
        if info.provider() != "shm" {
            // Its answer may have arrived before.
            let waited = pair.cq.wait_peek(asked, limit());
            assert!(waited.is_ok_and(|peek| peek.is_some()) || waited.is_err_and(|error| error == CqError::UnknownKey));
        }
        for claim in claims {
            assert_eq!(pair.b.tagged_claim(claim, room(8)).expect_err("it is nobody's").error, PostError::UnknownClaim);
        }
        // The short message has completed, and the long one's buffer returns with its endpoint at
        // the latest.
        let _ = pair.end(sends[0]);
        pair.warm_up();
    });
}
