//! Counters: counted operations, and refusals.

use loom_core::CqError;
use loom_core::atomic::{BaseOp, FetchOp};
use loom_core::av::Av;
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::{Deadline, Spins};
use loom_core::domain::Domain;
use loom_core::endpoint::{Binding, Endpoint, Source};
use loom_core::endpoint::{CompletionLevel, SendOptions};
use loom_core::error::OpenError;
use loom_core::info::Info;
use loom_core::mr::{Mr, MrAttr};
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, Caps, Counted, Errno, ImmediateData};

use super::pair::{Bytes, LIMIT, OrCut, Pair, carries_data, is_tested, limit, most, pattern, retry, room};
use crate::behaviours::needs::{ATOMIC_EVENT, Behaviour, MSG, RMA, RMA_EVENT};
use crate::memory::allocator;
use crate::report::{not_run, partly};

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    vec![
        ("messages_are_counted_on_both_sides", MSG, messages_are_counted_on_both_sides),
        ("reads_and_writes_are_counted", RMA, reads_and_writes_are_counted),
        ("one_counter_counts_for_several_endpoints", MSG, one_counter_counts_for_several_endpoints),
        ("reads_and_writes_of_peers_are_counted", RMA_EVENT, reads_and_writes_of_peers_are_counted),
        ("atomics_of_peers_are_counted", ATOMIC_EVENT, atomics_of_peers_are_counted),
        ("writes_of_peers_to_a_region_are_counted", RMA_EVENT, writes_of_peers_to_a_region_are_counted),
        ("a_failed_operation_is_counted_apart", MSG, a_failed_operation_is_counted_apart),
        ("a_counter_is_set_and_added_to", MSG, a_counter_is_set_and_added_to),
        ("a_counter_outlives_its_endpoints", MSG, a_counter_outlives_its_endpoints),
        ("invalid_counter_bindings_are_refused", MSG, invalid_counter_bindings_are_refused),
    ]
}

/// Returns `true` if the transport has counters, and checks the refusal otherwise.
pub fn counts<T: Transport + 'static>(info: &Info<T>) -> bool {
    let domain = Domain::open(info).expect("domain");
    let Err(error) = Counter::open(&domain, CounterAttr::default()).map(drop) else { return true };
    crate::report::not_granted();
    assert_eq!((error, info.provider()), (OpenError::Errno(Errno::ENOSYS), "udp"));
    false
}

/// Opens endpoints with counters, `a` and `b`, as a pair.
fn with_counters<T: Transport + 'static>(
    info: &Info<T>,
    of_a: &[Counted],
    of_b: &[Counted],
    test: impl FnOnce(&Pair<'_, '_, T>, &[Counter<'_, T>], &[Counter<'_, T>]),
) {
    if !counts(info) {
        return;
    }
    let domain = Domain::open(info).expect("domain");
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    let open = |counted: &[Counted]| -> Vec<_> {
        counted.iter().map(|_| Counter::open(&domain, CounterAttr::default()).expect("counter")).collect()
    };
    let (counters_of_a, counters_of_b) = (open(of_a), open(of_b));
    let cq = Cq::open_in(&domain, CqAttr::new(64), allocator()).expect("queue");
    let a = endpoint(&cq, &av, of_a, &counters_of_a);
    let b = endpoint(&cq, &av, of_b, &counters_of_b);
    let to_a = av.insert(&a.address().expect("address of a")).expect("a in the vector");
    let to_b = av.insert(&b.address().expect("address of b")).expect("b in the vector");
    test(&Pair { cq: &cq, av: &av, domain: &domain, a, b, to_a, to_b }, &counters_of_a, &counters_of_b);
}

fn endpoint<'d, T: Transport + 'static>(
    cq: &Cq<'d, T, Bytes>,
    av: &Av<'d, T>,
    counted: &[Counted],
    counters: &[Counter<'d, T>],
) -> Endpoint<'d, T, Bytes> {
    let bound = counted
        .iter()
        .zip(counters)
        .fold(Binding::to(av), |bound, (counted, counter)| bound.counter(*counted, counter));
    cq.endpoint(bound).expect("an endpoint with counters")
}

