//! Executors that are woken by new events of a descriptor alone (edge-triggered), and sleeps on
//! counters.

#![allow(unsafe_code, reason = "borrows a descriptor")]

use core::mem::MaybeUninit;
use core::time::Duration;
use std::io::Read;
use std::sync::mpsc;
use std::time::Instant;
use std::{thread, vec};

use loom_core::{
    Av, Binding, Counted, Counter, CounterAttr, Cq, CqAttr, CqError, Deadline, Domain, Hints, Source, Tag, WaitObj,
};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fd::BorrowedFd;

use super::sides::{LIMIT, Node, SMALL, Stranger, request};
use crate::query;

fn with_descriptor() -> Node {
    let hints = Hints { node: Some("127.0.0.1"), listen: true, ..Hints::default() };
    let domain = Domain::open(&query(&hints, SMALL).expect("loopback")).expect("domain");
    let av = Av::open(&domain, 8).expect("vector");
    let cq = Cq::open(&domain, CqAttr { wait: WaitObj::FD, ..CqAttr::new(64) }).expect("queue");
    let endpoint = cq.endpoint(&av).expect("endpoint");
    Node { domain, av, cq, endpoint }
}

/// A new connection is one that polls of the last connection alone do not see.
#[test]
fn new_connections_are_accepted_before_the_queue_sleeps() {
    let (node, other) = (with_descriptor(), Node::open());
    node.talks_to(&other);
    // The last bytes come from the other node.
    let received = node.endpoint.tagged_recv(Source::Any, Tag(3), vec![0; 8]).expect("posted");
    other.endpoint.tagged_send(other.knows(&node), Tag(3), vec![1; 8]).expect("posted");
    while !node.is_done(received) {
        other.poll();
        node.poll();
    }
    assert_eq!(node.result(received), Ok(()));
    let outer = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a descriptor");
    // SAFETY: the queue is open until the end of the test.
    let fd = unsafe { BorrowedFd::borrow_raw(node.cq.wait_fd().expect("a descriptor")) };
    epoll::add(&outer, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN | epoll::EventFlags::ET).expect("added");
    let is_woken = |milliseconds: i64| {
        let mut room = [const { MaybeUninit::<epoll::Event>::uninit() }; 4];
        let timeout = Timespec { tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000 };
        !epoll::wait(&outer, &mut room, Some(&timeout)).expect("events").0.is_empty()
    };
    while is_woken(20) {}
    let mut stranger = Stranger::connect(&node);
    stranger.send(&request(9));
    let mut answer = vec![0; 40];
    for _ in 0..1000 {
        if stranger.0.read(&mut answer).is_ok() {
            return;
        }
        assert!(is_woken(2000), "the descriptor reports the connection");
        // Polls, until the queue may sleep.
        let sleeps = (0..1000).any(|_| {
            node.poll();
            node.cq.may_sleep().expect("the queue sleeps")
        });
        assert!(sleeps, "the queue is empty");
    }
    panic!("the connection is not accepted");
}

/// The kernel does not watch a connection that polls keep reading.
#[test]
fn busy_connections_wake_sleepers() {
    let (node, other) = (with_descriptor(), Node::open());
    for round in 0..4 {
        (0..400).for_each(|_| other.talks_to(&node));
        let received = node.endpoint.tagged_recv(Source::Any, Tag(3), vec![0; 8]).expect("posted");
        let sleeps = (0..1000).any(|_| {
            node.poll();
            node.cq.may_sleep().expect("the queue sleeps")
        });
        assert!(sleeps, "round {round}: all is quiet");
        let sent = other.endpoint.tagged_send(other.knows(&node), Tag(3), vec![1; 8]).expect("posted");
        assert_eq!(other.result(sent), Ok(()));
        // SAFETY: the queue is open until the end of the test.
        let fd = unsafe { BorrowedFd::borrow_raw(node.cq.wait_fd().expect("a descriptor")) };
        let time = Timespec::try_from(LIMIT).expect("a short time");
        assert_eq!(poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&time)), Ok(1), "round {round}");
        assert_eq!(node.result(received), Ok(()));
    }
}

