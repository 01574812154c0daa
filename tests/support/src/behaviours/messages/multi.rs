//! Multi-receives: one buffer for many messages.

#![allow(unsafe_code, reason = "multi-receives over providers that do not keep to their buffer")]

use loom_core::av::Av;
use loom_core::completion::{Completion, Done};
use loom_core::cq::{Cq, CqAttr, CqError, PEER_EVENTS, Piece};
use loom_core::deadline::Deadline;
use loom_core::domain::Domain;
use loom_core::endpoint::{Binding, Endpoint, Source};
use loom_core::engine::op_table::Direction;
use loom_core::engine::op_table::OpKey;
use loom_core::error::{OpenError, PostError, Rejected};
use loom_core::info::Info;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Caps, CompletionFlags, EndpointOption, Errno, ImmediateData};

use crate::behaviours::needs::{Behaviour, MSG};
use crate::behaviours::pair::{
    Bytes, LIMIT, OrCut, Pair, carries_data, is_old, is_strict, is_tested, limit, pattern, room,
};
use crate::memory::allocator;

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    vec![
        ("messages_fill_one_buffer", MSG, messages_fill_one_buffer),
        ("a_buffer_waits_for_its_pieces", MSG, a_buffer_waits_for_its_pieces),
        ("messages_that_wait_fill_a_buffer", MSG, messages_that_wait_fill_a_buffer),
        ("the_next_buffer_takes_over", MSG, the_next_buffer_takes_over),
        ("long_messages_fill_one_buffer", MSG, long_messages_fill_one_buffer),
        (
            "a_message_longer_than_the_remaining_buffer_is_truncated",
            MSG,
            a_message_longer_than_the_remaining_buffer_is_truncated,
        ),
        ("a_cancelled_buffer_comes_back", MSG, a_cancelled_buffer_comes_back),
        ("a_closed_endpoint_gives_its_filled_buffer_back", MSG, a_closed_endpoint_gives_its_filled_buffer_back),
        ("waiting_keeps_pieces_until_there_are_many", MSG, waiting_keeps_pieces_until_there_are_many),
        ("a_buffer_that_is_not_kept_to_is_refused", MSG, a_buffer_that_is_not_kept_to_is_refused),
        ("options_are_read_and_set", MSG, options_are_read_and_set),
    ]
}

/// Opens a pair. `b` returns a buffer when fewer than `min` bytes are left.
fn on_pair_with_min<T: Transport + 'static>(info: &Info<T>, min: usize, test: impl FnOnce(&Pair<'_, '_, T>)) {
    if !info.caps().contains(Caps::MULTI_RECV) {
        crate::report::not_granted();
        crate::behaviours::pair::on_pair(info, |pair| {
            let rejected = pair.b.multi_recv(Source::Any, room(64)).expect_err("it is not granted");
            assert_eq!((rejected.error, rejected.value), (PostError::NotGranted(Caps::MULTI_RECV), room(64)));
        });
        return;
    }
    let domain = Domain::open(info).expect("domain");
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    let cq = Cq::open_in(&domain, CqAttr::new(128), allocator()).expect("queue");
    if !is_tested(info) {
        crate::report::not_granted();
        let endpoint = cq.endpoint(Binding::to(&av).option(EndpointOption::MIN_MULTI_RECV, min));
        assert_eq!(endpoint.map(drop), Err(OpenError::Errno(Errno::EOPNOTSUPP)));
        return a_buffer_is_refused(&cq.endpoint(&av).expect("an endpoint"));
    }
    let a = cq.endpoint(&av).expect("endpoint a");
    let b = cq.endpoint(Binding::to(&av).option(EndpointOption::MIN_MULTI_RECV, min)).expect("endpoint b");
    let to_a = av.insert(&a.address().expect("address of a")).expect("a in the vector");
    let to_b = av.insert(&b.address().expect("address of b")).expect("b in the vector");
    let pair = Pair { cq: &cq, av: &av, domain: &domain, a, b, to_a, to_b };
    pair.warm_up();
    test(&pair);
}

