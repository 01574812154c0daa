//! Several hosts: network namespaces that `.ci/run multicast` makes, each with one thread.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::{Condvar, Mutex};
use std::thread;

use loom_core::vocabulary::EndpointAddr;

use super::*;

pub(crate) fn cases() -> report::Cases {
    vec![
        ("members_receive_and_others_do_not", members_receive_and_others_do_not),
        ("a_host_without_a_route_gets_an_error", a_host_without_a_route_gets_an_error),
        (
            "a_group_that_could_not_be_left_is_left_with_its_endpoint",
            a_group_that_could_not_be_left_is_left_with_its_endpoint,
        ),
        ("a_group_that_cannot_be_left_ends_no_scope", a_group_that_cannot_be_left_ends_no_scope),
    ]
}

const PORT: u16 = 7471;

/// Moves this thread, and every socket that it opens later, to a host.
fn go_to(host: &str) {
    let namespace = File::open(format!("/run/netns/{host}")).unwrap_or_else(|error| panic!("{host}: {error}"));
    // SAFETY: an open file descriptor.
    let moved = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
    assert_eq!(moved, 0, "{host}: {}", std::io::Error::last_os_error());
}

/// Number of arrivals that marks a failed thread.
const FAILED: u32 = u32::MAX;

/// Meeting of threads, with a limit, which ends when a thread has failed.
struct Meeting {
    threads: u32,
    arrived: Mutex<u32>,
    changed: Condvar,
}

impl Meeting {
    fn of(threads: u32) -> Self {
        Meeting { threads, arrived: Mutex::new(0), changed: Condvar::new() }
    }

    /// Moves this thread to a host. Meetings expect it until its part ends.
    fn play(&self, host: &str, part: impl FnOnce()) {
        struct Leaving<'a>(&'a Meeting);
        impl Drop for Leaving<'_> {
            fn drop(&mut self) {
                if thread::panicking() {
                    *self.0.arrived.lock().unwrap() = FAILED;
                    self.0.changed.notify_all();
                }
            }
        }
        let _leaving = Leaving(self);
        go_to(host);
        part();
    }

    fn meet(&self) {
        let mut arrived = self.arrived.lock().unwrap();
        *arrived = arrived.saturating_add(1);
        self.changed.notify_all();
        // The last arrival of this round.
        let last = arrived.div_ceil(self.threads).saturating_mul(self.threads);
        let (arrived, waited) = self.changed.wait_timeout_while(arrived, LIMIT, |arrived| *arrived < last).unwrap();
        let failed = *arrived == FAILED;
        drop(arrived);
        assert!(!waited.timed_out(), "somebody is missing after {LIMIT:?}");
        assert!(!failed, "somebody has failed");
    }
}

/// Returns the messages of a host up to the last one of a sender, in any order.
fn received_until(side: &Side<'_, '_>, endpoint: &Endpoint<'_>, last: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let key = side.receive(endpoint);
        let message = side.received(key);
        if message == last {
            all.sort();
            return all;
        }
        all.push(message);
    }
}

/// Sends one message to the group, and then one to each host alone, which marks the end.
fn speak(side: &Side<'_, '_>, group: &mut MulticastGroup<'_, T, Vec<u8>>, hosts: &[EndpointAddr], round: usize) {
    side.send_to(group, bytes(1000, round));
    for host in hosts {
        let peer = side.av.insert(host).unwrap();
        side.finish(post(side.cq, vec![0xff; round], |buf| group.endpoint().send(peer, buf)));
    }
}

