//! Deferred work: its start, its order, and the return of each buffer.

use loom_core::atomic::FetchOp;
use loom_core::av::Av;
use loom_core::completion::Completion;
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Deadline;
use loom_core::domain::Domain;
use loom_core::endpoint::{Binding, Source};
use loom_core::error::{OpenError, PostError, Rejected};
use loom_core::info::Info;
use loom_core::mr::Mr;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, Counted, Errno, Tag};
use loom_deferred::{DeferredEvent, WorkKey};

use crate::behaviours::counters::{NOTHING_COUNTED, counts, never_counts};
use crate::behaviours::needs::{ATOMIC, Behaviour, MSG, RMA, RMA_EVENT, TAGGED};
use crate::behaviours::pair::{Bytes, OrCut, Pair, fails_with, limit, pattern, room};
use crate::memory::{Memory, allocator};

type Deferred<'m, T> = loom_deferred::Deferred<'m, T, Bytes, Memory>;
type Work = loom_deferred::Work<loom_core::engine::peer_table::Peer, Source>;

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    vec![
        ("send_starts_when_a_receive_has_ended", MSG, send_starts_when_a_receive_has_ended),
        ("deferred_work_starts_in_the_order_of_thresholds", MSG, deferred_work_starts_in_the_order_of_thresholds),
        ("deferred_chain_runs_in_order", MSG, deferred_chain_runs_in_order),
        ("deferred_work_comes_back_in_each_state", MSG, deferred_work_comes_back_in_each_state),
        ("dropped_deferred_work_leaves_started_operations", MSG, dropped_deferred_work_leaves_started_operations),
        ("foreign_deferred_work_is_refused", MSG, foreign_deferred_work_is_refused),
        ("tagged_messages_are_deferred", TAGGED, tagged_messages_are_deferred),
        ("send_starts_when_a_peer_has_written", RMA_EVENT, send_starts_when_a_peer_has_written),
        ("reads_and_writes_are_deferred", RMA, reads_and_writes_are_deferred),
        ("atomics_are_deferred", ATOMIC, atomics_are_deferred),
    ]
}

fn next<'m, T: Transport + 'static>(deferred: &Deferred<'m, T>) -> DeferredEvent<'m, Bytes> {
    let mut deadline = limit();
    while !deadline.passed() {
        if let Some(event) = deferred.poll().or_cut("the queue works") {
            return event;
        }
    }
    panic!("no event in time, {deferred:?}");
}

fn finish<T: Transport + 'static>(deferred: &Deferred<'_, T>, key: WorkKey) -> Bytes {
    match next(deferred) {
        DeferredEvent::Done(done_key, done) if done_key == key => {
            let (buf, result) = done.into_parts();
            result.or_cut("it succeeds");
            buf
        }
        other => panic!("{key:?} is to end, not {other:?}"),
    }
}

/// Returns the buffers of the next two events, in either order: deferred work, and an operation
/// that was not deferred.
fn both<T: Transport + 'static>(deferred: &Deferred<'_, T>, key: WorkKey) -> (Bytes, Bytes) {
    let (mut work, mut other) = (None, None);
    while work.is_none() || other.is_none() {
        match next(deferred) {
            DeferredEvent::Done(done_key, done) if done_key == key && work.is_none() => work = Some(done),
            DeferredEvent::Other(Completion::Op(done)) if other.is_none() => other = Some(done),
            event => panic!("{key:?} and one more are to end, not {event:?}"),
        }
    }
    let [work, other] = [work, other].map(|done| {
        let (buf, result) = done.expect("seen").into_parts();
        result.or_cut("it succeeds");
        buf
    });
    (work, other)
}

fn quiet<T: Transport + 'static>(deferred: &Deferred<'_, T>) {
    for _ in 0..20 {
        let event = deferred.poll().or_cut("the queue works");
        assert!(event.is_none(), "{event:?}");
    }
}

fn returned(event: DeferredEvent<'_, Bytes>) -> (WorkKey, Bytes, PostError) {
    match event {
        DeferredEvent::Returned(key, Rejected { value: buf, error }) => (key, buf, error),
        other => panic!("work is to be returned, not {other:?}"),
    }
}

const CANCELLED: PostError = PostError::Errno(Errno::ECANCELED);

/// A warmed-up pair, with a counter of the receives of `b`.
struct World<'q, T: Transport> {
    pair: Pair<'q, 'static, T>,
    received: Counter<'static, T>,
    /// Free counter, or counter of the given operations of `b`.
    go: Counter<'static, T>,
    deferred: Deferred<'static, T>,
}