/// Reason that names programs in C. Their names begin with the provider's.
pub const ONLY_BY_UNSAFE_FORM: &str = "Only the `unsafe` forms of multi-receives are accepted";
const ONLY_UNSAFE: &str = "Only the `unsafe` form of multi-receives is accepted: the provider may write behind a \
    buffer, or to one that has come back (`…-multi-receive-…`)";

/// Returns `true` if the provider stays within a buffer for any message.
fn is_safe<T: Transport + 'static>(pair: &Pair<'_, '_, T>) -> bool {
    T::quirks(pair.domain.info().raw()).multi_recv
}

fn next<'d, T: Transport + 'static>(pair: &Pair<'_, 'd, T>) -> Completion<'d, Bytes> {
    let mut deadline = limit();
    while !deadline.passed() {
        if let Some(completion) = pair.cq.poll_direction(Direction::Receive).or_cut("the queue works") {
            return completion;
        }
    }
    panic!("nothing within {LIMIT:?}");
}

pub fn piece<'d, T: Transport + 'static>(pair: &Pair<'_, 'd, T>) -> Piece<'d, Bytes> {
    match next(pair) {
        Completion::Piece(piece) => piece,
        other => panic!("a piece, not {other:?}"),
    }
}

pub fn end<T: Transport + 'static>(pair: &Pair<'_, '_, T>) -> Done<Bytes> {
    match next(pair) {
        Completion::Op(done) => done,
        other => panic!("the end, not {other:?}"),
    }
}

/// Checks that no completion is queued.
pub fn nothing<T: Transport + 'static>(pair: &Pair<'_, '_, T>) {
    for _ in 0..1000 {
        let completion = pair.cq.poll_direction(Direction::Receive).or_cut("the queue works");
        assert!(completion.is_none(), "{completion:?}");
    }
}

fn send<T: Transport + 'static>(pair: &Pair<'_, '_, T>, len: usize, seed: usize) -> OpKey {
    pair.post(pattern(len, seed), |buf| pair.a.send(pair.to_b, buf))
}

fn post<T: Transport + 'static>(pair: &Pair<'_, '_, T>, len: usize) -> OpKey {
    pair.post(room(len), |buf| fill(pair.domain.info(), &pair.b, buf))
}

/// Posts a multi-receive. Over providers that exceed its buffer, tests only send messages that fit,
/// from one endpoint, and cancel it without messages in flight.
fn fill<T: Transport + 'static>(
    info: &Info<T>,
    endpoint: &Endpoint<'_, T, Bytes>,
    buf: Bytes,
) -> Result<OpKey, Rejected<Bytes>> {
    match endpoint.multi_recv(Source::Any, buf) {
        Err(Rejected { value: buf, error: PostError::NotSafe }) => {
            crate::report::partly(if is_strict(info) { ONLY_BY_UNSAFE_FORM } else { ONLY_UNSAFE });
            // SAFETY: see the rule of this function.
            unsafe { endpoint.multi_recv_unchecked(Source::Any, None, buf) }
        }
        result => result,
    }
}

pub fn has(buf: &[u8], bytes: &[u8]) -> bool {
    bytes.is_empty() || buf.windows(bytes.len()).any(|window| window == bytes)
}

fn messages_fill_one_buffer<T: Transport + 'static>(info: &Info<T>) {
    on_pair_with_min(info, 100, |pair| {
        for round in 0..20 {
            let key = post(pair, 1000);
            let lens = [0, 1, 7, 64, 200, 33, 0, 250, 90, 128, 128 + round % 2];
            let mut left = 1000;
            for (seed, len) in lens.into_iter().enumerate() {
                let data = (seed % 2 == 1 && carries_data(info)).then_some(ImmediateData(seed as u64));
                let sent = pair.post(pattern(len, seed), |buf| match data {
                    None => pair.a.send(pair.to_b, buf),
                    Some(data) => pair.a.send_data(pair.to_b, data, buf),
                });
                let piece = piece(pair);
                assert_eq!(piece.key(), key);
                let transfer = piece.result().or_cut("it arrives");
                assert_eq!((transfer.len, transfer.data), (len, data));
                assert!(transfer.flags.contains(CompletionFlags::RECV), "{}", transfer.flags);
                assert!(told(&piece) == &pattern(len, seed)[..], "message {seed} of {len} bytes");
                if info.caps().contains(Caps::SOURCE) {
                    assert_eq!(transfer.source.and_then(|source| pair.av.peer(source)), Some(pair.to_a));
                }
                pair.finish(sent);
                left -= len;
            }
            assert!(left < 100, "the last one leaves less than the least");
            let done = end(pair);
            assert_eq!(done.key(), key);
            let (buf, result) = done.into_parts();
            assert_eq!(result.or_cut("the operation succeeds").len, 0, "its pieces told the lengths");
            assert_eq!(buf.len(), 1000);
            for (seed, len) in lens.into_iter().enumerate() {
                assert!(has(&buf, &pattern(len, seed)), "message {seed} is in the buffer");
            }
            assert_eq!(pair.cq.in_flight(), 0);
        }
    });
}

