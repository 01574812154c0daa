//! Programs with another protocol on the port of an endpoint. They do not stop the others.

use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;

use loom_core::endpoint::Source;
use loom_core::info::Info;

use super::Case;
use super::scene::{Endpoint, NEW, Scene, T, finish, full, post, room, with_scene};

pub(crate) fn cases() -> Vec<(&'static str, Case)> {
    vec![
        ("garbage_does_not_stop_the_others", garbage_does_not_stop_the_others),
        ("silence_does_not_stop_the_others", silence_does_not_stop_the_others),
        ("a_stranger_may_outlive_the_endpoint", a_stranger_may_outlive_the_endpoint),
    ]
}

/// Bytes of strangers. The last is longer than the longest of the providers' own first messages.
const GARBAGE: [&[u8]; 5] =
    [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", &[0; 4096], &[0xff; 33], b"x", &[0xff; 4096]];

fn port(endpoint: &Endpoint<'_>) -> SocketAddr {
    SocketAddr::try_from(&endpoint.address().expect("its address")).expect("a socket address")
}

impl Scene<'_, '_> {
    /// Checks that a new peer is served.
    fn newcomer(&self) {
        let to = self.av.insert(&self.a.address().expect("its address")).expect("in the vector");
        let comes = self.cq.endpoint(self.av).expect("another endpoint");
        let received = post(self.cq, room(100), |buf| self.a.tagged_recv(Source::Any, NEW, buf));
        let sent = post(self.cq, full(100), |buf| comes.tagged_send(to, NEW, buf));
        let (bytes, transfer) = finish(self.cq, received);
        assert!(transfer.len == 100 && bytes.iter().all(|byte| *byte == 1));
        finish(self.cq, sent);
    }
}

/// Opens a stranger that has sent these bytes.
fn speaks(scene: &Scene<'_, '_>, garbage: &[u8]) -> OwnedFd {
    if scene.is("udp;ofi_rxd") {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let datagram = &garbage[..garbage.len().min(1472)];
        assert_eq!(socket.send_to(datagram, port(&scene.a)).expect("sends"), datagram.len());
        return socket.into();
    }
    let mut stream = TcpStream::connect(port(&scene.a)).expect("connects");
    stream.write_all(garbage).expect("writes");
    stream.into()
}

fn garbage_does_not_stop_the_others(info: &Info<T>) {
    with_scene(info, [], |scene, []| {
        scene.exchange(1);
        for garbage in GARBAGE {
            for stays in [true, false] {
                let stranger = speaks(&scene, garbage);
                if stays {
                    scene.exchange(1);
                    scene.newcomer();
                }
                drop(stranger);
                scene.exchange(1);
                scene.newcomer();
            }
        }
        Vec::new()
    });
}

fn silence_does_not_stop_the_others(info: &Info<T>) {
    with_scene(info, [], |scene, []| {
        let silent: Vec<_> = (0..10).map(|_| TcpStream::connect(port(&scene.a)).expect("connects")).collect();
        scene.exchange(1);
        scene.newcomer();
        drop(silent);
        scene.exchange(1);
        scene.newcomer();
        Vec::new()
    });
}

fn a_stranger_may_outlive_the_endpoint(info: &Info<T>) {
    let mut strangers = Vec::new();
    with_scene(info, [], |scene, []| {
        strangers.extend((0..2).map(|_| TcpStream::connect(port(&scene.a)).expect("connects")));
        scene.exchange(1);
        let Scene { a, .. } = scene;
        drop(a);
        // The system decides if the stream is still open.
        let _ = strangers[0].write_all(b"still there");
        let scene = Scene { a: scene.cq.endpoint(scene.av).expect("another endpoint"), ..scene };
        scene.exchange_from(&scene.b, 1, 64, 3);
        Vec::new()
    });
    for stranger in &mut strangers {
        let _ = stranger.write_all(b"still there");
    }
}
