//! Data transfers over connections.

use std::time::Instant;

use loom_core::completion::Completion;
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::{AnyConnection, Binding, ThePeer};
use loom_core::eq::{EqAttr, EventQueue};
use loom_core::error::PostError;
use loom_core::info::{Hints, Info};
use loom_core::mr::Mr;
use loom_core::vocabulary::{Access, Caps, Counted, EndpointAttributes, EndpointType, Errno, ImmediateData, Tag};

use super::Case;
use super::sides::{Bytes, LIMIT, Sides, T, client_info, meet, pattern, room, with_sides};
use crate::connected::Found;

pub(crate) fn cases() -> Vec<(&'static str, Case)> {
    vec![
        ("messages_arrive_both_ways", messages_arrive_both_ways),
        ("a_receive_may_be_posted_before_the_connection", a_receive_may_be_posted_before_the_connection),
        ("immediate_data_and_injected_messages_arrive", immediate_data_and_injected_messages_arrive),
        ("tagged_messages_match_or_are_refused", tagged_messages_match_or_are_refused),
        ("reads_and_writes_reach_the_region", reads_and_writes_reach_the_region),
        ("a_too_long_message_is_truncated_with_an_error", a_too_long_message_is_truncated_with_an_error),
        ("a_receive_is_cancelled", a_receive_is_cancelled),
        ("counters_count_over_connections", counters_count_over_connections),
        ("counters_count_through_a_shared_context", counters_count_through_a_shared_context),
        ("one_listener_serves_many_while_others_come_and_go", one_listener_serves_many_while_others_come_and_go),
        ("multi_receives_of_connections_are_refused", multi_receives_of_connections_are_refused),
    ]
}

fn messages_arrive_both_ways(info: &Info<T>) {
    with_sides(info, |sides| {
        let (server, client) = sides.pair();
        for (seed, len) in [0, 1, 64, 4096, 1 << 20].into_iter().enumerate() {
            sides.message(&client, &server, len, seed);
            sides.message(&server, &client, len, seed + 100);
        }
    });
}

fn a_receive_may_be_posted_before_the_connection(info: &Info<T>) {
    with_sides(info, |sides| {
        let connecting = sides.connect(&[]);
        let accepting = sides.request().endpoint(sides.cq, sides.server).expect("an endpoint");
        let received = sides.post(room(64), |buf| accepting.recv(ThePeer, buf));
        let accepting = accepting.accept(&[]).expect("accepts");
        let _server = sides.established(sides.server, accepting);
        let client = sides.established(sides.client, connecting);
        let sent = sides.post(pattern(64, 3), |buf| client.send(ThePeer, buf));
        assert_eq!(sides.finish(received).0, pattern(64, 3));
        sides.finish(sent);
    });
}

fn immediate_data_and_injected_messages_arrive(info: &Info<T>) {
    with_sides(info, |sides| {
        let (server, client) = sides.pair();
        let data = ImmediateData(0x1234_5678_9abc_def0);
        let expect = |len: usize, seed: usize, data: Option<ImmediateData>, send: &dyn Fn()| {
            let received = sides.post(room(len), |buf| server.recv(ThePeer, buf));
            send();
            let (bytes, transfer) = sides.finish(received);
            assert_eq!((&*bytes, transfer.data), (&*pattern(len, seed), data));
        };
        expect(16, 1, Some(data), &|| {
            let sent = sides.post(pattern(16, 1), |buf| client.send_data(ThePeer, data, buf));
            sides.finish(sent);
        });
        let len = client.inject_size().min(64);
        assert!(len > 0);
        expect(len, 2, None, &|| client.inject(ThePeer, &pattern(len, 2)).expect("injects"));
        expect(len, 3, Some(data), &|| client.inject_data(ThePeer, data, &pattern(len, 3)).expect("injects"));
        let limit = client.inject_size();
        assert_eq!(client.inject(ThePeer, &vec![0; limit + 1]), Err(PostError::TooLong { limit }));
    });
}

fn tagged_messages_match_or_are_refused(info: &Info<T>) {
    with_sides(info, |sides| {
        let (server, client) = sides.pair();
        if !info.caps().contains(Caps::TAGGED) {
            let refused = client.tagged_send(ThePeer, Tag(1), pattern(8, 1)).unwrap_err();
            assert_eq!(refused.value, pattern(8, 1));
            assert!(matches!(refused.error, PostError::NotGranted(caps) if caps.contains(Caps::TAGGED)));
            let refused = server.tagged_recv(ThePeer, Tag(1), room(8)).unwrap_err();
            assert!(matches!(refused.error, PostError::NotGranted(caps) if caps.contains(Caps::TAGGED)));
            return;
        }
        let second = sides.post(room(8), |buf| server.tagged_recv(ThePeer, Tag(2), buf));
        let first = sides.post(room(8), |buf| server.tagged_recv(ThePeer, Tag(1), buf));
        for tag in [1, 2] {
            let sent = sides.post(pattern(8, tag), |buf| client.tagged_send(ThePeer, Tag(tag as u64), buf));
            sides.finish(sent);
        }
        assert_eq!(sides.finish(first).0, pattern(8, 1));
        assert_eq!(sides.finish(second).0, pattern(8, 2));
    });
}