pub fn reaches<T: Transport + 'static>(cq: &Cq<'_, T, Bytes>, counter: &Counter<'_, T>, value: u64) {
    let reached = cq.wait_counter(counter, value, limit()).or_cut("the queue works, and what is counted succeeds");
    assert!(reached, "{} instead of {value} within {LIMIT:?}", counter.read());
    assert_eq!(counter.read(), value);
    let more = cq.wait_counter(counter, value + 1, Spins(10)).or_cut("the queue works");
    assert!(!more, "{} instead of {value}", counter.read());
}

fn messages_are_counted_on_both_sides<T: Transport + 'static>(info: &Info<T>) {
    with_counters(info, &[Counted::SEND, Counted::RECV], &[Counted::RECV], |pair, of_a, of_b| {
        let mut sent = 0;
        for len in [0, 64, 1 << 20].map(|len| most(info, len)) {
            let received = pair.post(room(len), |buf| pair.b.recv(Source::Any, buf));
            let key = pair.post(pattern(len, 1), |buf| pair.a.send(pair.to_b, buf));
            pair.finish(key);
            pair.finish(received);
            let received = pair.receive(3, len);
            let key = pair.send(3, pattern(len, 2));
            pair.finish(key);
            pair.finish(received);
            sent += 2;
        }
        let received = pair.post(room(8), |buf| pair.b.recv(Source::Any, buf));
        retry(pair.cq, || pair.a.inject(pair.to_b, &pattern(8, 3)));
        assert_eq!(pair.finish(received).0, pattern(8, 3));
        sent += 1;
        reaches(pair.cq, &of_a[0], sent);
        reaches(pair.cq, &of_b[0], sent);
        assert_eq!((of_a[1].read(), of_a[1].read_error()), (0, 0), "nothing was sent to a");
        assert_eq!((of_a[0].read_error(), of_b[0].read_error()), (0, 0));
    });
}

fn reads_and_writes_are_counted<T: Transport + 'static>(info: &Info<T>) {
    with_counters(info, &[Counted::READ, Counted::WRITE], &[], |pair, of_a, _| {
        pair.warm_up();
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let region = Mr::open_in(pair.domain, room(4096), access, allocator()).expect("a region");
        let remote = region.remote();
        // The reads may overtake a write that is not delivered.
        let (part, delivered) = (
            [remote.part(8, 100).expect("within")],
            SendOptions { level: Some(CompletionLevel::Delivery), ..SendOptions::default() },
        );
        for round in 0..3 {
            let write = |buf| pair.a.write_with(pair.to_b, &part, delivered, buf);
            let written = pair.post(pattern(100, round), write);
            pair.finish(written);
        }
        retry(pair.cq, || pair.a.inject_write(pair.to_b, &remote, 0, &pattern(8, 9)));
        for _ in 0..2 {
            let read = pair.post(room(100), |buf| pair.a.read(pair.to_b, &remote, 8, buf));
            assert_eq!(pair.finish(read).0, pattern(100, 2));
        }
        reaches(pair.cq, &of_a[0], 2);
        reaches(pair.cq, &of_a[1], 4);
        assert_eq!((of_a[0].read_error(), of_a[1].read_error()), (0, 0));
    });
}

const PEER_ACCESS: Access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);

/// Reason for `net`, and `tcp` of libfabric 2.
pub const NOTHING_COUNTED: &str = "The provider grants `FI_RMA_EVENT`, but does not count operations of peers \
    (`…-write-of-a-peer-is-not-counted`)";

/// Returns `true` for a provider with counters of peers' operations that stay at zero, and checks
/// that they do.
pub fn never_counts<T: Transport + 'static>(
    pair: &Pair<'_, '_, T>,
    counter: &Counter<'_, T>,
    providers: &[&str],
) -> bool {
    let counts = || pair.cq.wait_counter(counter, 1, Spins(10_000)).or_cut("the queue works");
    providers.contains(&pair.domain.info().provider()) && !counts()
}