/// Message of another thread, failures, numbers of the program, and sends that are not in the
/// kernel yet.
#[test]
fn counters_are_slept_on() {
    const MESSAGES: u64 = 20;
    let hints = Hints { node: Some("127.0.0.1"), listen: true, ..Hints::default() };
    let domain = Domain::open(&query(&hints, SMALL).expect("loopback")).expect("domain");
    let [counter, sends] =
        [WaitObj::FD, WaitObj::UNSPEC].map(|wait| Counter::open(&domain, CounterAttr { wait }).expect("counter"));
    let av = Av::open(&domain, 8).expect("vector");
    let cq = Cq::open(&domain, CqAttr::new(64)).expect("queue");
    let binding = Binding::to(&av).counter(Counted::RECV, &counter).counter(Counted::SEND, &sends);
    let endpoint = cq.endpoint(binding).expect("endpoint");
    let node = Node { domain, av, cq, endpoint };
    // SAFETY: the counter is open until the end of the test.
    let fd = unsafe { BorrowedFd::borrow_raw(counter.wait_fd().expect("a descriptor")) };
    let is_woken = |time: Duration| {
        let time = Timespec::try_from(time).expect("a short time");
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&time)).expect("events") > 0
    };
    let may_sleep = || (0..1000).any(|_| counter.may_sleep().expect("the counter sleeps"));

    // Without an event the time passes.
    let before = Instant::now();
    assert_eq!(counter.wait_for(1, Duration::from_millis(20)), Ok(false));
    assert!(before.elapsed() >= Duration::from_millis(19));
    assert!(may_sleep() && !is_woken(Duration::ZERO));

    // Changes by the program.
    counter.add(3).expect("changed");
    assert!(is_woken(Duration::ZERO) && counter.may_sleep() == Ok(false));
    assert_eq!(counter.wait_for(3, Duration::ZERO), Ok(true));
    counter.set(0).expect("changed");
    assert!(is_woken(Duration::ZERO) && may_sleep());

    // Messages, each after the sleep may begin.
    let (go, begins) = mpsc::channel();
    let (address, port) = (node.endpoint.address().expect("address"), node.address().port());
    let peer = thread::spawn(move || {
        let other = Node::open();
        let to = other.av.insert(&address).expect("inserted");
        for tag in begins {
            let sent = other.endpoint.tagged_send(to, Tag(tag), vec![1; 8]).expect("posted");
            assert_eq!(other.result(sent), Ok(()));
        }
    });
    for number in 1..=MESSAGES {
        let received = node.endpoint.tagged_recv(Source::Any, Tag(number), vec![0; 8]).expect("posted");
        assert!(may_sleep(), "all is quiet");
        go.send(number).expect("the thread runs");
        let mut until = Instant::now() + LIMIT;
        while counter.read() < number {
            assert!(!until.passed(), "{} of {number}", counter.read());
            if number % 2 == 0 {
                let _ = counter.wait_for(number, LIMIT).expect("no operation fails");
            } else if counter.may_sleep().expect("the counter sleeps") {
                assert!(is_woken(LIMIT), "the descriptor reports the message");
            }
        }
        assert_eq!(node.cq.finish(received, until).expect("done").into_buf(), vec![1; 8]);
        assert!(may_sleep(), "all is quiet");
    }
    drop(go);
    peer.join().expect("the thread ends");

    // A failure ends the sleep.
    let received = node.endpoint.tagged_recv(Source::Any, Tag(1), vec![0; 8]).expect("posted");
    assert!(may_sleep());
    node.endpoint.cancel(received).expect("posted");
    assert!(is_woken(Duration::ZERO) && counter.may_sleep() == Ok(false));
    assert!(node.result(received).is_err());
    assert_eq!((counter.read(), counter.read_error()), (MESSAGES, 1));

    // The send is counted before the sleep that awaits it, and so is its failure.
    let other = Node::open();
    node.talks_to(&other);
    let (to, first) = (node.knows(&other), sends.read());
    // The other node does not answer, so that nothing else ends a sleep.
    for number in first + 1..=first + 4 {
        assert!(node.endpoint.tagged_send(to, Tag(9), vec![2; 8]).is_ok());
        let mut until = Instant::now() + LIMIT;
        while !sends.wait_for(number, LIMIT).expect("no operation fails") {
            assert!(!until.passed(), "{} sends", sends.read());
        }
        assert!(before.elapsed() < LIMIT, "no sleep misses it");
    }
    let gone = node.av.insert(&core::net::SocketAddr::from(([127, 0, 0, 1], 9)).into()).expect("inserted");
    assert_ne!(port, 9);
    let failed = node.endpoint.tagged_send(gone, Tag(9), vec![2; 8]).map_err(|refused| refused.error);
    let mut until = Instant::now() + LIMIT;
    while failed.is_ok() && sends.wait_for(first + 5, LIMIT) != Err(CqError::CountedFailure) {
        assert!(!until.passed(), "the failure of {failed:?}");
    }
}
