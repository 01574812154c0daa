//! Operations without completions (`FI_SELECTIVE_COMPLETION`), beside operations with them.

#![allow(unsafe_code, reason = "operations with memory that no completion gives back")]

use std::ptr::NonNull;

use loom_core::av::Av;
use loom_core::buffer::Lent;
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::{Cq, CqAttr};
use loom_core::endpoint::{Binding, Source};
use loom_core::endpoint::{CompletionLevel, ReadOptions, SendOptions};
use loom_core::error::{OpenError, PostError};
use loom_core::info::Info;
use loom_core::mr::Mr;
use loom_core::scope;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, Counted, Errno, ImmediateData, Mode, Tag};

use crate::behaviours::counters::{counts, reaches};
use crate::behaviours::needs::{Behaviour, MSG, RMA, TAGGED_AND_RMA, tags};
use crate::behaviours::pair::{OrCut, Pair, carries_data, is_strict, is_tested, most, on_pair, pattern, retry, room};
use crate::memory::allocator;
use crate::report::{not_granted, not_run};

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    vec![
        ("unsignaled_sends_arrive_and_are_counted", MSG, unsignaled_sends_arrive_and_are_counted),
        ("unsignaled_reads_and_writes_are_counted", RMA, unsignaled_reads_and_writes_are_counted),
        ("all_others_report_on_a_selective_endpoint", TAGGED_AND_RMA, all_others_report_on_a_selective_endpoint),
        (
            "an_endpoint_that_is_not_selective_reports_everything",
            MSG,
            an_endpoint_that_is_not_selective_reports_everything,
        ),
    ]
}

/// Opens a pair with a selective endpoint `a`, and a counter of all its outgoing operations. The
/// process aborts if an endpoint with both bindings cannot be closed.
fn on_selective_pair<T: Transport + 'static>(info: &Info<T>, test: impl FnOnce(&Pair<'_, '_, T>, &Counter<'_, T>)) {
    if !counts(info) {
        return;
    }
    scope(|s| {
        let domain = s.open(info).expect("domain");
        let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
        let counter = Counter::open(&domain, CounterAttr::default()).expect("counter");
        let cq = &Cq::open_in(&domain, CqAttr::new(64), allocator()).expect("queue");
        let counted = Counted::SEND | Counted::READ | Counted::WRITE;
        let a = match cq.endpoint(Binding::to(&av).counter(counted, &counter).selective()) {
            Ok(a) => a,
            Err(error) => {
                assert_eq!(error, OpenError::Errno(Errno::EOPNOTSUPP));
                if !is_tested(info) {
                    return not_granted();
                }
                if is_strict(info) {
                    return not_granted();
                }
                assert_eq!(info.provider(), "net");
                return not_run(
                    "loom refuses unsignaled operations, because the provider reports them all the same \
                        (`…-selective-completion-reports-everything`)",
                );
            }
        };
        let b = cq.endpoint(&av).expect("endpoint b");
        let to_a = av.insert(&a.address().expect("address of a")).expect("a in the vector");
        let to_b = av.insert(&b.address().expect("address of b")).expect("b in the vector");
        if info.attributes().mode.intersects(Mode::CONTEXT | Mode::CONTEXT2) {
            // SAFETY: the post is refused.
            let refused = unsafe { a.send_unsignaled(to_b, None, SendOptions::default(), &source(&[1])) };
            assert_eq!(refused, Err(PostError::Errno(Errno::EOPNOTSUPP)), "there is no memory for the provider");
            return not_granted();
        }
        test(&Pair { cq, av: &av, domain: &domain, a, b, to_a, to_b }, &counter);
    });
}

fn source(bytes: &[u8]) -> Lent {
    Lent::source(NonNull::from_ref(bytes).cast(), bytes.len())
}

/// Checks that no operation is in flight, and that no completion is queued.
fn is_silent<T: Transport + 'static>(cq: &Cq<'_, T, Box<[u8]>>) {
    assert_eq!(cq.in_flight(), 0);
    for _ in 0..100 {
        assert!(cq.poll().or_cut("the queue works").is_none());
    }
    assert_eq!(cq.strays(), 0, "an operation without a completion has reported something");
}

fn unsignaled_sends_arrive_and_are_counted<T: Transport + 'static>(info: &Info<T>) {
    on_selective_pair(info, |pair, counter| {
        pair.warm_up();
        let mut sent = 1;
        for (round, len) in [8, 0, 3000, 1 << 20, 64].map(|len| most(info, len)).into_iter().enumerate() {
            let bytes = pattern(len, round);
            let lent = source(&bytes);
            let received = pair.post(room(len), |buf| pair.b.recv(Source::Any, buf));
            let data = carries_data(info).then_some(ImmediateData(0x77));
            let options =
                data.map_or(SendOptions::default(), |data| SendOptions { data: Some(data), ..SendOptions::default() });
            // SAFETY: the bytes are read only, and the counter reports the end of the send below.
            retry(pair.cq, || unsafe { pair.a.send_unsignaled(pair.to_b, None, options, &lent) });
            let (buf, transfer) = pair.finish(received);
            assert_eq!((&buf, transfer.data), (&bytes, data));
            sent += 1;
            reaches(pair.cq, counter, sent);

            if !tags(info) {
                continue;
            }
            let received = pair.receive(9, len);
            // With the level that must not be combined with other levels.
            let options = SendOptions { level: Some(CompletionLevel::Transmit), ..SendOptions::default() };
            // SAFETY: as above.
            retry(pair.cq, || unsafe { pair.a.send_unsignaled(pair.to_b, Some(Tag(9)), options, &lent) });
            assert_eq!(pair.finish(received).0, bytes);
            sent += 1;
            reaches(pair.cq, counter, sent);
            is_silent(pair.cq);
        }
        assert_eq!(counter.read_error(), 0);
    });
}