fn reads_and_writes_of_peers_are_counted<T: Transport + 'static>(info: &Info<T>) {
    with_counters(info, &[], &[Counted::REMOTE_READ, Counted::REMOTE_WRITE], |pair, _, of_b| {
        pair.warm_up();
        let region = Mr::open_in(pair.domain, room(1 << 20), PEER_ACCESS, allocator()).expect("a region");
        let remote = region.remote();
        let (mut writes, mut reads) = (0, 0);
        for len in [8, 100, 1 << 20] {
            let written = pair.post(pattern(len, 1), |buf| pair.a.write(pair.to_b, &remote, 0, buf));
            pair.finish(written);
            writes += 1;
            if never_counts(pair, &of_b[1], &["net", "tcp"]) {
                return not_run(NOTHING_COUNTED);
            }
            reaches(pair.cq, &of_b[1], writes);
            let read = pair.post(room(len), |buf| pair.a.read(pair.to_b, &remote, 0, buf));
            assert_eq!(pair.finish(read).0, pattern(len, 1));
            reads += 1;
            reaches(pair.cq, &of_b[0], reads);
        }
        retry(pair.cq, || pair.a.inject_write(pair.to_b, &remote, 0, &pattern(8, 9)));
        writes += 1;
        reaches(pair.cq, &of_b[1], writes);
        if carries_data(info) {
            let data = ImmediateData(7);
            let written = pair.post(pattern(8, 2), |buf| pair.a.write_data(pair.to_b, &remote, 0, data, buf));
            assert_eq!(pair.remote_event().data(), Some(data));
            pair.finish(written);
            writes += 1;
            reaches(pair.cq, &of_b[1], writes);
        }
        assert_eq!((of_b[0].read(), of_b[0].read_error(), of_b[1].read_error()), (reads, 0, 0));
    });
}

fn atomics_of_peers_are_counted<T: Transport + 'static>(info: &Info<T>) {
    with_counters(info, &[], &[Counted::REMOTE_READ, Counted::REMOTE_WRITE], |pair, _, of_b| {
        pair.warm_up();
        let region = Mr::open_in(pair.domain, room(64), PEER_ACCESS, allocator()).expect("a region");
        let (remote, offset) = (region.remote(), region.window().as_ptr().align_offset(8) as u64);
        let add = pair.domain.query_atomic(BaseOp::<u64>::SUM).expect("add");
        let fetch_add = pair.domain.query_atomic(FetchOp::<u64>::SUM).expect("fetch and add");
        for round in 1..=3 {
            let key = retry(pair.cq, || pair.a.atomic_value(pair.to_b, &remote, offset, add, 1));
            let done = pair.cq.wait_value(key, limit()).or_cut("the queue works");
            done.expect("in time").result().or_cut("it succeeds");
            reaches(pair.cq, &of_b[1], round);
            let key = retry(pair.cq, || pair.a.fetch_value(pair.to_b, &remote, offset, fetch_add, 1));
            let done = pair.cq.wait_value(key, limit()).or_cut("the queue works");
            done.expect("in time").result().or_cut("it succeeds");
            if never_counts(pair, &of_b[0], &["sockets"]) {
                return partly(
                    "Atomic operations that fetch are not counted \
                    (`sockets-fetching-atomic-of-a-peer-is-not-counted`)",
                );
            }
            reaches(pair.cq, &of_b[0], round);
        }
        assert_eq!((of_b[0].read_error(), of_b[1].read_error()), (0, 0));
    });
}

/// Checks that a counter of one of two regions counts the writes there, and no others.
fn writes_of_peers_to_a_region_are_counted<T: Transport + 'static>(info: &Info<T>) {
    if !counts(info) {
        return;
    }
    let domain = Domain::open(info).expect("domain");
    let writes = Counter::open(&domain, CounterAttr::default()).expect("counter");
    let attr = MrAttr::new(PEER_ACCESS).counter(&writes);
    let counted = match Mr::open_in(&domain, room(64), attr, allocator()) {
        Ok(counted) => counted,
        Err(error) => {
            crate::report::not_granted();
            assert_eq!(error, OpenError::Errno(Errno::ENOSYS));
            assert!(!["soft", "sockets"].contains(&info.provider()));
            return;
        }
    };
    let other = Mr::open_in(&domain, room(64), PEER_ACCESS, allocator()).expect("a region");
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    let cq = Cq::open_in(&domain, CqAttr::new(64), allocator()).expect("queue");
    let pair = Pair::open(&domain, &cq, &av);
    pair.warm_up();
    for round in 1..=3 {
        for remote in [other.remote(), counted.remote()] {
            let written = pair.post(pattern(8, 1), |buf| pair.a.write(pair.to_b, &remote, 16, buf));
            pair.finish(written);
            let read = pair.post(room(8), |buf| pair.a.read(pair.to_b, &remote, 16, buf));
            assert_eq!(pair.finish(read).0, pattern(8, 1));
        }
        reaches(pair.cq, &writes, round);
    }
    assert_eq!(writes.read_error(), 0);
    // If closing a region is no fence, endpoints close first.
    drop(pair);
    drop(cq);
    assert_eq!(counted.close().expect("it closes")[16..24], pattern(8, 1)[..]);
    assert_eq!(writes.read(), 3);
}

