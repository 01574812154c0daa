//! Event queues without connections: sleeping, descriptors, custom events.

use std::time::{Duration, Instant};

use loom_core::CqError;
use loom_core::completion::Completion;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::ThePeer;
use loom_core::eq::{EqAttr, EqEvent, EventQueue};
use loom_core::error::OpenError;
use loom_core::info::Info;
use loom_core::transport::connected::{EqEntry, Fid};
use loom_core::vocabulary::{EventKind, WaitObj};

use super::Case;
use super::sides::{Bytes, LIMIT, T, meet, pattern, room, with_sides};
use crate::connected::posting::post;

pub(crate) fn cases() -> Vec<(&'static str, Case)> {
    vec![
        ("an_idle_queue_is_empty_and_sleeps_its_time", an_idle_queue_is_empty_and_sleeps_its_time),
        ("ones_own_events_come_back", ones_own_events_come_back),
        ("a_queue_without_a_wait_object_cannot_be_slept_on", a_queue_without_a_wait_object_cannot_be_slept_on),
        ("a_request_makes_the_descriptor_readable", a_request_makes_the_descriptor_readable),
        ("a_sleeper_is_woken_by_a_request", a_sleeper_is_woken_by_a_request),
        ("a_queue_of_connections_sleeps_until_something_completes", a_queue_of_connections_sleeps),
        ("closed_connections_leave_their_queues_to_be_slept_on", closed_connections_leave_their_queues),
    ]
}

fn an_idle_queue_is_empty_and_sleeps_its_time(info: &Info<T>) {
    let domain = Domain::open(info).expect("domain");
    let eq = EventQueue::open(&domain, EqAttr::default()).expect("event queue");
    assert!(eq.poll().expect("works").is_none());
    let (before, time) = (Instant::now(), Duration::from_millis(20));
    // Spurious wakes are allowed, but not always.
    while before.elapsed() < time {
        assert!(eq.poll_for(time).expect("works").is_none());
        assert!(before.elapsed() < LIMIT);
    }
}

fn ones_own_events_come_back(info: &Info<T>) {
    let domain = Domain::open(info).expect("domain");
    let eq = EventQueue::open(&domain, EqAttr::default()).expect("event queue");
    assert_eq!(eq.notify(1, 2), Err(CqError::NotOpenedFor));
    let eq = EventQueue::open(&domain, EqAttr { write: true, ..EqAttr::default() }).expect("event queue");
    for (context, data) in [(1, 2), (3, u64::MAX)] {
        eq.notify(context, data).expect("writes");
    }
    for (context, data) in [(1, 2), (3, u64::MAX)] {
        let expected = EqEntry { kind: EventKind::NOTIFY, object: Fid(0), context, data };
        match eq.poll_for(LIMIT).expect("works") {
            Some(EqEvent::Entry(entry)) => assert_eq!(entry, expected),
            other => panic!("what was written, not {other:?}"),
        }
    }
    assert!(eq.poll().expect("works").is_none());
    // Unread events are dropped with the queue.
    eq.notify(5, 6).expect("writes");
}

fn a_queue_without_a_wait_object_cannot_be_slept_on(info: &Info<T>) {
    let domain = Domain::open(info).expect("domain");
    let eq = EventQueue::open(&domain, EqAttr { wait: WaitObj::NONE, ..EqAttr::default() }).expect("event queue");
    assert_eq!(eq.poll_for(Duration::ZERO).map(|_| ()), Err(CqError::NotOpenedFor));
    assert_eq!(eq.wait_fd(), Err(CqError::NotOpenedFor));
    assert_eq!(eq.may_sleep(), Err(CqError::NotOpenedFor));
    assert!(eq.poll().expect("works").is_none());
    // The queue still serves connections.
    let address = eq.listen(info).expect("listens").address().expect("its address");
    let info = super::sides::client_info(info, &address);
    let cq = Cq::<T, Vec<u8>>::open(&domain, CqAttr::new(4)).expect("queue");
    let _connecting = cq.msg_endpoint(&eq, &info).expect("endpoint").connect(&address, b"x").expect("asks");
    let deadline = Instant::now() + LIMIT;
    loop {
        assert!(Instant::now() < deadline, "no request within {LIMIT:?}");
        match eq.poll().expect("works") {
            Some(EqEvent::Request(request)) => break assert_eq!(*request.data, *b"x"),
            Some(other) => panic!("a request, not {other:?}"),
            None => {}
        }
    }
}