fn reads_and_writes_reach_the_region(info: &Info<T>) {
    with_sides(info, |sides| {
        let (server, client) = sides.pair();
        let len = 1 << 16;
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let region = Mr::open_for(sides.domain, &server, pattern(len, 7), access).expect("a region");
        let remote = region.remote();

        let read = sides.post(room(1000), |buf| client.read(ThePeer, &remote, 24, buf));
        assert_eq!(&*sides.finish(read).0, &pattern(len, 7)[24..1024]);
        let written = sides.post(pattern(500, 8), |buf| client.write(ThePeer, &remote, 100, buf));
        sides.finish(written);
        client.inject_write(ThePeer, &remote, 2000, &pattern(32, 9)).expect("injects");
        let data = ImmediateData(77);
        let written = sides.post(pattern(500, 10), |buf| client.write_data(ThePeer, &remote, 3000, data, buf));
        sides.finish(written);
        assert_eq!(remote_event(sides), Some(data));
        client.inject_write_data(ThePeer, &remote, 4000, data, &pattern(32, 11)).expect("injects");
        assert_eq!(remote_event(sides), Some(data));

        // A read over the connection, which keeps the order.
        let read = sides.post(room(len), |buf| client.read(ThePeer, &remote, 0, buf));
        let mut expected = pattern(len, 7);
        for (at, bytes) in
            [(100, pattern(500, 8)), (2000, pattern(32, 9)), (3000, pattern(500, 10)), (4000, pattern(32, 11))]
        {
            expected[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        assert!(sides.finish(read).0 == expected);
        let outside = client.read(ThePeer, &remote, len as u64 - 1, room(2)).unwrap_err();
        assert_eq!(outside.error, PostError::OutOfBounds);
        // The region is bound to the server's endpoint, and closes first.
        drop(region);
        drop((server, client));
    });
}

fn remote_event(sides: &Sides<'_, '_>) -> Option<ImmediateData> {
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        match sides.cq.poll().expect("the queue works") {
            Some(Completion::Remote(event)) => return event.data(),
            Some(other) => panic!("a peer's event, not {other:?}"),
            None => {}
        }
    }
    panic!("no event of a peer within {LIMIT:?}");
}

/// Sends messages of each size class that are too long. The next receive has the next message, or
/// an error, and then the endpoints close.
fn a_too_long_message_is_truncated_with_an_error(info: &Info<T>) {
    for len in [17, 64, 200, 8192, 40_000, 100_000, 1 << 20] {
        with_sides(info, |sides| {
            let (server, client) = sides.pair();
            let received = sides.post(room(16), |buf| server.recv(ThePeer, buf));
            let sent = sides.post(pattern(len, 5), |buf| client.send(ThePeer, buf));
            let (bytes, result) = sides.end(received);
            let error = result.expect_err("does not fit");
            println!("{error:?}");
            // A provider that ends the connection for it reports this error.
            assert!([Errno::ETRUNC, Errno::ECANCELED].contains(&error.errno), "{error:?}");
            assert_eq!(bytes.len(), 16);
            let next = server.recv(ThePeer, room(len)).ok();
            let follows = client.send(ThePeer, pattern(len, 6)).ok();
            if let (Some(next), Some(_)) = (next, follows) {
                let (bytes, result) = sides.end(next);
                let is_next = result.map(|transfer| (transfer.len, bytes == pattern(len, 6)));
                assert!(is_next.is_err() || is_next == Ok((len, true)), "{len} bytes: {is_next:?}");
            }
            // If the connection has ended, a long one ends with its endpoint.
            drop((server, client));
            [Some(sent), follows].into_iter().flatten().for_each(|sent| _ = sides.end(sent));
        });
    }
}

fn a_receive_is_cancelled(info: &Info<T>) {
    with_sides(info, |sides| {
        let (server, client) = sides.pair();
        let cancelled = sides.post(room(16), |buf| server.recv(ThePeer, buf));
        let kept = sides.post(room(16), |buf| server.recv(ThePeer, buf));
        server.cancel(cancelled).expect("cancels");
        let (bytes, result) = sides.end(cancelled);
        assert_eq!((bytes, result.expect_err("cancelled").errno), (room(16), Errno::ECANCELED));
        let sent = sides.post(pattern(16, 6), |buf| client.send(ThePeer, buf));
        assert_eq!(sides.finish(kept).0, pattern(16, 6));
        sides.finish(sent);
    });
}

fn counters_count_over_connections(info: &Info<T>) {
    count(info, false);
}

fn counters_count_through_a_shared_context(info: &Info<T>) {
    if !crate::connected::shares_receives(info) {
        with_sides(info, |sides| assert!(super::shared_rx::shared(sides, info).is_none()));
        return;
    }
    count(info, true);
}

/// Counts messages over a connection. The server receives with or without a shared context.
fn count(info: &Info<T>, through_shared: bool) {
    let domain = Domain::open(info).expect("domain");
    let eq = EventQueue::open(&domain, EqAttr::default()).expect("event queue");
    let (sent, received) = match [(); 2].map(|()| Counter::open(&domain, CounterAttr::default())) {
        [Ok(sent), Ok(received)] => (sent, received),
        [Err(error), _] | [_, Err(error)] => {
            println!("{} has no counters for connections: {error:#}", info.provider());
            assert_eq!(info.attributes().domain.cntr_cnt, 0, "as its info says");
            crate::connected::report::not_granted();
            return;
        }
    };
    let cq = Cq::<T, Bytes>::open(&domain, CqAttr::new(16)).expect("queue");
    let shared = through_shared.then(|| cq.shared_rx(info).expect("a shared receive context"));
    let listener = eq.listen(info).expect("listens");
    let address = listener.address().expect("its address");
    let info = client_info(info, &address);
    let client = cq.msg_endpoint(Binding::to(&eq).counter(Counted::SEND, &sent), &info).expect("an endpoint");
    let (server, client) = meet(&eq, client.connect(&address, &[]).expect("asks"), |request| {
        let bind = Binding::to(&eq).counter(Counted::RECV, &received);
        match &shared {
            Some(shared) => request.endpoint_through(shared, bind),
            None => request.endpoint(&cq, bind),
        }
    });
    let deadline = Instant::now() + LIMIT;
    for round in 1..=5 {
        let receive = match &shared {
            Some(shared) => shared.recv(AnyConnection, room(64)),
            None => server.recv(ThePeer, room(64)),
        };
        let receive = receive.expect("posts");
        client.send(ThePeer, pattern(64, 1)).expect("posts");
        cq.wait(receive, deadline).expect("works").expect("in time").result().expect("succeeds");
        while (sent.read(), received.read()) != (round, round) {
            assert!(Instant::now() < deadline, "{} sent, {} received", sent.read(), received.read());
            cq.progress().expect("works");
        }
    }
}

fn one_listener_serves_many_while_others_come_and_go(info: &Info<T>) {
    with_sides(info, |sides| {
        let lasting: Vec<_> = (0..8).map(|_| sides.pair()).collect();
        for round in 0..10 {
            let (server, client) = sides.pair();
            for (seed, (server, client)) in lasting.iter().enumerate() {
                sides.message(client, server, 100, seed + round);
            }
            sides.message(&server, &client, 5000, round);
            // In even rounds the client closes first, in odd rounds the server.
            let (gone, left, told) =
                if round % 2 == 0 { (client, server, sides.server) } else { (server, client, sides.client) };
            drop(gone);
            assert!(sides.ended(told).is_of(&left));
            for (seed, (server, client)) in lasting.iter().enumerate() {
                sides.message(server, client, 100, seed + round);
            }
            drop(left);
        }
        assert_eq!(sides.cq.in_flight(), 0);
    });
}

/// Checks the refusal of multi-receives, also by `tcp` of libfabric 2.5. Its endpoints without
/// connections have them, but such a receive takes one message, and never ends.
fn multi_receives_of_connections_are_refused(info: &Info<T>) {
    let hints = Hints {
        caps: Caps::MSG | Caps::MULTI_RECV,
        endpoint_attr: EndpointAttributes::of(EndpointType::MSG),
        provider: Some(info.provider()),
        node: Some("127.0.0.1"),
        listen: true,
        ..Hints::default()
    };
    // Most providers have no info that grants them.
    let granted = T::find(&hints);
    with_sides(granted.as_ref().unwrap_or(info), |sides| {
        let (server, _client) = sides.pair();
        let refused = server.multi_recv(ThePeer, room(256)).expect_err("it would never end");
        assert!(matches!(refused.error, PostError::NotSafe | PostError::NotGranted(_)), "{}", refused.error);
    });
}