fn counter<T: Transport + 'static>(domain: &Domain<'static, T>) -> Counter<'static, T> {
    Counter::open(domain, CounterAttr::default()).expect("counter")
}

fn with_work<T: Transport + 'static>(info: &Info<T>, capacity: usize, test: impl FnOnce(&World<'_, T>)) {
    with_work_and_written(info, capacity, None, test);
}

/// Opens a world in which `go` counts further operations of `b`.
fn with_work_and_written<T: Transport + 'static>(
    info: &Info<T>,
    capacity: usize,
    counted: Option<Counted>,
    test: impl FnOnce(&World<'_, T>),
) {
    if !counts(info) {
        return;
    }
    let domain = Domain::open(info).expect("domain");
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    let cq = Cq::open_in(&domain, CqAttr::new(64), allocator()).expect("queue");
    let (received, go) = (counter(&domain), counter(&domain));
    let a = cq.endpoint(&av).expect("endpoint a");
    let bound = Binding::to(&av).counter(Counted::RECV, &received);
    let bound = match counted {
        Some(counted) => bound.counter(counted, &go),
        None => bound,
    };
    let b = cq.endpoint(bound).expect("endpoint b");
    let to_a = av.insert(&a.address().expect("address of a")).expect("a in the vector");
    let to_b = av.insert(&b.address().expect("address of b")).expect("b in the vector");
    let deferred = Deferred::open_in(&cq, capacity, allocator()).expect("deferred work");
    let pair = Pair { cq: &cq, av: &av, domain: &domain, a, b, to_a, to_b };
    pair.warm_up();
    assert!(cq.wait_counter(&received, 1, limit()).or_cut("the queue works"), "a message was received");
    received.set(0).expect("sets");
    test(&World { pair, received, go, deferred });
}

