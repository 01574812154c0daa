//! Shared receive contexts: receives for many connections.

use std::collections::VecDeque;
use std::time::Instant;

use loom_core::completion::Completion;
use loom_core::error::PostError;
use loom_core::objects::eq::Eq;
use loom_core::objects::info::Info;
use loom_core::objects::msg_endpoint::{Connecting, SharedRx};
use loom_core::objects::options::RecvOptions;
use loom_core::vocabulary::{Caps, Errno, Tag};

use super::Case;
use super::sides::{Bytes, Endpoint, LIMIT, Sides, T, pattern, room, with_sides};

pub(crate) fn cases() -> Vec<(&'static str, Case)> {
    vec![
        ("shared_receives_take_messages_of_any_connection", shared_receives_take_messages_of_any_connection),
        ("shared_receives_match_tags_of_any_connection", shared_receives_match_tags_of_any_connection),
        ("a_shared_receive_cuts_a_message_that_is_too_long", a_shared_receive_cuts_a_message_that_is_too_long),
        ("a_shared_receive_is_cancelled", a_shared_receive_is_cancelled),
        ("shared_receives_outlive_connections", shared_receives_outlive_connections),
        (
            "a_connection_that_ends_in_the_middle_of_a_message_leaves_the_others",
            a_connection_that_ends_in_the_middle_of_a_message_leaves_the_others,
        ),
        ("an_endpoint_with_shared_receives_has_none_of_its_own", an_endpoint_with_shared_receives_has_none_of_its_own),
        ("a_client_receives_through_a_shared_context_too", a_client_receives_through_a_shared_context_too),
        ("what_waits_comes_back_with_a_shared_context", what_waits_comes_back_with_a_shared_context),
        ("a_forgotten_endpoint_keeps_its_shared_context", a_forgotten_endpoint_keeps_its_shared_context),
    ]
}

/// A connection whose server's side receives through a shared context: the server's endpoint and the client's.
fn pair<'s, 'q: 's, 'd>(
    sides: &Sides<'q, 'd>,
    shared: &'s SharedRx<'_, 'd, T, Bytes>,
) -> (Endpoint<'s, 'd>, Endpoint<'q, 'd>) {
    let connecting = sides.connect(&[]);
    let accepting = sides.request().endpoint_through(shared, sides.server).expect("an endpoint for the request");
    let accepting = accepting.accept(&[]).expect("accepts");
    let server = established(sides, sides.server, accepting);
    let client = sides.established(sides.client, connecting);
    (server, client)
}

/// As `Sides::established`, for an endpoint that does not live as long as the queue.
fn established<'s, 'd>(
    sides: &Sides<'s, 'd>,
    of: &'d Eq<'d, T>,
    endpoint: Endpoint<'s, 'd, Connecting>,
) -> Endpoint<'s, 'd> {
    sides.established(of, endpoint)
}

fn shared_receives_take_messages_of_any_connection(info: &Info<T>) {
    const CLIENTS: usize = 4;
    const LEN: usize = 3000;
    with_sides(info, |sides| {
        let shared = sides.cq.shared_rx(info).expect("a shared receive context");
        let pairs: Vec<_> = (0..CLIENTS).map(|_| pair(sides, &shared)).collect();
        for round in 0..10 {
            let len = if round == 9 { 1 << 18 } else { LEN };
            // Fewer buffers than connections, twice: whoever sends first has one.
            let mut received: Vec<_> =
                (0..CLIENTS / 2).map(|_| sides.post(room(len), |buf| shared.recv(buf))).collect();
            let sent: Vec<_> = pairs
                .iter()
                .enumerate()
                .map(|(who, (_, client))| sides.post(pattern(len, round * CLIENTS + who), |buf| client.send(buf)))
                .collect();
            let mut arrived: Vec<_> = received.drain(..).map(|key| sides.finish(key)).collect();
            received.extend((CLIENTS / 2..CLIENTS).map(|piece| match piece % 2 {
                0 => sides.post(room(len), |buf| shared.recv(buf)),
                _ => sides.post(room(len), |buf| shared.recvmsg(RecvOptions::default(), buf)),
            }));
            arrived.extend(received.into_iter().map(|key| sides.finish(key)));
            let mut wanted: Vec<_> = (0..CLIENTS).map(|who| pattern(len, round * CLIENTS + who)).collect();
            for (bytes, transfer) in arrived {
                assert_eq!(transfer.len(), len);
                let which =
                    wanted.iter().position(|wanted| *wanted == bytes).expect("a message of one of the clients, once");
                wanted.swap_remove(which);
            }
            sent.into_iter().for_each(|key| drop(sides.finish(key)));
        }
        // And what the server sends goes to one client only.
        for (who, (server, client)) in pairs.iter().enumerate() {
            sides.message(server, client, 200, who);
        }
    });
}

