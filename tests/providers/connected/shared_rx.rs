//! Shared receive contexts: receives for many connections.

use std::collections::VecDeque;
use std::time::Instant;

use loom_core::completion::Completion;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::RecvOptions;
use loom_core::endpoint::{AnyConnection, SharedRx, ThePeer};
use loom_core::engine::op_table::Direction;
use loom_core::engine::op_table::OpKey;
use loom_core::error::{OpenError, PostError};
use loom_core::info::{Hints, Info};
use loom_core::vocabulary::{Caps, EndpointAttributes, EndpointType, Errno};

use super::Case;
use super::sides::{Bytes, Endpoint, LIMIT, Sides, T, pattern, room, with_sides, with_sides_in_a_scope};
use crate::connected::Found;

pub(crate) fn cases() -> Vec<(&'static str, Case)> {
    vec![
        ("shared_receives_take_messages_of_any_connection", shared_receives_take_messages_of_any_connection),
        ("a_shared_receive_cuts_a_message_that_is_too_long", a_shared_receive_cuts_a_message_that_is_too_long),
        ("a_shared_receive_is_cancelled", a_shared_receive_is_cancelled),
        ("shared_receives_outlive_connections", shared_receives_outlive_connections),
        (
            "a_connection_that_ends_in_the_middle_of_a_message_leaves_the_others",
            a_connection_that_ends_in_the_middle_of_a_message_leaves_the_others,
        ),
        (
            "an_endpoint_that_is_closed_in_the_middle_of_a_message_leaves_the_others",
            an_endpoint_that_is_closed_in_the_middle_of_a_message_leaves_the_others,
        ),
        ("connections_have_no_tags_that_crash", connections_have_no_tags_that_crash),
        (
            "an_endpoint_with_shared_receives_refuses_own_receives",
            an_endpoint_with_shared_receives_refuses_own_receives,
        ),
        ("a_client_receives_through_a_shared_context_too", a_client_receives_through_a_shared_context_too),
        ("waiting_receives_come_back_with_a_shared_context", waiting_receives_come_back_with_a_shared_context),
        ("a_forgotten_endpoint_keeps_its_shared_context", a_forgotten_endpoint_keeps_its_shared_context),
        ("shared_receives_complete_into_a_queue_of_their_own", shared_receives_complete_into_a_queue_of_their_own),
        ("a_shared_context_is_one_of_its_domain", a_shared_context_is_one_of_its_domain),
    ]
}

/// Opens a shared receive context, if the provider has them.
pub(super) fn shared<'d>(sides: &Sides<'_, 'd>, info: &Info<T>) -> Option<SharedRx<'d, T, Bytes>> {
    let opened = sides.cq.shared_rx(info);
    if !crate::connected::shares_receives(info) {
        assert_eq!(opened.expect_err("it is not safe"), OpenError::Errno(Errno::ENOSYS));
        crate::connected::report::not_granted();
        return None;
    }
    Some(opened.expect("a shared receive context"))
}

/// Connects a client to a server with a shared context. Returns the server's endpoint and the
/// client's.
fn pair<'d>(sides: &Sides<'_, 'd>, shared: &SharedRx<'d, T, Bytes>) -> (Endpoint<'d>, Endpoint<'d>) {
    let connecting = sides.connect(&[]);
    let accepting = sides.request().endpoint_through(shared, sides.server).expect("an endpoint for the request");
    let accepting = accepting.accept(&[]).expect("accepts");
    let server = sides.established(sides.server, accepting);
    let client = sides.established(sides.client, connecting);
    (server, client)
}