fn a_buffer_waits_for_its_pieces<T: Transport + 'static>(info: &Info<T>) {
    on_pair_with_min(info, 100, |pair| {
        let key = post(pair, 1000);
        let sends: Vec<_> = (0..10).map(|seed| send(pair, 96, seed)).collect();
        let mut pieces: Vec<_> = (0..10).map(|_| piece(pair)).collect();
        for send in sends {
            pair.finish(send);
        }
        nothing(pair);
        assert_eq!(pair.cq.wait(key, limit()).expect_err("nothing but the pieces is missing"), CqError::PiecesOut);
        // In another order than that of arrival. The remaining pieces stay readable.
        pieces.rotate_left(3);
        while let Some(piece) = pieces.pop() {
            drop(piece);
            for (place, piece) in pieces.iter().enumerate() {
                assert!(told(piece) == &pattern(96, (place + 3) % 10)[..], "piece {place}");
            }
            if !pieces.is_empty() {
                assert!(pair.cq.poll().or_cut("the queue works").is_none());
            }
        }
        let done = end(pair);
        assert_eq!(done.key(), key);
        assert!((0..10).all(|seed| has(done.buf(), &pattern(96, seed))));
    });
}

pub fn told<'p>(piece: &'p Piece<'_, Bytes>) -> &'p [u8] {
    piece.result().or_cut("the message arrives");
    piece.bytes()
}

fn messages_that_wait_fill_a_buffer<T: Transport + 'static>(info: &Info<T>) {
    on_pair_with_min(info, 64, |pair| {
        let sends: Vec<_> = (0..5).map(|seed| send(pair, 50 + seed, seed)).collect();
        for _ in 0..1000 {
            pair.cq.progress().or_cut("the queue works");
        }
        let key = post(pair, 10_000);
        let pieces: Vec<_> = (0..5).map(|_| piece(pair)).collect();
        for (seed, piece) in pieces.into_iter().enumerate() {
            assert_eq!(piece.key(), key);
            assert!(told(&piece) == &pattern(50 + seed, seed)[..], "message {seed}");
        }
        let later = send(pair, 60, 9);
        assert!(told(&piece(pair)) == &pattern(60, 9)[..], "and those that come later");
        for send in sends.into_iter().chain([later]) {
            pair.finish(send);
        }
        pair.b.cancel(key).expect("cancel");
        pair.fail(key, Errno::ECANCELED);
    });
}