fn shared_receives_match_tags_of_any_connection(info: &Info<T>) {
    with_sides(info, |sides| {
        let shared = sides.cq.shared_rx(info).expect("a shared receive context");
        if !info.caps().contains(Caps::TAGGED) {
            let refused = shared.tagged_recv(Tag(1), room(8)).unwrap_err();
            assert!(matches!(refused.error, PostError::NotGranted(caps) if caps.contains(Caps::TAGGED)));
            return;
        }
        let (one, other) = (pair(sides, &shared), pair(sides, &shared));
        let second = sides.post(room(8), |buf| shared.tagged_recv(Tag(2), buf));
        let first = sides.post(room(8), |buf| shared.tagged_recv(Tag(1), buf));
        let sent = [
            sides.post(pattern(8, 1), |buf| one.1.tagged_send(Tag(1), buf)),
            sides.post(pattern(8, 2), |buf| other.1.tagged_send(Tag(2), buf)),
        ];
        assert_eq!(sides.finish(first).0, pattern(8, 1));
        assert_eq!(sides.finish(second).0, pattern(8, 2));
        sent.into_iter().for_each(|key| drop(sides.finish(key)));
    });
}

fn a_shared_receive_cuts_a_message_that_is_too_long(info: &Info<T>) {
    with_sides(info, |sides| {
        let shared = sides.cq.shared_rx(info).expect("a shared receive context");
        let (_server, client) = pair(sides, &shared);
        let (_other_server, other) = pair(sides, &shared);
        let received = sides.post(room(64), |buf| shared.recv(buf));
        let sent = sides.post(pattern(100, 1), |buf| client.send(buf));
        let (_, result) = sides.end(received);
        assert_eq!(result.expect_err("it is cut").errno, Errno::ETRUNC);
        let _ = sides.end(sent);
        // What it does to its own connection is the provider's; others go on.
        let received = sides.post(room(64), |buf| shared.recv(buf));
        let sent = sides.post(pattern(64, 2), |buf| other.send(buf));
        assert_eq!(sides.finish(received).0, pattern(64, 2));
        sides.finish(sent);
    });
}

fn a_shared_receive_is_cancelled(info: &Info<T>) {
    with_sides(info, |sides| {
        let shared = sides.cq.shared_rx(info).expect("a shared receive context");
        let (_server, client) = pair(sides, &shared);
        let cancelled = sides.post(room(16), |buf| shared.recv(buf));
        if shared.cancel(cancelled).is_err() {
            crate::page::partly("a receive on a shared context cannot be cancelled");
        } else {
            let (buf, result) = sides.end(cancelled);
            assert_eq!((buf.len(), result.expect_err("it was cancelled").errno), (16, Errno::ECANCELED));
            assert_eq!(shared.cancel(cancelled), Err(Errno::ENOENT));
            let received = sides.post(room(16), |buf| shared.recv(buf));
            let sent = sides.post(pattern(16, 3), |buf| client.send(buf));
            assert_eq!(sides.finish(received).0, pattern(16, 3), "the next one takes the message");
            sides.finish(sent);
        }
    });
}

fn shared_receives_outlive_connections(info: &Info<T>) {
    with_sides(info, |sides| {
        let shared = sides.cq.shared_rx(info).expect("a shared receive context");
        let (_server, client) = pair(sides, &shared);
        let mut waiting: VecDeque<_> = (0..2).map(|_| sides.post(room(32), |buf| shared.recv(buf))).collect();
        for seed in 0..4 {
            let (server, passing) = pair(sides, &shared);
            for (who, seed) in [(&passing, seed), (&client, seed + 10)] {
                let sent = sides.post(pattern(32, seed), |buf| who.send(buf));
                // The oldest one takes it, whoever was connected when it was posted.
                let oldest = waiting.pop_front().expect("posted");
                assert_eq!(sides.finish(oldest).0, pattern(32, seed));
                sides.finish(sent);
                waiting.push_back(sides.post(room(32), |buf| shared.recv(buf)));
            }
            drop(passing);
            assert_eq!(sides.ended(sides.server), server.fid());
        }
    });
}

