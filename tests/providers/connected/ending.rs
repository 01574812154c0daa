//! Ends of connections: by shutdown, by closing, during transfers, and in every order.

use std::hint::black_box;
use std::mem;
use std::time::{Duration, Instant};

use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::ThePeer;
use loom_core::eq::{EqAttr, EventQueue};
use loom_core::error::PostError;
use loom_core::info::Info;
use loom_core::mr::Mr;
use loom_core::scope;
use loom_core::vocabulary::{Access, Errno};

use super::Case;
use super::sides::{Bytes, Endpoint, LIMIT, Sides, T, pattern, room, with_sides, with_sides_in_a_scope};
use crate::connected::Found;

pub(crate) fn cases() -> Vec<(&'static str, Case)> {
    vec![
        ("a_shutdown_reaches_the_peer", a_shutdown_reaches_the_peer),
        ("closing_reaches_the_peer", closing_reaches_the_peer),
        ("operations_in_flight_come_back_when_the_peer_goes", operations_in_flight_come_back_when_the_peer_goes),
        ("operations_in_flight_come_back_with_the_endpoint", operations_in_flight_come_back_with_the_endpoint),
        ("reads_in_flight_come_back_with_the_endpoint", reads_in_flight_come_back_with_the_endpoint),
        ("a_region_may_be_closed_in_the_middle_of_writes", a_region_may_be_closed_in_the_middle_of_writes),
        ("a_closed_endpoints_events_are_not_the_next_ones", a_closed_endpoints_events_are_not_the_next_ones),
        ("an_attempt_can_be_given_up", an_attempt_can_be_given_up),
        ("unread_requests_end_with_the_queue", unread_requests_end_with_the_queue),
        ("forgotten_objects_leak_and_affect_no_others", forgotten_objects_leak_and_affect_no_others),
        ("borrowed_buffers_come_back_before_a_scope_ends", borrowed_buffers_come_back_before_a_scope_ends),
    ]
}

/// Event that `sockets` does not report.
const UNTOLD: &str = "The provider does not always report the end of a connection to which it writes, and reports a \
    message that fits into its buffers as sent";

/// Checks that posts on an ended connection are refused, or complete with an error.
fn posts_fail(sides: &Sides<'_, '_>, endpoint: &Endpoint<'_>) {
    // `sockets` reports a message as sent if it fits into its buffers.
    let provider_knows = sides.domain.info().provider() != "sockets";
    for len in [8, 100_000] {
        match endpoint.send(ThePeer, pattern(len, 1)) {
            Ok(key) => {
                let (bytes, result) = sides.end(key);
                assert!(bytes == pattern(len, 1));
                assert!(result.is_err() || !provider_knows, "there is no connection");
            }
            Err(rejected) => {
                assert!(rejected.value == pattern(len, 1));
                assert!(matches!(rejected.error, PostError::Errno(_) | PostError::Again), "{:?}", rejected.error);
            }
        }
    }
}

fn a_shutdown_reaches_the_peer(info: &Info<T>) {
    with_sides(info, |sides| {
        let (server, client) = sides.pair();
        let received = sides.post(room(64), |buf| server.recv(ThePeer, buf));
        let sent = sides.post(pattern(64, 1), |buf| client.send(ThePeer, buf));
        sides.finish(sent);
        assert_eq!(sides.finish(received).0, pattern(64, 1));
        let shut_down = client.shutdown();
        if !crate::connected::shuts_down(info) {
            assert_eq!(shut_down, Err(Errno::EOPNOTSUPP));
            crate::connected::report::not_granted();
            return sides.message(&client, &server, 64, 2);
        }
        shut_down.expect("shuts down");
        assert!(sides.ended(sides.server).is_of(&server));
        posts_fail(sides, &client);
        posts_fail(sides, &server);
        println!("again: {:?}", client.shutdown());
    });
}

fn closing_reaches_the_peer(info: &Info<T>) {
    with_sides(info, |sides| {
        let (server, client) = sides.pair();
        sides.message(&client, &server, 64, 1);
        drop(client);
        assert!(sides.ended(sides.server).is_of(&server));
        if info.provider() == "sockets" {
            crate::connected::report::partly(UNTOLD);
        }
        posts_fail(sides, &server);
    });
}

fn operations_in_flight_come_back_when_the_peer_goes(info: &Info<T>) {
    with_sides(info, |sides| {
        let (server, client) = sides.pair();
        let received: Vec<_> = (0..4).map(|_| sides.post(room(64), |buf| server.recv(ThePeer, buf))).collect();
        // Exceeds the buffers of sockets.
        let sent = sides.post(pattern(64 << 20, 1), |buf| server.send(ThePeer, buf));
        drop(client);
        if info.provider() == "sockets" {
            crate::connected::report::partly(UNTOLD);
        } else {
            assert!(sides.ended(sides.server).is_of(&server));
        }
        drop(server);
        for key in received {
            let (bytes, result) = sides.end(key);
            assert_eq!(bytes, room(64));
            result.expect_err("nothing came");
        }
        let (bytes, result) = sides.end(sent);
        assert!(bytes.len() == 64 << 20);
        assert!(result.is_err() || info.provider() == "sockets", "nobody received it");
    });
}