fn shared_receives_take_messages_of_any_connection(info: &Info<T>) {
    const CLIENTS: usize = 4;
    const LEN: usize = 3000;
    with_sides(info, |sides| {
        let Some(shared) = shared(sides, info) else { return };
        let pairs: Vec<_> = (0..CLIENTS).map(|_| pair(sides, &shared)).collect();
        for round in 0..10 {
            let len = if round == 9 { 1 << 18 } else { LEN };
            // Fewer buffers than connections, twice: the first senders use them.
            let mut received: Vec<_> =
                (0..CLIENTS / 2).map(|_| sides.post(room(len), |buf| shared.recv(AnyConnection, buf))).collect();
            let sent: Vec<_> = pairs
                .iter()
                .enumerate()
                .map(|(who, (_, client))| {
                    sides.post(pattern(len, round * CLIENTS + who), |buf| client.send(ThePeer, buf))
                })
                .collect();
            let mut arrived: Vec<_> = received.drain(..).map(|key| sides.finish(key)).collect();
            received.extend((CLIENTS / 2..CLIENTS).map(|piece| match piece % 2 {
                0 => sides.post(room(len), |buf| shared.recv(AnyConnection, buf)),
                _ => sides.post(room(len), |buf| shared.recv_with(AnyConnection, RecvOptions::default(), buf)),
            }));
            arrived.extend(received.into_iter().map(|key| sides.finish(key)));
            let mut wanted: Vec<_> = (0..CLIENTS).map(|who| pattern(len, round * CLIENTS + who)).collect();
            for (bytes, transfer) in arrived {
                assert_eq!(transfer.len, len);
                let which =
                    wanted.iter().position(|wanted| *wanted == bytes).expect("a message of one of the clients, once");
                wanted.swap_remove(which);
            }
            sent.into_iter().for_each(|key| drop(sides.finish(key)));
        }
        // A message of the server arrives at one client only.
        for (who, (server, client)) in pairs.iter().enumerate() {
            sides.message(server, client, 200, who);
        }
    });
}

fn a_shared_receive_cuts_a_message_that_is_too_long(info: &Info<T>) {
    with_sides(info, |sides| {
        let Some(shared) = shared(sides, info) else { return };
        let (_server, client) = pair(sides, &shared);
        let (_other_server, other) = pair(sides, &shared);
        let received = sides.post(room(64), |buf| shared.recv(AnyConnection, buf));
        let sent = sides.post(pattern(100, 1), |buf| client.send(ThePeer, buf));
        let (_, result) = sides.end(received);
        assert_eq!(result.expect_err("it is cut").errno, Errno::ETRUNC);
        let _ = sides.end(sent);
        // The effect on this connection depends on the provider. Others continue.
        let received = sides.post(room(64), |buf| shared.recv(AnyConnection, buf));
        let sent = sides.post(pattern(64, 2), |buf| other.send(ThePeer, buf));
        assert_eq!(sides.finish(received).0, pattern(64, 2));
        sides.finish(sent);
    });
}

fn a_shared_receive_is_cancelled(info: &Info<T>) {
    with_sides(info, |sides| {
        let Some(shared) = shared(sides, info) else { return };
        let (_server, client) = pair(sides, &shared);
        let cancelled = sides.post(room(16), |buf| shared.recv(AnyConnection, buf));
        shared.cancel(cancelled).expect("in flight");
        let (buf, result) = sides.end(cancelled);
        assert_eq!((buf.len(), result.expect_err("it was cancelled").errno), (16, Errno::ECANCELED));
        assert_eq!(shared.cancel(cancelled), Err(Errno::ENOENT));
        let received = sides.post(room(16), |buf| shared.recv(AnyConnection, buf));
        let sent = sides.post(pattern(16, 3), |buf| client.send(ThePeer, buf));
        assert_eq!(sides.finish(received).0, pattern(16, 3), "the next one takes the message");
        sides.finish(sent);
    });
}