/// Returns `true` if the descriptor becomes readable within this time.
fn readable(fd: i32, time: Duration) -> bool {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry.
    let ready = unsafe { libc::poll(&raw mut poll, 1, time.as_millis().try_into().expect("a short time")) };
    assert!(ready >= 0, "{}", std::io::Error::last_os_error());
    ready == 1
}

fn a_request_makes_the_descriptor_readable(info: &Info<T>) {
    let domain = Domain::open(info).expect("domain");
    let eq = EventQueue::open(&domain, EqAttr { wait: WaitObj::FD, ..EqAttr::default() }).expect("event queue");
    let fd = eq.wait_fd().expect("a descriptor");
    let address = eq.listen(info).expect("listens").address().expect("its address");
    assert!(eq.poll().expect("works").is_none());
    if eq.may_sleep().expect("works") {
        assert!(!readable(fd, Duration::from_millis(20)), "nothing has come");
    }
    std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            with_client(info, &address, |eq| {
                let deadline = Instant::now() + LIMIT;
                loop {
                    assert!(Instant::now() < deadline, "no answer within {LIMIT:?}");
                    match eq.poll_for(LIMIT).expect("works") {
                        Some(EqEvent::Failed(failure)) => break failure.fault.errno,
                        Some(other) => panic!("rejected, not {other:?}"),
                        None => {}
                    }
                }
            })
        });
        let deadline = Instant::now() + LIMIT;
        let request = loop {
            assert!(Instant::now() < deadline, "no request within {LIMIT:?}");
            match eq.poll().expect("works") {
                Some(EqEvent::Request(request)) => break request,
                Some(other) => panic!("a request, not {other:?}"),
                None if eq.may_sleep().expect("works") => assert!(readable(fd, LIMIT), "the descriptor tells"),
                None => {}
            }
        };
        assert_eq!(*request.data, *b"hello");
        request.reject(&[]).expect("rejects");
        assert_eq!(client.join().expect("the client"), loom_core::vocabulary::Errno::ECONNREFUSED);
    });
}

