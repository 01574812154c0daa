//! Executors that are woken by new events of a descriptor alone (edge-triggered).

#![allow(unsafe_code, reason = "borrows a descriptor")]

use core::mem::MaybeUninit;
use std::io::Read;
use std::vec;

use loom_core::{Av, Cq, CqAttr, Domain, Hints, Source, Tag, WaitObj};
use rustix::event::{Timespec, epoll};
use rustix::fd::BorrowedFd;

use super::sides::{Node, SMALL, Stranger, request};
use crate::query;

/// A new connection is one that polls of the last connection alone do not see.
#[test]
fn new_connections_are_accepted_before_the_queue_sleeps() {
    let hints = Hints { node: Some("127.0.0.1"), listen: true, ..Hints::default() };
    let domain = Domain::open(&query(&hints, SMALL).expect("loopback")).expect("domain");
    let av = Av::open(&domain, 8).expect("vector");
    let cq = Cq::open(&domain, CqAttr { wait: WaitObj::FD, ..CqAttr::new(64) }).expect("queue");
    let endpoint = cq.endpoint(&av).expect("endpoint");
    let (node, other) = (Node { domain, av, cq, endpoint }, Node::open());
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