fn operations_in_flight_come_back_with_the_endpoint(info: &Info<T>) {
    with_sides(info, |sides| {
        let (server, client) = sides.pair();
        let received: Vec<_> = (0..4).map(|_| sides.post(room(64), |buf| client.recv(ThePeer, buf))).collect();
        // Over an untested provider, an endpoint closes after its last send.
        let len = if T::is_tested(info) { 64 << 20 } else { 64 };
        let sent = sides.post(pattern(len, 1), |buf| client.send(ThePeer, buf));
        // A side without a receive does not check its connection either.
        let cut_off = sides.post(room(len), |buf| server.recv(ThePeer, buf));
        drop(client);
        for key in received {
            let (bytes, result) = sides.end(key);
            assert_eq!((bytes, result.expect_err("cancelled").errno), (room(64), Errno::ECANCELED));
        }
        assert!(sides.ended(sides.server).is_of(&server));
        match sides.end(sent).1 {
            Err(error) => {
                assert_eq!(error.errno, Errno::ECANCELED);
                drop(server);
                let _ = sides.end(cut_off);
            }
            // A short message, or `sockets`, which has a thread that makes progress meanwhile.
            Ok(_) => {
                sides.end(cut_off).1.expect("what is sent comes");
                drop(server);
            }
        }
        assert_eq!(sides.cq.in_flight(), 0);
        sides.pair();
    });
}

/// Closes endpoints with reads of any length. Later messages of the peer do not change the returned
/// buffers.
fn reads_in_flight_come_back_with_the_endpoint(info: &Info<T>) {
    let lens = [8, 64, 4096, 1 << 20];
    let content = pattern(lens[3], 1);
    for progress in [0, 1, 3, 10] {
        with_sides(info, |sides| {
            let (server, client) = sides.pair();
            let region = Mr::open_for(sides.domain, &server, content.clone(), Access::REMOTE_READ);
            let remote = region.as_ref().expect("a region").remote();
            let reads = lens.map(|len| sides.post(room(len), |buf| client.read(ThePeer, &remote, 0, buf)));
            for _ in 0..progress {
                sides.cq.progress().expect("the queue works");
            }
            drop(client);
            let back = reads.map(|read| sides.end(read));
            let seen = back.each_ref().map(|(buf, _)| buf.clone());
            assert!(sides.ended(sides.server).is_of(&server));
            // The peer continues.
            for _ in 0..2000 {
                sides.cq.progress().expect("the queue works");
            }
            let (other, another) = sides.pair();
            sides.message(&other, &another, 100_000, 2);
            for ((buf, result), seen) in black_box(back).into_iter().zip(seen) {
                assert!(buf == seen, "{} bytes were written to after they had come back", buf.len());
                match result {
                    Ok(_) => assert!(*buf == content[..buf.len()], "what was read"),
                    Err(error) => assert_eq!(error.errno, Errno::ECANCELED),
                }
            }
        });
    }
}

fn a_region_may_be_closed_in_the_middle_of_writes(info: &Info<T>) {
    /// More bytes than the system takes at once.
    const LEN: usize = 16 << 20;
    let mut unfinished = 0;
    for progress in [0, 1, 2, 5, 20, 100] {
        with_sides(info, |sides| {
            let (server, client) = sides.pair();
            let region = Mr::open_for(sides.domain, &server, room(LEN), Access::REMOTE_WRITE).expect("a region");
            let remote = region.remote();
            let written = sides.post(pattern(LEN, 1), |buf| client.write(ThePeer, &remote, 0, buf));
            for _ in 0..progress {
                sides.cq.progress().expect("the queue works");
            }
            unfinished += sides.cq.in_flight();
            drop(region);
            let until = Instant::now() + Duration::from_millis(20);
            while Instant::now() < until && sides.cq.in_flight() > 0 {
                sides.cq.progress().expect("the queue works");
            }
            // It ends with its endpoint at the latest.
            drop((client, server));
            assert!(sides.end(written).0 == pattern(LEN, 1), "what was written comes back as it was");
        });
    }
    assert!(unfinished > 0, "regions were closed in the middle of writes");
    with_sides(info, |sides| {
        let (server, client) = sides.pair();
        sides.message(&client, &server, 100_000, 2);
    });
}