/// Runs the four hosts of `LOOM_HOSTS`, with the addresses 10.78.0.1 to 10.78.0.4.
fn members_receive_and_others_do_not() {
    let hosts = std::env::var("LOOM_HOSTS").expect("LOOM_HOSTS names four network namespaces");
    let hosts: Vec<&str> = hosts.split(',').collect();
    let [speaker, member, leaver, stranger] = hosts[..] else { panic!("four hosts, not {hosts:?}") };
    let address = group(1, PORT);
    let others = [2, 3, 4].map(|last| EndpointAddr::from(SocketAddr::new(Ipv4Addr::new(10, 78, 0, last).into(), PORT)));
    let (meeting, port) = (Meeting::of(4), PORT.to_string());
    let all_of_it = |side: &Side<'_, '_>, endpoint: &Endpoint<'_>, rounds: &[usize]| {
        for round in [1, 2] {
            let wanted: Vec<_> = rounds.iter().filter(|of| **of == round).map(|round| bytes(1000, *round)).collect();
            meeting.meet();
            assert!(received_until(side, endpoint, &vec![0xff; round]) == wanted, "round {round}");
            meeting.meet();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            meeting.play(speaker, || {
                with_side("10.78.0.1", None, |side| {
                    let endpoint = side.endpoint();
                    let mut group = join(&endpoint, &address).unwrap();
                    for round in [1, 2] {
                        meeting.meet();
                        speak(side, &mut group, &others, round);
                        meeting.meet();
                    }
                });
            })
        });
        scope.spawn(|| {
            meeting.play(member, || {
                with_side("0.0.0.0", Some(&port), |side| {
                    let endpoint = side.endpoint();
                    let _group = join(&endpoint, &address).unwrap();
                    all_of_it(side, &endpoint, &[1, 2]);
                });
            })
        });
        scope.spawn(|| {
            meeting.play(leaver, || {
                with_side("0.0.0.0", Some(&port), |side| {
                    let endpoint = side.endpoint();
                    let group = join(&endpoint, &address).unwrap();
                    meeting.meet();
                    assert!(received_until(side, &endpoint, &[0xff; 1]) == [bytes(1000, 1)], "as a member");
                    if std::env::var_os("LOOM_STAYS").is_none() {
                        group.leave().unwrap();
                    } else {
                        // The control: a membership that lasts too long.
                        std::mem::forget(group);
                    }
                    meeting.meet();
                    meeting.meet();
                    assert!(received_until(side, &endpoint, &[0xff; 2]).is_empty(), "after leaving");
                    meeting.meet();
                });
            })
        });
        scope.spawn(|| {
            meeting.play(stranger, || {
                with_side("0.0.0.0", Some(&port), |side| all_of_it(side, &side.endpoint(), &[]));
            })
        });
    });
}

/// Runs a test on a separate host, which has no network yet.
fn on_a_new_host(test: impl FnOnce() + Send + 'static) {
    let host = thread::spawn(|| {
        // SAFETY: no pointers.
        let moved = unsafe { libc::unshare(libc::CLONE_NEWNET) };
        assert_eq!(moved, 0, "{}", std::io::Error::last_os_error());
        test();
    });
    host.join().unwrap();
}

/// Checks that a join that would fail is not made, and that its endpoint can be closed.
fn a_host_without_a_route_gets_an_error() {
    on_a_new_host(|| {
        with_side("0.0.0.0", None, |side| {
            assert_eq!(side.endpoint().join(&group(1, PORT)).map(|_| ()).unwrap_err(), Errno::ENODEV);
        });
    });
}

/// Checks that a group cannot be left without a route. Its endpoint leaves it, after a route exists
/// again.
fn a_group_that_could_not_be_left_is_left_with_its_endpoint() {
    let ip = |arguments: &str| {
        // Runs on the host of its thread.
        let done = Command::new("ip").args(arguments.split(' ')).status().expect("ip");
        assert!(done.success(), "ip {arguments}");
    };
    let connect = move || {
        ip("link set plug up");
        ip("route add 239.0.0.0/8 dev plug");
    };
    on_a_new_host(move || {
        ip("link add plug type veth peer name socket");
        ip("addr add 10.78.1.1/24 dev plug");
        connect();
        with_side("0.0.0.0", None, |side| {
            let endpoint = side.endpoint();
            let member = join(&endpoint, &group(1, PORT)).unwrap();
            ip("link set plug down");
            assert_eq!(member.leave(), Err(Errno::ENODEV));
            connect();
            assert_eq!(endpoint.join(&group(1, PORT)).map(|_| ()).unwrap_err(), Errno::EADDRINUSE, "it still is in it");
        });
    });
}

/// Checks an interface that goes down. The process does not end: the endpoint stays open, without
/// operations in flight.
fn a_group_that_cannot_be_left_ends_no_scope() {
    let ip = |arguments: &str| assert!(Command::new("ip").args(arguments.split(' ')).status().unwrap().success());
    on_a_new_host(move || {
        ip("link add plug type veth peer name socket");
        ip("addr add 10.78.1.1/24 dev plug");
        ip("link set plug up");
        ip("route add 239.0.0.0/8 dev plug");
        scope(|s| {
            let domain = s.open(&info("0.0.0.0", None)).unwrap();
            play_on(&domain, |side| {
                let endpoint = side.endpoint();
                let member = join(&endpoint, &group(1, PORT)).unwrap();
                ip("link set plug down");
                drop(member);
                drop(endpoint);
            });
        });
    });
}