/// Runs with a client in a separate domain that has requested a connection.
fn with_client<R>(
    info: &Info<T>,
    address: &loom_core::vocabulary::EndpointAddr,
    client: impl FnOnce(&EventQueue<'_, T>) -> R,
) -> R {
    let info = super::sides::client_info(info, address);
    let domain = Domain::open(&info).expect("domain");
    let eq = EventQueue::open(&domain, EqAttr::default()).expect("event queue");
    let cq = Cq::<T, Vec<u8>>::open(&domain, CqAttr::new(4)).expect("queue");
    let connecting = cq.msg_endpoint(&eq, &info).expect("endpoint").connect(address, b"hello").expect("asks");
    let result = client(&eq);
    drop(connecting);
    result
}

fn a_sleeper_is_woken_by_a_request(info: &Info<T>) {
    with_sides(info, |sides| {
        let address = &sides.address;
        std::thread::scope(|scope| {
            let client = scope.spawn(move || {
                with_client(info, address, |eq| {
                    let deadline = Instant::now() + LIMIT;
                    while Instant::now() < deadline {
                        if let Some(event) = eq.poll_for(LIMIT).expect("works") {
                            return matches!(event, EqEvent::Failed(_));
                        }
                    }
                    false
                })
            });
            let before = Instant::now();
            let request = loop {
                match sides.server.poll_for(LIMIT).expect("works") {
                    Some(EqEvent::Request(request)) => break request,
                    Some(other) => panic!("a request, not {other:?}"),
                    None => assert!(before.elapsed() < LIMIT / 2, "woken by the request, not by the time"),
                }
            };
            assert!(before.elapsed() < LIMIT / 2);
            drop(request);
            assert!(client.join().expect("the client"));
        });
    });
}

fn a_queue_of_connections_sleeps(info: &Info<T>) {
    with_sides(info, |sides| {
        let cq = match Cq::<T, Bytes>::open(sides.domain, CqAttr { wait: WaitObj::FD, ..CqAttr::new(16) }) {
            Ok(cq) => cq,
            Err(error) => {
                assert!(matches!(error, OpenError::Errno(_)), "{error:#}");
                return crate::connected::report::not_granted();
            }
        };
        let eq = sides.server;
        let connecting = cq.msg_endpoint(eq, &sides.info).expect("an endpoint").connect(&sides.address, b"sleeps");
        let (server, client) = meet(eq, connecting.expect("asks"), |request| request.endpoint(&cq, eq));
        let (begin, time) = (Instant::now(), Duration::from_millis(20));
        assert!(cq.poll_until(begin + time).expect("the queue works").is_none() && begin.elapsed() >= time);
        for round in 0..20 {
            let received = post(&cq, room(300), |buf| server.recv(ThePeer, buf));
            let sent = post(&cq, pattern(300, round), |buf| client.send(ThePeer, buf));
            let (deadline, mut left) = (Instant::now() + LIMIT, vec![received, sent]);
            while !left.is_empty() {
                let completion = cq.poll_until(deadline).expect("the queue works").expect("all of them come");
                let Completion::Op(done) = completion else { panic!("{completion:?}") };
                let at = left.iter().position(|key| *key == done.key()).expect("each once");
                left.swap_remove(at);
                done.result().expect("it succeeds");
                assert_eq!(done.into_buf(), pattern(300, round));
            }
        }
    });
}

/// Closes endpoints, connections and listeners in several orders, and makes every waiting call
/// after each.
fn closed_connections_leave_their_queues(info: &Info<T>) {
    const CLOSINGS: usize = 5;
    let time = Duration::from_millis(1);
    for first in 0..CLOSINGS {
        let domain = Domain::open(info).expect("domain");
        let attr = EqAttr { wait: WaitObj::FD, ..EqAttr::default() };
        let eq = EventQueue::open(&domain, attr).expect("event queue");
        let sleepy = Cq::<T, Bytes>::open(&domain, CqAttr { wait: WaitObj::FD, ..CqAttr::new(16) });
        let cq = sleepy.unwrap_or_else(|_| Cq::open(&domain, CqAttr::new(16)).expect("queue"));
        let call = || {
            eq.wait_fd().expect("a descriptor");
            eq.may_sleep().expect("works");
            while let Some(event) = eq.poll_for(time).expect("works") {
                assert!(matches!(event, EqEvent::Shutdown(_)), "the end of a connection, not {event:?}");
            }
            assert!(eq.poll().expect("works").is_none());
            if cq.wait_fd().is_ok() {
                cq.may_sleep().expect("works");
                assert!(cq.poll_for(time).expect("the queue works").is_none());
            }
            assert!(cq.poll().expect("the queue works").is_none());
        };
        let mut listener = Some(eq.listen(info).expect("listens"));
        let address = listener.as_ref().and_then(|listener| listener.address().ok()).expect("its address");
        let of_client = super::sides::client_info(info, &address);
        let mut ends = [(); 2].map(|()| {
            let idle = cq.msg_endpoint(&eq, &of_client).expect("an endpoint");
            let connecting = idle.connect(&address, b"closes").expect("asks");
            let (server, client) = meet(&eq, connecting, |request| request.endpoint(&cq, &eq));
            let received = post(&cq, room(30), |buf| server.recv(ThePeer, buf));
            let sent = post(&cq, pattern(30, first), |buf| client.send(ThePeer, buf));
            for (key, is_received) in [(received, true), (sent, false)] {
                let done = cq.wait(key, Instant::now() + LIMIT).expect("the queue works").expect("it ends");
                done.result().expect("it succeeds");
                assert!(!is_received || done.into_buf() == pattern(30, first));
            }
            [Some(server), Some(client)]
        });
        call();
        for step in 0..CLOSINGS {
            let step = if first % 2 == 0 { step } else { CLOSINGS - step };
            match (first + step) % CLOSINGS {
                4 => drop(listener.take()),
                number => drop(ends[number / 2][number % 2].take()),
            }
            call();
        }
    }
}