fn unsignaled_reads_and_writes_are_counted<T: Transport + 'static>(info: &Info<T>) {
    on_selective_pair(info, |pair, counter| {
        pair.warm_up();
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let region = Mr::open_in(pair.domain, room(1 << 16), access, allocator()).expect("a region");
        let remote = region.remote();
        let mut ended = 1;
        for (round, len) in [8, 1000, 1 << 15].into_iter().enumerate() {
            let bytes = pattern(len, round);
            let options = SendOptions { level: Some(CompletionLevel::Delivery), ..SendOptions::default() };
            let lent = source(&bytes);
            // SAFETY: the bytes are read only, and the counter reports the end of the write below.
            retry(pair.cq, || unsafe { pair.a.write_unsignaled(pair.to_b, &remote, 16, options, &lent) });
            ended += 1;
            reaches(pair.cq, counter, ended);
            let mut back = vec![0; len];
            let lent = Lent::target(NonNull::from_mut(back.as_mut_slice()).cast(), len);
            // SAFETY: the room is not used before the counter reports the end of the read.
            retry(pair.cq, || unsafe { pair.a.read_unsignaled(pair.to_b, &remote, 16, ReadOptions::default(), &lent) });
            ended += 1;
            reaches(pair.cq, counter, ended);
            assert_eq!(back, *bytes);
            is_silent(pair.cq);
        }
        assert_eq!(counter.read_error(), 0);
        let beyond = source(&[0; 8]);
        // SAFETY: the post is refused.
        let refused = unsafe { pair.a.write_unsignaled(pair.to_b, &remote, 1 << 16, SendOptions::default(), &beyond) };
        assert_eq!(refused, Err(PostError::OutOfBounds));
        // SAFETY: as above.
        let refused = unsafe { pair.a.read_unsignaled(pair.to_b, &remote, 0, ReadOptions::default(), &beyond) };
        assert_eq!(refused, Err(PostError::Access));
    });
}

fn all_others_report_on_a_selective_endpoint<T: Transport + 'static>(info: &Info<T>) {
    on_selective_pair(info, |pair, _| {
        pair.warm_up();
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let region = Mr::open_in(pair.domain, room(4096), access, allocator()).expect("a region");
        let remote = region.remote();
        static BYTES: [u8; 64] = [7; 64];
        let lent = source(&BYTES);
        for round in 0..3 {
            let received = pair.post(room(64), |buf| pair.b.recv(Source::Any, buf));
            // SAFETY: the bytes are read only, and stay.
            retry(pair.cq, || unsafe { pair.a.send_unsignaled(pair.to_b, None, SendOptions::default(), &lent) });
            pair.finish(received);
            for sendmsg in [false, true] {
                let received = pair.post(room(300), |buf| pair.b.tagged_recv(Source::Any, Tag(1), buf));
                let sent = pair.post(pattern(300, round), |buf| match sendmsg {
                    false => pair.a.tagged_send(pair.to_b, Tag(1), buf),
                    true => pair.a.tagged_send_with(pair.to_b, Tag(1), SendOptions::default(), buf),
                });
                assert_eq!(pair.finish(sent).0, pattern(300, round));
                assert_eq!(pair.finish(received).0, pattern(300, round));
            }
            let received = pair.post(room(8), |buf| pair.a.recv_with(Source::Any, Default::default(), buf));
            let sent = pair.post(pattern(8, round), |buf| pair.b.send(pair.to_a, buf));
            pair.finish(sent);
            assert_eq!(pair.finish(received).0, pattern(8, round));
            // Injected bytes have no completion, as on any endpoint.
            let received = pair.post(room(8), |buf| pair.b.recv(Source::Any, buf));
            retry(pair.cq, || pair.a.inject(pair.to_b, &pattern(8, round)));
            assert_eq!(pair.finish(received).0, pattern(8, round));
            let written = pair.post(pattern(100, round), |buf| pair.a.write(pair.to_b, &remote, 8, buf));
            pair.finish(written);
            let part = remote.part(8, 100).expect("a part of it");
            let read = pair.post(room(100), |buf| pair.a.read_with(pair.to_b, &[part], ReadOptions::default(), buf));
            assert_eq!(pair.finish(read).0, pattern(100, round));
        }
        is_silent(pair.cq);
    });
}

fn an_endpoint_that_is_not_selective_reports_everything<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let lent = source(&[1; 8]);
        // SAFETY: the post is refused.
        let refused = unsafe { pair.a.send_unsignaled(pair.to_b, None, SendOptions::default(), &lent) };
        assert_eq!(refused, Err(PostError::NotSelective));
        let received = pair.post(room(8), |buf| pair.b.recv(Source::Any, buf));
        let sent = pair.post(pattern(8, 1), |buf| pair.a.send_with(pair.to_b, SendOptions::default(), buf));
        pair.finish(sent);
        pair.finish(received);
    });
}
