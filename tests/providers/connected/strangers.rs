//! Programs with another protocol on a listener's port. They do not stop the others.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use loom_core::domain::Domain;
use loom_core::eq::{EqAttr, EventQueue};
use loom_core::info::Info;

use super::Case;
use super::sides::{T, with_sides};
use crate::connected::Found;

pub(crate) fn cases() -> Vec<(&'static str, Case)> {
    vec![
        ("garbage_does_not_stop_the_others", garbage_does_not_stop_the_others),
        ("silence_does_not_stop_the_others", silence_does_not_stop_the_others),
        ("a_stranger_may_outlive_the_listener", a_stranger_may_outlive_the_listener),
        ("a_stranger_may_speak_when_the_listener_is_gone", a_stranger_may_speak_when_the_listener_is_gone),
    ]
}

fn garbage_does_not_stop_the_others(info: &Info<T>) {
    with_sides(info, |sides| {
        let (server, client) = sides.pair();
        let address = SocketAddr::try_from(&sides.address).expect("a socket address");
        for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 4096], &[0xff; 33], b"x"] {
            let mut stream = TcpStream::connect(address).expect("connects");
            stream.write_all(garbage).expect("writes");
            sides.message(&client, &server, 100, garbage.len());
            if info.provider() == "sockets" {
                crate::connected::report::partly(
                    "A stranger that has sent part of a request holds up the listener, which accepts no connection \
                        meanwhile",
                );
            } else {
                sides.pair();
            }
            drop(stream);
            sides.message(&server, &client, 100, garbage.len());
            sides.pair();
        }
    });
}

fn silence_does_not_stop_the_others(info: &Info<T>) {
    with_sides(info, |sides| {
        let address = SocketAddr::try_from(&sides.address).expect("a socket address");
        let silent: Vec<_> = (0..10).map(|_| TcpStream::connect(address).expect("connects")).collect();
        let (server, client) = sides.pair();
        sides.message(&client, &server, 100, 1);
        drop(silent);
        sides.pair();
    });
}

fn a_stranger_may_outlive_the_listener(info: &Info<T>) {
    let mut stranger = None;
    with_sides(info, |sides| {
        let address = SocketAddr::try_from(&sides.address).expect("a socket address");
        stranger = Some(TcpStream::connect(address).expect("connects"));
        sides.pair();
    });
    // The system decides if the stream is still open.
    let _ = stranger.expect("a stream").write_all(b"still there");
}

/// Checks a stranger that has connected, and sends after its listener is closed, while another
/// queue of the domain is read.
fn a_stranger_may_speak_when_the_listener_is_gone(info: &Info<T>) {
    if info.provider() == "sockets" && !T::is_tested(info) {
        return crate::connected::report::not_run(
            "The listener stays open, and garbage from a stranger crashes it (`sockets-garbage-crashes-a-listener`)",
        );
    }
    let domain = Domain::open(info).expect("domain");
    let other = EventQueue::open(&domain, EqAttr::default()).expect("another event queue");
    let mut streams = Vec::new();
    for _ in 0..8 {
        let eq = EventQueue::open(&domain, EqAttr::default()).expect("event queue");
        let address = eq.listen(info).expect("listens").address().expect("its address");
        let stream = TcpStream::connect(SocketAddr::try_from(&address).expect("a socket address")).expect("connects");
        let soon = Instant::now() + Duration::from_millis(5);
        while Instant::now() < soon {
            assert!(eq.poll().expect("works").is_none());
        }
        streams.push(stream);
        drop(eq);
    }
    for stream in &mut streams {
        let _ = stream.write_all(&[3; 64]);
        let soon = Instant::now() + Duration::from_millis(5);
        while Instant::now() < soon {
            let _ = other.poll().expect("works");
        }
    }
}