fn send_starts_when_a_receive_has_ended<T: Transport + 'static>(info: &Info<T>) {
    with_work(info, 4, |World { pair, received, deferred, .. }| {
        for round in 1..=3 {
            let answer = Work::send(pair.to_a);
            let key = deferred.post((received, round), &pair.b, answer, pattern(64, 5)).expect("there is room");
            let answered = pair.post(room(64), |buf| pair.a.recv(Source::Any, buf));
            let asked = pair.post(room(8), |buf| pair.b.recv(Source::Any, buf));
            quiet(deferred);
            let sent = pair.post(pattern(8, 1), |buf| pair.a.send(pair.to_b, buf));
            let mut ended = Vec::new();
            while ended.len() < 4 {
                match next(deferred) {
                    DeferredEvent::Done(done, op) => {
                        assert!(done == key && op.into_buf() == pattern(64, 5));
                        ended.push(None);
                    }
                    DeferredEvent::Other(Completion::Op(op)) => {
                        let key = op.key();
                        let (buf, result) = op.into_parts();
                        result.or_cut("it succeeds");
                        assert!(key == sent || buf == if key == asked { pattern(8, 1) } else { pattern(64, 5) });
                        ended.push(Some(key));
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert!([None, Some(answered), Some(asked), Some(sent)].iter().all(|key| ended.contains(key)));
            assert!(deferred.is_empty());
        }
    });
}

fn deferred_work_starts_in_the_order_of_thresholds<T: Transport + 'static>(info: &Info<T>) {
    with_work(info, 8, |World { pair, go, deferred, .. }| {
        // Work of equal thresholds runs in the order of its posts.
        let thresholds = [3_u64, 1, 4, 1, 5, 2, 6, 5];
        let mut keys: Vec<_> = (0..)
            .zip(thresholds)
            .map(|(number, threshold)| {
                let key = deferred.post((go, threshold), &pair.a, Work::send(pair.to_b), pattern(16, number));
                (threshold, number, key.expect("there is room"))
            })
            .collect();
        let full = deferred.post((go, 1), &pair.a, Work::send(pair.to_b), room(8)).expect_err("there is no room");
        assert_eq!((full.error, full.value), (PostError::Full, room(8)));
        keys.sort_by_key(|(threshold, number, _)| (*threshold, *number));
        quiet(deferred);
        let mut due = keys.into_iter().peekable();
        let mut sent = Vec::new();
        for value in 1..=6 {
            go.add(1).expect("adds");
            while let Some((_, number, key)) = due.next_if(|(threshold, ..)| *threshold == value) {
                let received = pair.post(room(16), |buf| pair.b.recv(Source::Any, buf));
                let mut arrived = None;
                while arrived.is_none() || !sent.contains(&key) {
                    match next(deferred) {
                        DeferredEvent::Done(done, _) => sent.push(done),
                        DeferredEvent::Other(Completion::Op(done)) if done.key() == received => {
                            arrived = Some(done.into_buf());
                        }
                        other => panic!("{other:?}"),
                    }
                }
                assert_eq!(arrived, Some(pattern(16, number)), "at {value}");
            }
        }
        assert!(deferred.is_empty() && due.next().is_none() && sent.len() == 8);
    });
}

/// Runs steps of a receive and a send at `b`, which count for the next step.
fn deferred_chain_runs_in_order<T: Transport + 'static>(info: &Info<T>) {
    let steps: usize = if info.provider() == "soft" { 1000 } else { 100 };
    with_work(info, 2 * steps, |World { pair, go: chain, deferred, .. }| {
        // Each step is two operations, and counts two.
        let mut keys = Vec::new();
        for step in 0..steps {
            let at = (chain, 2 * step as u64);
            let receive = deferred.post_then(at, &pair.b, Work::recv(Source::Any), chain, room(16));
            let send = deferred.post_then(at, &pair.a, Work::send(pair.to_b), chain, pattern(16, step));
            keys.push([receive, send].map(|key| key.expect("there is room")));
        }
        for (step, [receive, send]) in keys.into_iter().enumerate() {
            let (mut received, mut sent) = (false, false);
            while !received || !sent {
                match next(deferred) {
                    DeferredEvent::Done(key, done) => {
                        let (buf, result) = done.into_parts();
                        result.or_cut("it succeeds");
                        assert_eq!(buf, pattern(16, step), "step {step}");
                        assert!(key == receive || key == send, "{key:?} is of another step than {step}");
                        (received, sent) = (received || key == receive, sent || key == send);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        assert!(pair.cq.wait_counter(chain, 2 * steps as u64, limit()).or_cut("works"));
        assert!(deferred.is_empty());
    });
}

fn deferred_work_comes_back_in_each_state<T: Transport + 'static>(info: &Info<T>) {
    with_work(info, 8, |World { pair, received, go, deferred }| {
        let receive =
            |when, seed| deferred.post(when, &pair.b, Work::recv(Source::Any), pattern(8, seed)).expect("room");
        // Waiting.
        let key = receive((go, 1), 1);
        deferred.cancel(key).expect("it waits");
        assert_eq!(deferred.cancel(key), Err(Errno::ENOENT), "it is returned");
        assert_eq!(returned(next(deferred)), (key, pattern(8, 1), CANCELLED));
        assert_eq!(deferred.cancel(key), Err(Errno::ENOENT), "it is over");
        // Started.
        let key = receive((go, 0), 2);
        quiet(deferred);
        assert_eq!(pair.cq.in_flight(), 1);
        deferred.cancel(key).expect("it is under way");
        match next(deferred) {
            DeferredEvent::Done(done, op) if done == key => {
                let (buf, result) = op.into_parts();
                assert_eq!(buf, pattern(8, 2));
                fails_with(result, Errno::ECANCELED);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(deferred.cancel(key), Err(Errno::ENOENT), "it is over");
        // Completed, and not polled.
        let key = deferred.post((go, 0), &pair.a, Work::send(pair.to_b), pattern(8, 3)).expect("room");
        let into = pair.post(room(8), |buf| pair.b.recv(Source::Any, buf));
        let (sent, arrived) = both(deferred, key);
        assert_eq!((sent, arrived), (pattern(8, 3), pattern(8, 3)));
        let _ = into;
        // Flushed: one counter's, then all.
        let far = (received, u64::MAX);
        let (first, second) = (receive(far, 4), receive((go, 7), 5));
        let set = deferred.set((go, 9), received, 3).expect("room");
        let third = receive(far, 6);
        assert_eq!(deferred.flush(Some(received)), 2);
        assert_eq!(returned(next(deferred)), (first, pattern(8, 4), CANCELLED));
        assert_eq!(returned(next(deferred)), (third, pattern(8, 6), CANCELLED));
        quiet(deferred);
        assert_eq!((deferred.len(), deferred.flush(None), deferred.flush(None)), (2, 2, 0));
        assert_eq!(returned(next(deferred)), (second, pattern(8, 5), CANCELLED));
        match next(deferred) {
            DeferredEvent::NotCounted(key, errno) => assert_eq!((key, errno), (set, Errno::ECANCELED)),
            other => panic!("{other:?}"),
        }
        quiet(deferred);
        assert!(deferred.is_empty());
        // Thresholds also change counters.
        received.set(0).expect("sets");
        deferred.add((go, 1), received, 5).expect("room");
        deferred.set((received, 5), go, 40).expect("room");
        let last = receive((go, 40), 7);
        go.set(1).expect("sets");
        assert!(wait_for(deferred, go, 40), "{} of {}", go.read(), received.read());
        quiet(deferred);
        deferred.cancel(last).expect("it is under way");
        assert!(matches!(next(deferred), DeferredEvent::Done(key, _) if key == last));
        pair.warm_up();
    });
}

fn wait_for<T: Transport + 'static>(deferred: &Deferred<'_, T>, of: &Counter<'_, T>, value: u64) -> bool {
    let mut deadline = limit();
    while of.read() != value && !deadline.passed() {
        deferred.progress().or_cut("the queue works");
    }
    of.read() == value
}

fn dropped_deferred_work_leaves_started_operations<T: Transport + 'static>(info: &Info<T>) {
    with_work(info, 4, |World { pair, go, .. }| {
        let deferred = Deferred::open_in(pair.cq, 4, allocator()).expect("deferred work");
        for (threshold, seed) in [(0, 1), (9, 2)] {
            let work = Work::recv(Source::Any);
            deferred.post((go, threshold), &pair.b, work, pattern(8, seed)).expect("there is room");
        }
        quiet(&deferred);
        assert_eq!((deferred.len(), pair.cq.in_flight()), (2, 1));
        drop(deferred);
        assert_eq!(pair.cq.in_flight(), 1, "the one that waited is gone, with its buffer");
        let sent = pair.post(pattern(8, 3), |buf| pair.a.send(pair.to_b, buf));
        let mut deadline = limit();
        let mut ended = 0;
        while ended < 2 {
            assert!(!deadline.passed());
            if let Some(Completion::Op(done)) = pair.cq.poll().or_cut("the queue works") {
                assert!(done.key() == sent || done.buf() == &pattern(8, 3));
                ended += 1;
            }
        }
    });
}

fn foreign_deferred_work_is_refused<T: Transport + 'static>(info: &Info<T>) {
    with_work(info, 4, |World { pair, go, deferred, .. }| {
        let other_domain = Domain::open(info).expect("another domain");
        let foreign = counter(&other_domain);
        let other_queue = Cq::open_in(pair.domain, CqAttr::new(4), allocator()).expect("another queue");
        let elsewhere = other_queue.endpoint(pair.av).expect("an endpoint");
        let refused = |posted: Result<WorkKey, Rejected<Bytes>>| {
            let Rejected { value: buf, error } = posted.expect_err("it is refused");
            assert_eq!((buf, error), (pattern(8, 1), PostError::ForeignObject));
        };
        let (work, buf) = (|| Work::send(pair.to_b), || pattern(8, 1));
        refused(deferred.post((&foreign, 1), &pair.a, work(), buf()));
        refused(deferred.post((go, 1), &elsewhere, work(), buf()));
        refused(deferred.post_then((go, 1), &pair.a, work(), &foreign, buf()));
        assert_eq!(deferred.add((go, 1), &foreign, 1), Err(PostError::ForeignObject));
        assert_eq!(deferred.set((&foreign, 1), go, 1), Err(PostError::ForeignObject));
        assert_eq!(Deferred::open_in(pair.cq, 0, allocator()).map(|_: Deferred<'_, T>| ()), Err(OpenError::Size));
        assert!(deferred.is_empty());
        quiet(deferred);
    });
}

fn tagged_messages_are_deferred<T: Transport + 'static>(info: &Info<T>) {
    with_work(info, 4, |World { pair, go, deferred, .. }| {
        let into = deferred.post((go, 1), &pair.b, Work::tagged_recv(Source::Any, Tag(7)), room(32)).expect("room");
        let send = Work::tagged_send(pair.to_b, Tag(7));
        let from = deferred.post_then((go, 2), &pair.a, send, go, pattern(32, 1)).expect("room");
        quiet(deferred);
        go.add(2).expect("adds");
        for _ in 0..2 {
            match next(deferred) {
                DeferredEvent::Done(key, done) => {
                    let transfer = done.result().or_cut("it succeeds");
                    assert!(key == from || (key == into && transfer.tag == Some(Tag(7))));
                    assert_eq!(done.into_buf(), pattern(32, 1));
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(wait_for(deferred, go, 3) && deferred.is_empty());
    });
}

fn send_starts_when_a_peer_has_written<T: Transport + 'static>(info: &Info<T>) {
    with_work_and_written(info, 4, Some(Counted::REMOTE_WRITE), |World { pair, go: written, deferred, .. }| {
        let region = Mr::open_in(pair.domain, room(64), Access::REMOTE_WRITE, allocator()).expect("a region");
        let remote = region.remote();
        let first = pair.post(pattern(64, 3), |buf| pair.a.write(pair.to_b, &remote, 0, buf));
        pair.finish(first);
        if never_counts(pair, written, &["net", "tcp"]) {
            return crate::report::not_run(NOTHING_COUNTED);
        }
        assert!(pair.cq.wait_counter(written, 1, limit()).or_cut("the queue works"), "it is counted");
        for round in 2..=4 {
            let key =
                deferred.post((written, round), &pair.b, Work::send(pair.to_a), pattern(8, 5)).expect("there is room");
            let answered = pair.post(room(8), |buf| pair.a.recv(Source::Any, buf));
            quiet(deferred);
            let wrote = pair.post(pattern(64, 3), |buf| pair.a.write(pair.to_b, &remote, 0, buf));
            let mut ended = Vec::new();
            while ended.len() < 3 {
                match next(deferred) {
                    DeferredEvent::Done(done, op) => {
                        assert_eq!((done, op.into_buf()), (key, pattern(8, 5)));
                        ended.push(None);
                    }
                    DeferredEvent::Other(Completion::Op(op)) => {
                        let key = op.key();
                        let (buf, result) = op.into_parts();
                        result.or_cut("it succeeds");
                        assert!(key == wrote || buf == pattern(8, 5));
                        ended.push(Some(key));
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert!([None, Some(answered), Some(wrote)].iter().all(|key| ended.contains(key)));
            assert!(deferred.is_empty());
        }
    });
}

fn reads_and_writes_are_deferred<T: Transport + 'static>(info: &Info<T>) {
    with_work(info, 4, |World { pair, go, deferred, .. }| {
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let region = Mr::open_in(pair.domain, room(256), access, allocator()).expect("a region");
        let (peer, region) = (pair.to_b, region.remote());
        let write = |offset| Work::Write { peer, region, offset, data: None };
        // The read waits for the write, and a refusal counts as a failure.
        let out = deferred.post_then((go, 1), &pair.a, write(64), go, pattern(64, 1)).expect("room");
        let into =
            deferred.post_then((go, 2), &pair.a, Work::Read { peer, region, offset: 64 }, go, room(64)).expect("room");
        let beyond = deferred.post_then((go, 3), &pair.a, write(200), go, pattern(64, 2)).expect("room");
        quiet(deferred);
        go.add(1).expect("adds");
        assert_eq!(finish(deferred, out), pattern(64, 1));
        assert_eq!(finish(deferred, into), pattern(64, 1));
        assert_eq!(returned(next(deferred)), (beyond, pattern(64, 2), PostError::OutOfBounds));
        assert!(wait_for(deferred, go, 3) && deferred.is_empty());
        let mut deadline = limit();
        while go.read_error() != 1 {
            assert!(!deadline.passed(), "the refusal is counted");
        }
    });
}

fn atomics_are_deferred<T: Transport + 'static>(info: &Info<T>) {
    with_work(info, 8, |World { pair, go, deferred, .. }| {
        let Ok(add) = pair.domain.query_atomic(FetchOp::<u64>::SUM) else { return };
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let memory: Bytes = vec![0; 64].into();
        let offset = memory.as_ptr().align_offset(8) as u64;
        let region = Mr::open_in(pair.domain, memory, access, allocator()).expect("a region");
        let work = Work::Atomic { peer: pair.to_b, region: region.remote(), offset, op: add.any() };
        let buf = |operand: u64| -> Bytes { [operand.to_ne_bytes(), [0; 8]].concat().into() };
        let keys: Vec<_> = (0..4)
            .map(|step| deferred.post_then((go, step), &pair.a, work, go, buf(step + 1)).expect("room"))
            .collect();
        let mut sum = 0_u64;
        for (step, key) in (1..).zip(keys) {
            assert_eq!(finish(deferred, key)[8..], sum.to_ne_bytes());
            sum += step;
        }
        // A length that is not a multiple of the element.
        let odd = deferred.post((go, 0), &pair.a, work, room(7)).expect("room");
        assert_eq!(returned(next(deferred)), (odd, room(7), PostError::NotElements { size: 8 }));
        assert!(deferred.is_empty());
    });
}