fn a_closed_endpoints_events_are_not_the_next_ones(info: &Info<T>) {
    with_sides(info, |sides| {
        for round in 0..20 {
            let (server, client) = sides.pair();
            // The server's queue has, or will have, its event. It is closed unread.
            drop(client);
            let deadline = Instant::now() + Duration::from_millis(20);
            while Instant::now() < deadline {
                sides.cq.progress().expect("the queue works");
            }
            drop(server);
            // `pair` fails if the first events are not those of the new connection.
            let (server, client) = sides.pair();
            sides.message(&client, &server, 8, round);
            drop(client);
            assert!(sides.ended(sides.server).is_of(&server));
            drop(server);
            while sides.client.poll().expect("works").is_some() {}
        }
    });
}

fn an_attempt_can_be_given_up(info: &Info<T>) {
    with_sides(info, |sides| {
        drop(sides.idle());
        drop(sides.connect(&[]));
        let connecting = sides.connect(&[]);
        // The first attempt may also leave a request.
        let mut accepted = 0;
        let deadline = Instant::now() + LIMIT;
        let mut servers = Vec::new();
        let client = loop {
            assert!(Instant::now() < deadline, "not connected within {LIMIT:?}");
            sides.cq.progress().expect("the queue works");
            match sides.server.poll().expect("works") {
                Some(loom_core::eq::EqEvent::Request(request)) => {
                    accepted += 1;
                    let endpoint = request.endpoint(sides.cq, sides.server).expect("an endpoint");
                    servers.push(endpoint.accept(&[]));
                }
                Some(other) => println!("server: {other:?}"),
                None => {}
            }
            if let Some(event) = sides.client.poll().expect("works") {
                match event {
                    loom_core::eq::EqEvent::Connected(event) => break connecting.established(&event).unwrap(),
                    other => panic!("connected, not {other:?}"),
                }
            }
        };
        println!("{accepted} requests");
        drop(client);
    });
}

fn unread_requests_end_with_the_queue(info: &Info<T>) {
    let domain = Domain::open(info).expect("domain");
    let client = EventQueue::open(&domain, EqAttr::default()).expect("event queue");
    let cq = Cq::<T, Bytes>::open(&domain, CqAttr::new(16)).expect("queue");
    for round in 0..20 {
        let server = EventQueue::open(&domain, EqAttr::default()).expect("event queue");
        let address = server.listen(info).expect("listens").address().expect("its address");
        let info = super::sides::client_info(info, &address);
        let connecting = cq.msg_endpoint(&client, &info).expect("endpoint").connect(&address, &[]).expect("asks");
        // By then the request or only the connection may have arrived, or neither.
        let deadline = Instant::now() + std::time::Duration::from_millis(2 * round);
        while Instant::now() < deadline {
            assert!(client.poll().expect("works").is_none());
            cq.progress().expect("works");
        }
        drop(server);
        drop(connecting);
        while client.poll().expect("works").is_some() {}
    }
}

fn forgotten_objects_leak_and_affect_no_others(info: &Info<T>) {
    // An endpoint closes with its queue at the end of a scope.
    with_sides_in_a_scope(info, |sides| {
        let (server, client) = sides.pair();
        let received = sides.post(room(64), |buf| server.recv(ThePeer, buf));
        mem::forget(server);
        drop(client);
        let _ = received;
    });
    // Without a scope, it stays open, with all objects beneath it.
    with_sides(info, |sides| {
        let (server, client) = sides.pair();
        sides.post(room(64), |buf| server.recv(ThePeer, buf));
        mem::forget(server);
        drop(client);
    });
    // A request: its client waits for ever, without an effect on others.
    with_sides(info, |sides| {
        let connecting = sides.connect(&[]);
        mem::forget(sides.request());
        sides.pair();
        drop(connecting);
    });
    // A completion queue with an endpoint: the event queue and the domain stay open.
    let domain = Domain::open(info).expect("domain");
    let eq = EventQueue::open(&domain, EqAttr::default()).expect("event queue");
    let address = eq.listen(info).expect("listens").address().expect("its address");
    let info = super::sides::client_info(info, &address);
    let cq = Cq::<T, Bytes>::open(&domain, CqAttr::new(16)).expect("queue");
    let endpoint = cq.msg_endpoint(&eq, &info).expect("an endpoint");
    endpoint.recv(ThePeer, room(64)).expect("posts");
    mem::forget(endpoint);
    mem::forget(cq);
}

fn borrowed_buffers_come_back_before_a_scope_ends(info: &Info<T>) {
    let domain = Domain::open(info).expect("domain");
    let mut bytes = [0; 64];
    scope(|s| {
        let domain = s.domain(&domain);
        let eq = EventQueue::open(&domain, EqAttr::default()).expect("event queue");
        let address = eq.listen(info).expect("listens").address().expect("its address");
        let info = super::sides::client_info(info, &address);
        let cq = Cq::open(&domain, CqAttr::new(16)).expect("a queue");
        let endpoint = cq.msg_endpoint(&eq, &info).expect("an endpoint");
        endpoint.recv(ThePeer, &mut bytes[..]).expect("posts");
        mem::forget(endpoint);
    });
    bytes[0] = 1;
    assert_eq!(bytes[0], 1);
}