/// Checks that an endpoint with counters of peers' operations is refused if the provider does not
/// grant them.
pub fn counters_of_peers_are_refused<T: Transport + 'static>(pair: &Pair<'_, '_, T>) {
    let Ok(counter) = Counter::open(pair.domain, CounterAttr::default()) else { return };
    for counted in [Counted::REMOTE_READ, Counted::REMOTE_WRITE] {
        let refused = pair.cq.endpoint(Binding::to(pair.av).counter(counted, &counter));
        assert_eq!(refused.map(drop), Err(OpenError::Errno(Errno::EOPNOTSUPP)));
    }
}

fn one_counter_counts_for_several_endpoints<T: Transport + 'static>(info: &Info<T>) {
    if !counts(info) {
        return;
    }
    let domain = Domain::open(info).expect("domain");
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    let all = [Counter::open(&domain, CounterAttr::default()).expect("counter")];
    let cq = Cq::open_in(&domain, CqAttr::new(64), allocator()).expect("queue");
    let everything = [Counted::SEND | Counted::RECV | Counted::READ | Counted::WRITE];
    let (a, b) = (endpoint(&cq, &av, &everything, &all), endpoint(&cq, &av, &everything, &all));
    let to_a = av.insert(&a.address().expect("address of a")).expect("a in the vector");
    let to_b = av.insert(&b.address().expect("address of b")).expect("b in the vector");
    let pair = Pair { cq: &cq, av: &av, domain: &domain, a, b, to_a, to_b };
    for round in 1..=5 {
        pair.warm_up();
        reaches(&cq, &all[0], 2 * round);
    }
}

fn a_failed_operation_is_counted_apart<T: Transport + 'static>(info: &Info<T>) {
    with_counters(info, &[], &[Counted::RECV], |pair, _, of_b| {
        let cancelled = pair.post(room(8), |buf| pair.b.recv(Source::Any, buf));
        pair.b.cancel(cancelled).expect("cancels");
        pair.fail(cancelled, Errno::ECANCELED);
        let mut deadline = limit();
        // Some providers do not count a cancelled receive as a failure.
        let counts = ["soft", "sockets"].contains(&info.provider());
        while counts && of_b[0].read_error() == 0 {
            assert!(!deadline.passed(), "no failure counted within {LIMIT:?}");
            pair.cq.progress().or_cut("works");
        }
        if of_b[0].read_error() == 0 {
            partly("A cancelled receive is not counted as failed");
        }
        assert_eq!(of_b[0].read(), 0);
        pair.warm_up();
        reaches(pair.cq, &of_b[0], 1);
    });
}

fn a_counter_is_set_and_added_to<T: Transport + 'static>(info: &Info<T>) {
    if !counts(info) {
        return;
    }
    let domain = Domain::open(info).expect("domain");
    let counter = Counter::open(&domain, CounterAttr::default()).expect("counter");
    assert_eq!((counter.read(), counter.read_error()), (0, 0));
    let eventually = |read: &dyn Fn() -> u64, value: u64| {
        let mut deadline = limit();
        while read() != value {
            assert!(!deadline.passed(), "{} instead of {value}", read());
        }
    };
    counter.add(5).expect("adds");
    eventually(&|| counter.read(), 5);
    counter.set(3).expect("sets");
    eventually(&|| counter.read(), 3);
    counter.add(u64::MAX).expect("adds");
    eventually(&|| counter.read(), 2);
    counter.add_error(7).expect("adds");
    eventually(&|| counter.read_error(), 7);
    counter.set_error(1).expect("sets");
    eventually(&|| counter.read_error(), 1);
    assert_eq!(counter.read(), 2);
    assert_eq!(counter.wait_for(0, LIMIT), Err(CqError::NotOpenedFor));
    assert_eq!(counter.wait_fd(), Err(CqError::NotOpenedFor));
}