fn the_next_buffer_takes_over<T: Transport + 'static>(info: &Info<T>) {
    on_pair_with_min(info, 100, |pair| {
        let mut keys = [post(pair, 500), post(pair, 500)];
        let mut taken = [0; 2];
        let mut posted: usize = 2;
        let mut seen = 0;
        for seed in 0..40 {
            let sent = send(pair, 90, seed);
            loop {
                match next(pair) {
                    Completion::Piece(piece) => {
                        assert!(told(&piece) == &pattern(90, seed)[..], "message {seed}");
                        let whose = keys.iter().position(|key| *key == piece.key()).expect("one of the two");
                        taken[whose] += 1;
                        seen += 1;
                        break;
                    }
                    Completion::Op(done) => {
                        let whose = keys.iter().position(|key| *key == done.key()).expect("one of the two");
                        assert_eq!(taken[whose], 5, "five messages and not a hundred bytes more fit into it");
                        taken[whose] = 0;
                        keys[whose] = pair.post(done.into_buf(), |buf| fill(pair.domain.info(), &pair.b, buf));
                        posted += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
            pair.finish(sent);
        }
        assert_eq!(seen, 40);
        assert!(posted >= 9, "only {posted} buffers for forty messages");
        for key in keys {
            // The last one may have completed.
            let _ = pair.b.cancel(key);
            let _ = pair.end(key);
        }
    });
}

fn long_messages_fill_one_buffer<T: Transport + 'static>(info: &Info<T>) {
    on_pair_with_min(info, 1 << 20, |pair| {
        if is_old(info, "tcp;ofi_rxm") {
            return crate::report::not_run(
                "The buffer of a multi-receive comes back before a message of more than 16 KiB is in it \
                    (`rxm-multi-receive-is-released-too-early`)",
            );
        }
        let key = post(pair, 4 << 20);
        let lens = [100_000, 10, 1 << 20, 70_000, 1, 1 << 20, (1 << 20) - 100_000];
        for (seed, len) in lens.into_iter().enumerate() {
            let sent = send(pair, len, seed);
            let piece = piece(pair);
            assert_eq!(piece.result().or_cut("it arrives").len, len);
            assert!(told(&piece) == &pattern(len, seed)[..], "message {seed} of {len} bytes");
            pair.finish(sent);
        }
        assert_eq!(end(pair).key(), key);
    });
}

fn a_message_longer_than_the_remaining_buffer_is_truncated<T: Transport + 'static>(info: &Info<T>) {
    on_pair_with_min(info, 64, |pair| {
        if !is_safe(pair) && !is_strict(info) {
            return crate::report::not_run(
                "A message longer than the rest of a multi-receive's buffer is written behind it, or the buffer does \
                    not come back (`…-multi-receive-…`)",
            );
        }
        let key = post(pair, 1000);
        let first = send(pair, 500, 1);
        assert!(told(&piece(pair)) == &pattern(500, 1)[..]);
        pair.finish(first);
        let second = send(pair, 600, 2);
        let failed = piece(pair);
        let error = failed.result().expect_err("it does not fit");
        assert_eq!((error.errno, failed.key(), failed.bytes().len()), (Errno::ETRUNC, key, 0));
        let _ = pair.end(second);
        drop(failed);
        let _ = pair.b.cancel(key);
        assert_eq!(pair.end(key).0.len(), 1000);
    });
}

fn a_cancelled_buffer_comes_back<T: Transport + 'static>(info: &Info<T>) {
    on_pair_with_min(info, 64, |pair| {
        let key = post(pair, 1000);
        pair.b.cancel(key).expect("cancel");
        assert_eq!(pair.fail(key, Errno::ECANCELED).0, room(1000));

        let key = post(pair, 1000);
        let sent = send(pair, 100, 1);
        let held = piece(pair);
        pair.finish(sent);
        pair.b.cancel(key).expect("cancel");
        nothing(pair);
        assert!(told(&held) == &pattern(100, 1)[..], "it stays readable");
        drop(held);
        let (buf, _) = pair.fail(key, Errno::ECANCELED);
        assert!(has(&buf, &pattern(100, 1)));

        let received = pair.post(room(10), |buf| pair.b.recv(Source::Any, buf));
        let sent = send(pair, 10, 2);
        assert!(pair.finish(received).0 == pattern(10, 2), "the next receive gets the next message");
        pair.finish(sent);
    });
}