fn shared_receives_outlive_connections(info: &Info<T>) {
    with_sides(info, |sides| {
        let Some(shared) = shared(sides, info) else { return };
        let (_server, client) = pair(sides, &shared);
        let mut waiting: VecDeque<_> =
            (0..2).map(|_| sides.post(room(32), |buf| shared.recv(AnyConnection, buf))).collect();
        for seed in 0..4 {
            let (server, passing) = pair(sides, &shared);
            for (who, seed) in [(&passing, seed), (&client, seed + 10)] {
                let sent = sides.post(pattern(32, seed), |buf| who.send(ThePeer, buf));
                // The oldest receive takes it, whatever was connected when it was posted.
                let oldest = waiting.pop_front().expect("posted");
                assert_eq!(sides.finish(oldest).0, pattern(32, seed));
                sides.finish(sent);
                waiting.push_back(sides.post(room(32), |buf| shared.recv(AnyConnection, buf)));
            }
            drop(passing);
            assert!(sides.ended(sides.server).is_of(&server));
        }
    });
}

fn a_connection_that_ends_in_the_middle_of_a_message_leaves_the_others(info: &Info<T>) {
    /// Exceeds the buffers of sockets.
    const LONG: usize = 16 << 20;
    with_sides(info, |sides| {
        let Some(shared) = shared(sides, info) else { return };
        let (_server, client) = pair(sides, &shared);
        let (server, passing) = pair(sides, &shared);
        let cut_off = sides.post(room(LONG), |buf| shared.recv(AnyConnection, buf));
        let _sent = sides.post(pattern(LONG, 1), |buf| passing.send(ThePeer, buf));
        // Until its first bytes have arrived.
        for _ in 0..100 {
            sides.cq.progress().expect("the queue works");
        }
        drop(passing);
        assert!(sides.ended(sides.server).is_of(&server));
        drop(server);
        let next = sides.post(room(LONG), |buf| shared.recv(AnyConnection, buf));
        let sent = sides.post(pattern(32, 2), |buf| client.send(ThePeer, buf));
        sides.finish(sent);
        let bytes = one_of(sides, [cut_off, next], 32);
        assert_eq!(&bytes[..32], &*pattern(32, 2));
    });
}

fn an_endpoint_that_is_closed_in_the_middle_of_a_message_leaves_the_others(info: &Info<T>) {
    const LONG: usize = 16 << 20;
    with_sides(info, |sides| {
        let Some(shared) = shared(sides, info) else { return };
        let (_server, client) = pair(sides, &shared);
        for round in 0..4 {
            let (server, going_on) = pair(sides, &shared);
            let cut_off = sides.post(room(LONG), |buf| shared.recv(AnyConnection, buf));
            let cut_short = sides.post(pattern(LONG, round), |buf| going_on.send(ThePeer, buf));
            for _ in 0..50 * round {
                sides.cq.progress().expect("the queue works");
            }
            // This side closes while the other is still sending.
            drop(server);
            let next = sides.post(room(LONG), |buf| shared.recv(AnyConnection, buf));
            let sent = sides.post(pattern(32, round), |buf| client.send(ThePeer, buf));
            sides.finish(sent);
            let bytes = one_of(sides, [cut_off, next], 32);
            assert_eq!(&bytes[..32], &*pattern(32, round));
            drop(going_on);
            assert!(sides.end(cut_short).0.len() == LONG, "it comes back");
            while sides.client.poll().expect("the event queue works").is_some() {}
            while sides.cq.poll().expect("the queue works").is_some() {}
            // Waiting receives are cancelled: the messages of the next round require its own
            // receives.
            let _ = (shared.cancel(cut_off), shared.cancel(next));
            while sides.cq.poll_direction(Direction::Receive).expect("the queue works").is_some() {}
        }
    });
}

/// Waits until one of these receives has a message of this length. Others may fail, or fill their
/// buffer.
fn one_of(sides: &Sides<'_, '_>, receives: [OpKey; 2], len: usize) -> Bytes {
    let deadline = Instant::now() + LIMIT;
    loop {
        assert!(Instant::now() < deadline, "the message of the other connection arrives");
        let Some(Completion::Op(done)) = sides.cq.poll_direction(Direction::Receive).expect("the queue works") else {
            continue;
        };
        assert!(receives.contains(&done.key()), "a receive");
        let (bytes, result) = done.into_parts();
        match result {
            Ok(transfer) if transfer.len == len => return bytes,
            // All of it had arrived.
            Ok(transfer) => assert_eq!(transfer.len, bytes.len()),
            Err(error) => println!("cut off: {error:#}"),
        }
    }
}