/// Closes endpoints before their counter, with messages in flight that are not polled: endpoints of
/// `shm` stay open then, and a read that polls would take those messages.
fn a_counter_outlives_its_endpoints<T: Transport + 'static>(info: &Info<T>) {
    if !counts(info) {
        return;
    }
    for len in [8, 100_000].map(|len| most(info, len)) {
        let domain = Domain::open(info).expect("domain");
        let counter = Counter::open(&domain, CounterAttr::default()).expect("counter");
        let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
        {
            let cq = Cq::open_in(&domain, CqAttr::new(64), allocator()).expect("queue");
            let received = Counted::RECV | Counted::READ | Counted::WRITE;
            let a = cq.endpoint(Binding::to(&av).counter(received, &counter)).expect("an endpoint with a counter");
            let b = cq.endpoint(&av).expect("an endpoint");
            let to_a = av.insert(&a.address().expect("address of a")).expect("a in the vector");
            let to_b = av.insert(&b.address().expect("address of b")).expect("b in the vector");
            let pair = Pair { cq: &cq, av: &av, domain: &domain, a, b, to_a, to_b };
            let received = pair.post(room(8), |buf| pair.a.recv(Source::Any, buf));
            let sent = pair.post(pattern(8, 1), |buf| pair.b.send(pair.to_a, buf));
            pair.finish(received);
            pair.finish(sent);
            reaches(&cq, &counter, 1);
            pair.post(pattern(len, 2), |buf| pair.b.send(pair.to_a, buf));
        }
        for _ in 0..100 {
            assert_eq!(counter.read(), 1, "what nobody received is not counted");
        }
        assert_eq!(counter.read_error(), 0);
        match counter.add(1) {
            // An endpoint has stayed open.
            Err(errno) => {
                assert_eq!(errno, Errno::ENODEV);
                assert!(info.provider() == "shm" || !is_tested(info));
            }
            Ok(()) => {
                let mut deadline = limit();
                while counter.read() != 2 {
                    assert!(!deadline.passed(), "{} instead of 2", counter.read());
                }
            }
        }
    }
}

fn invalid_counter_bindings_are_refused<T: Transport + 'static>(info: &Info<T>) {
    if !counts(info) {
        return;
    }
    let domain = Domain::open(info).expect("domain");
    let other = Domain::open(info).expect("another domain");
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    let counter = || Counter::open(&domain, CounterAttr::default()).expect("counter");
    let (one, two, foreign) = (counter(), counter(), Counter::open(&other, CounterAttr::default()).expect("counter"));
    let cq = Cq::<T, Bytes>::open_in(&domain, CqAttr::new(4), allocator()).expect("queue");
    let twice = Binding::to(&av).counter(Counted::SEND | Counted::RECV, &one).counter(Counted::RECV, &two);
    assert_eq!(cq.endpoint(twice).unwrap_err(), OpenError::Counters);
    let nothing = Binding::to(&av).counter(Counted::empty(), &one);
    assert_eq!(cq.endpoint(nothing).unwrap_err(), OpenError::Counters);
    let elsewhere = Binding::to(&av).counter(Counted::SEND, &foreign);
    assert_eq!(cq.endpoint(elsewhere).unwrap_err(), OpenError::OtherDomain);
    if !info.caps().contains(Caps::RMA_EVENT) {
        let remote = Binding::to(&av).counter(Counted::REMOTE_WRITE, &one);
        assert_eq!(cq.endpoint(remote).unwrap_err(), OpenError::Errno(Errno::EOPNOTSUPP));
    }
    let unknown = Binding::to(&av).counter(Counted::from_bits_retain(1 << 40), &one);
    assert_eq!(cq.endpoint(unknown).unwrap_err(), OpenError::Counters);
    let many =
        [Counted::READ, Counted::WRITE, Counted::SEND, Counted::RECV, Counted::SEND, Counted::RECV, Counted::READ]
            .into_iter()
            .fold(Binding::to(&av), |bound, counted| bound.counter(counted, &two));
    assert_eq!(cq.endpoint(many).unwrap_err(), OpenError::Counters);
    // The refused call has no effect.
    drop(cq.endpoint(Binding::to(&av).counter(Counted::SEND, &one).counter(Counted::RECV, &two)).expect("an endpoint"));
}