fn a_closed_endpoint_gives_its_filled_buffer_back<T: Transport + 'static>(info: &Info<T>) {
    on_pair_with_min(info, 64, |pair| {
        let Pair { cq, av, .. } = *pair;
        let c = cq.endpoint(Binding::to(av).option(EndpointOption::MIN_MULTI_RECV, 100)).expect("endpoint c");
        let to_c = av.insert(&c.address().expect("address of c")).expect("c in the vector");
        let key = pair.post(room(1000), |buf| fill(info, &c, buf));
        let sent = pair.post(pattern(100, 1), |buf| pair.a.send(to_c, buf));
        let held = piece(pair);
        pair.finish(sent);
        drop(c);
        nothing(pair);
        assert!(told(&held) == &pattern(100, 1)[..], "it stays readable");
        drop(held);
        if let Some((buf, result)) = pair.end_after_close(key) {
            // Some providers return it without an error.
            assert!(result.is_ok_and(|end| end.len == 0) || result.is_err_and(|error| error.errno == Errno::ECANCELED));
            assert!(has(&buf, &pattern(100, 1)));
        }
        // A forgotten one keeps its buffer in the queue, and keeps the queue open.
        let key = post(pair, 1000);
        let sent = send(pair, 64, 1);
        core::mem::forget(piece(pair));
        pair.finish(sent);
        let _ = pair.b.cancel(key);
        nothing(pair);
    });
}

fn waiting_keeps_pieces_until_there_are_many<T: Transport + 'static>(info: &Info<T>) {
    on_pair_with_min(info, 64, |pair| {
        let key = post(pair, 100_000);
        let mut sent = 0;
        let full = loop {
            let one = pair.post(pattern(8, sent), |buf| pair.a.send(pair.to_b, buf));
            match pair.cq.wait(one, limit()) {
                Ok(done) => drop(done.expect("in time").result().or_cut("sent")),
                Err(CqError::PeerEvents) => break one,
                Err(error) => Err(error).or_cut("the queue works"),
            }
            sent += 1;
            assert!(sent < 10_000, "they are nowhere");
            for _ in 0..100 {
                if pair.cq.progress().is_err() {
                    break;
                }
            }
        };
        assert!(sent >= PEER_EVENTS - 1, "{sent} messages before {PEER_EVENTS} are kept");
        for seed in 0..=sent {
            let piece = piece(pair);
            assert_eq!(piece.key(), key);
            assert!(told(&piece) == &pattern(8, seed)[..], "message {seed}");
        }
        pair.finish(full);
        pair.b.cancel(key).expect("cancel");
        pair.fail(key, Errno::ECANCELED);
    });
}

fn a_buffer_that_is_not_kept_to_is_refused<T: Transport + 'static>(info: &Info<T>) {
    on_pair_with_min(info, 64, |pair| {
        assert_eq!(is_safe(pair), ["soft", "tcp", "loom-tcp"].contains(&info.provider()) && !is_strict(info));
        if is_safe(pair) {
            let key = pair.post(room(100), |buf| pair.b.multi_recv(Source::Any, buf));
            pair.b.cancel(key).expect("cancel");
            pair.fail(key, Errno::ECANCELED);
        } else {
            a_buffer_is_refused(&pair.b);
        }
    });
}

fn a_buffer_is_refused<T: Transport + 'static>(endpoint: &Endpoint<'_, T, Bytes>) {
    let rejected = endpoint.multi_recv(Source::Any, room(100)).expect_err("its provider does not keep to it");
    assert_eq!((rejected.error, rejected.value), (PostError::NotSafe, room(100)));
}

fn options_are_read_and_set<T: Transport + 'static>(info: &Info<T>) {
    on_pair_with_min(info, 4000, |pair| {
        assert_eq!(pair.b.option(EndpointOption::MIN_MULTI_RECV), Ok(4000));
        assert!(pair.a.option(EndpointOption::MIN_MULTI_RECV).is_ok_and(|min| min != 4000), "each has its own");
        assert_eq!(pair.b.set_option(EndpointOption::CM_DATA_SIZE, 1), Err(Errno::EINVAL), "it is only read");
        assert_eq!(pair.b.set_option(EndpointOption::MIN_MULTI_RECV, 0), Err(Errno::EINVAL), "too little");
        let unknown = pair.b.option(EndpointOption::CUDA_API_PERMITTED).expect_err("a fabric of the host has none");
        assert!([Errno::ENOPROTOOPT, Errno::EOPNOTSUPP, Errno::ENOSYS].contains(&unknown), "{unknown}");
    });
}
