//! Limits: connections, descriptors, time, regions.

#![allow(unsafe_code, reason = "borrows a descriptor")]

use core::time::Duration;
use std::fs::File;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::string::{String, ToString};
use std::thread;
use std::time::Instant;
use std::vec;
use std::vec::Vec;

use loom_core::{Access, Deadline, Mr};
use rustix::fd::BorrowedFd;
use rustix::net::sockopt::set_socket_linger;

use super::sides::{LIMIT, Node, SMALL, Stranger, request};
use crate::TcpAttr;

#[test]
fn ten_thousand_half_open_connections_keep_out_no_peer() {
    let node = Node::open();
    for batch in 0..100 {
        let strangers: Vec<_> = (0..100)
            .map(|number| {
                let mut stranger = Stranger::connect(&node);
                // Closing it resets it, and leaves no port in use.
                // SAFETY: the socket is open.
                let socket = unsafe { BorrowedFd::borrow_raw(stranger.0.as_raw_fd()) };
                set_socket_linger(socket, Some(Duration::ZERO)).expect("option");
                stranger.send(&request(9)[..number % 8]);
                node.poll();
                stranger
            })
            .collect();
        if batch % 20 == 0 {
            Node::open().talks_to(&node);
        }
        drop(strangers);
    }
}

#[test]
fn silent_connections_give_up_their_descriptors() {
    const ALONE: &str = "LOOM_FEW_DESCRIPTORS";
    if std::env::var_os(ALONE).is_none() {
        let program = std::env::current_exe().expect("this program");
        let test = "strangers::limits::silent_connections_give_up_their_descriptors";
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n 100 && exec \"$0\" --exact \"$1\""]).arg(program).arg(test).env(ALONE, "1");
        let ended = command.output().expect("it starts");
        let printed = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && printed.contains("1 passed"), "{printed}");
        return;
    }
    // They do not make room by their time.
    let node = Node::with(TcpAttr { connections: 200, connect_timeout: 3_600_000, ..SMALL });
    let connect = || {
        let stranger = Stranger::connect(&node);
        (0..4).for_each(|_| node.poll());
        stranger
    };
    let first = connect();
    let mut files = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
    }
    // There is room for both ends of a second one, and then for its client alone.
    files.truncate(files.len() - 2);
    let second = connect();
    let is_open =
        |stranger: &Stranger| stranger.0.peek(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    assert!(is_open(&first) && is_open(&second), "both have a descriptor");
    files.pop();
    Stranger::greet(&node, 9);
    assert!(!is_open(&first) && is_open(&second), "the oldest one has ended");
}

#[test]
fn time_to_connect_passes_for_programs_that_poll_seldom() {
    let node = Node::open();
    let listener = TcpListener::bind("127.0.0.1:0").expect("listener");
    let silent = node.av.insert(&listener.local_addr().expect("address").into()).expect("inserted");
    let sent = node.endpoint.send(silent, vec![1; 8]).expect("posted");
    let (mut polls, mut until) = (0, Instant::now() + LIMIT);
    while !node.is_done(sent) {
        assert!(!until.passed(), "the time to connect passes");
        // As long as half of the time to connect.
        thread::sleep(Duration::from_millis(100));
        node.poll();
        polls += 1;
    }
    // Each poll counts at most a quarter.
    assert!((4..=6).contains(&polls), "{polls} polls");
}

#[test]
fn peers_beyond_the_connections_are_refused_with_the_attribute() {
    let node = Node::with(TcpAttr { connections: 1, ..SMALL });
    let listeners = [0; 2].map(|_| TcpListener::bind("127.0.0.1:0").expect("listener"));
    let [first, second] =
        listeners.map(|listener| node.av.insert(&listener.local_addr().expect("address").into()).expect("inserted"));
    node.endpoint.send(first, vec![1; 8]).expect("posted");
    let refused = node.endpoint.send(second, vec![1; 8]).expect_err("one connection");
    let text = loom_core::Error::from(refused.error);
    assert!(std::format!("{text:#}").contains("raise the transport's number of connections"), "{text:#}");
}

#[test]
fn as_many_regions_open_as_the_attribute_says() {
    let node = Node::with(TcpAttr { regions: u16::MAX, ..SMALL });
    let open = || Mr::open(&node.domain, vec![0_u8; 1], Access::REMOTE_READ);
    let regions: Vec<_> = (0..u16::MAX).map(|_| open().expect("region")).collect();
    let refused = open().expect_err("one more").to_string();
    assert!(refused.contains("TcpAttr::regions"), "{refused}");
    drop(regions);
    open().expect("region");
}