fn connections_have_no_tags_that_crash(info: &Info<T>) {
    if !crate::connected::shares_receives(info) {
        // `sockets` has tags without shared receives.
        with_sides(info, |sides| assert!(shared(sides, info).is_none()));
        return;
    }
    let hints = Hints {
        caps: Caps::MSG | Caps::TAGGED,
        endpoint_attr: EndpointAttributes { rx_ctx_cnt: usize::MAX, ..EndpointAttributes::of(EndpointType::MSG) },
        provider: Some(info.provider()),
        node: Some("127.0.0.1"),
        listen: true,
        ..Hints::default()
    };
    assert!(T::find(&hints).is_none(), "what is not safe is not found");
    // An info with shared receives is also one for endpoints without them.
    let found = T::find(&Hints { caps: Caps::MSG, ..hints }).expect("an info");
    with_sides(&found, |sides| {
        let (server, client) = sides.pair();
        sides.message(&client, &server, 100, 1);
        sides.message(&server, &client, 100, 2);
    });
}

fn an_endpoint_with_shared_receives_refuses_own_receives(info: &Info<T>) {
    with_sides(info, |sides| {
        let Some(shared) = shared(sides, info) else { return };
        let (server, _client) = pair(sides, &shared);
        let refused = server.recv(ThePeer, pattern(8, 1)).unwrap_err();
        assert_eq!((&refused.value, refused.error), (&pattern(8, 1), PostError::NotGranted(Caps::RECV)));
        let refused = server.recv_with(ThePeer, RecvOptions::default(), pattern(8, 1)).unwrap_err();
        assert_eq!(refused.error, PostError::NotGranted(Caps::RECV));
    });
}

fn a_client_receives_through_a_shared_context_too(info: &Info<T>) {
    with_sides(info, |sides| {
        let Some(shared) = shared(sides, &sides.info) else { return };
        let clients: Vec<_> = (0..2)
            .map(|_| {
                let idle = shared.msg_endpoint(sides.client, &sides.info).expect("a client's endpoint");
                let connecting = idle.connect(&sides.address, &[]).expect("asks for a connection");
                let accepting = sides.request().endpoint(sides.cq, sides.server).expect("an endpoint");
                let server = sides.established(sides.server, accepting.accept(&[]).expect("accepts"));
                (sides.established(sides.client, connecting), server)
            })
            .collect();
        for (seed, (client, server)) in clients.iter().enumerate() {
            let received = sides.post(room(500), |buf| shared.recv(AnyConnection, buf));
            let sent = sides.post(pattern(500, seed), |buf| server.send(ThePeer, buf));
            assert_eq!(sides.finish(received).0, pattern(500, seed));
            sides.finish(sent);
            sides.message(client, server, 500, seed);
        }
    });
}

fn waiting_receives_come_back_with_a_shared_context(info: &Info<T>) {
    with_sides(info, |sides| {
        let Some(shared) = shared(sides, info) else { return };
        let (server, client) = pair(sides, &shared);
        let waiting: Vec<_> = (0..3).map(|_| sides.post(room(32), |buf| shared.recv(AnyConnection, buf))).collect();
        drop(server);
        drop(client);
        for key in &waiting {
            assert!(sides.cq.wait(*key, Instant::now()).expect("the queue works").is_none(), "it may still be used");
        }
        drop(shared);
        for key in waiting {
            let (bytes, result) = sides.end(key);
            assert_eq!((bytes, result.expect_err("nothing came").errno), (room(32), Errno::ECANCELED));
        }
        // Its place is free again.
        let shared = sides.cq.shared_rx(info).expect("another one");
        sides.post(room(32), |buf| shared.recv(AnyConnection, buf));
    });
}