fn a_connection_that_ends_in_the_middle_of_a_message_leaves_the_others(info: &Info<T>) {
    /// More than sockets hold.
    const LONG: usize = 16 << 20;
    with_sides(info, |sides| {
        let shared = sides.cq.shared_rx(info).expect("a shared receive context");
        let (_server, client) = pair(sides, &shared);
        let (server, passing) = pair(sides, &shared);
        let cut_off = sides.post(room(LONG), |buf| shared.recv(buf));
        let _sent = sides.post(pattern(LONG, 1), |buf| passing.send(buf));
        // Until something of it is there.
        for _ in 0..100 {
            sides.cq.progress().expect("the queue works");
        }
        drop(passing);
        assert_eq!(sides.ended(sides.server), server.fid());
        drop(server);
        let next = sides.post(room(LONG), |buf| shared.recv(buf));
        let sent = sides.post(pattern(32, 2), |buf| client.send(buf));
        sides.finish(sent);
        // One of the two has it: `sockets` gives the first to the next message, if its own has not come to an end.
        let deadline = Instant::now() + LIMIT;
        loop {
            assert!(Instant::now() < deadline, "the message of the other connection arrives");
            let Some(Completion::Op(done)) = sides.cq.poll_rx().expect("the queue works") else { continue };
            assert!([cut_off, next].contains(&done.key()), "a receive");
            let (bytes, result) = done.into_parts();
            match result {
                Ok(transfer) if transfer.len() == 32 => break assert_eq!(&bytes[..32], &*pattern(32, 2)),
                // All of it had come.
                Ok(transfer) => assert_eq!(transfer.len(), LONG),
                Err(error) => println!("cut off: {error}"),
            }
        }
    });
}

fn an_endpoint_with_shared_receives_has_none_of_its_own(info: &Info<T>) {
    with_sides(info, |sides| {
        let shared = sides.cq.shared_rx(info).expect("a shared receive context");
        let (server, _client) = pair(sides, &shared);
        let refused = server.recv(pattern(8, 1)).unwrap_err();
        assert_eq!((&refused.buf, refused.error), (&pattern(8, 1), PostError::NotGranted(Caps::RECV)));
        let refused = server.recvmsg(RecvOptions::default(), pattern(8, 1)).unwrap_err();
        assert_eq!(refused.error, PostError::NotGranted(Caps::RECV));
    });
}

fn a_client_receives_through_a_shared_context_too(info: &Info<T>) {
    with_sides(info, |sides| {
        let shared = sides.cq.shared_rx(&sides.info).expect("a shared receive context");
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
            let received = sides.post(room(500), |buf| shared.recv(buf));
            let sent = sides.post(pattern(500, seed), |buf| server.send(buf));
            assert_eq!(sides.finish(received).0, pattern(500, seed));
            sides.finish(sent);
            sides.message(client, server, 500, seed);
        }
    });
}

fn what_waits_comes_back_with_a_shared_context(info: &Info<T>) {
    with_sides(info, |sides| {
        let shared = sides.cq.shared_rx(info).expect("a shared receive context");
        let (server, client) = pair(sides, &shared);
        let waiting: Vec<_> = (0..3).map(|_| sides.post(room(32), |buf| shared.recv(buf))).collect();
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
        sides.post(room(32), |buf| shared.recv(buf));
    });
}

fn a_forgotten_endpoint_keeps_its_shared_context(info: &Info<T>) {
    with_sides(info, |sides| {
        let shared = sides.cq.shared_rx(info).expect("a shared receive context");
        let (server, client) = pair(sides, &shared);
        let (other_server, other) = sides.pair();
        sides.post(room(32), |buf| shared.recv(buf));
        std::mem::forget(server);
        drop(shared);
        sides.message(&other, &other_server, 64, 1);
        drop(client);
        // The queue closes both, in the order that libfabric wants.
    });
}