fn a_forgotten_endpoint_keeps_its_shared_context(info: &Info<T>) {
    with_sides_in_a_scope(info, |sides| {
        let Some(shared) = shared(sides, info) else { return };
        let (server, client) = pair(sides, &shared);
        let (other_server, other) = sides.pair();
        sides.post(room(32), |buf| shared.recv(AnyConnection, buf));
        std::mem::forget(server);
        drop(shared);
        sides.message(&other, &other_server, 64, 1);
        drop(client);
        // With the scope, the queue closes both, in the order that libfabric requires.
    });
}

fn shared_receives_complete_into_a_queue_of_their_own(info: &Info<T>) {
    with_sides(info, |sides| {
        let cq = Cq::<T, Bytes>::open(sides.domain, CqAttr { separate: true, ..CqAttr::new(16) })
            .expect("two provider queues");
        if shared(sides, info).is_none() {
            return;
        }
        let shared = cq.shared_rx(info).expect("a shared receive context");
        let (server, client) = pair(sides, &shared);
        let received = crate::connected::posting::post(&cq, room(700), |buf| shared.recv(AnyConnection, buf));
        let sent = sides.post(pattern(700, 1), |buf| client.send(ThePeer, buf));
        let answer = sides.post(room(80), |buf| client.recv(ThePeer, buf));
        let answered = crate::connected::posting::post(&cq, pattern(80, 2), |buf| server.send(ThePeer, buf));
        let deadline = Instant::now() + LIMIT;
        let (mut told, mut into) = ([None, None], None);
        while told.contains(&None) {
            assert!(Instant::now() < deadline, "{told:?} of the receive and the send within {LIMIT:?}");
            sides.cq.progress().expect("the client's queue works");
            if let Some(Completion::Op(done)) =
                cq.poll_direction(Direction::Receive).expect("the queue of the receives works")
            {
                told[0] = Some(done.key());
                into = Some(done.into_buf());
            }
            if let Some(Completion::Op(done)) =
                cq.poll_direction(Direction::Transmit).expect("the queue of the sends works")
            {
                told[1] = Some(done.key());
            }
        }
        assert_eq!((told, into), ([Some(received), Some(answered)], Some(pattern(700, 1))));
        assert_eq!(sides.finish(answer).0, pattern(80, 2));
        sides.finish(sent);
    });
}

fn a_shared_context_is_one_of_its_domain(info: &Info<T>) {
    let found = |hints: Hints<'_>| T::find(&hints);
    let elsewhere = found(Hints { provider: Some("udp"), ..Hints::default() });
    assert!(elsewhere.is_some() || info.provider() == "loom-tcp", "an info of another provider");
    // Not every provider of connections has endpoints without them.
    let (node, listen) = (Some("127.0.0.1"), true);
    let endpoint_attr = EndpointAttributes::of(EndpointType::RDM);
    let provider = Some(info.provider());
    let alone = found(Hints { provider, domain: Some(info.domain()), endpoint_attr, node, listen, ..Hints::default() });
    with_sides(info, |sides| {
        if let Some(elsewhere) = &elsewhere {
            assert_eq!(sides.cq.shared_rx(elsewhere).expect_err("of another domain"), OpenError::OtherDomain);
        }
        if let Some(alone) = &alone {
            let refused = sides.cq.shared_rx(alone).expect_err("without connections");
            assert_eq!(refused, OpenError::EndpointType(EndpointType::RDM));
            // A domain for those refuses, too: `tcp` of libfabric 2.5 follows null there when a
            // receive is posted.
            let domain = Domain::open(alone).expect("a domain");
            let cq = Cq::<T, Bytes>::open(&domain, CqAttr::new(4)).expect("a queue");
            assert_eq!(cq.shared_rx(info).expect_err("its domain has no connections"), refused);
        }
    });
}
