//! Sockets: not blocking, without delay, and not inherited by programs that the process starts.

use core::mem::MaybeUninit;
use core::net::SocketAddr;
use core::time::Duration;

use loom_core::vocabulary::Errno;
use rustix::event::epoll;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io;
use rustix::net::sockopt::{
    set_socket_keepalive, set_socket_reuseaddr, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl, set_tcp_nodelay,
    socket_error,
};
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType};
use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};

use crate::memory::set_bind_address_no_port;

/// Connections that the kernel completes before they are accepted.
const BACKLOG: i32 = 4096;

/// Period of the timer in milliseconds.
pub(super) const TICK_MS: u32 = 20;

pub(super) const fn errno(error: io::Errno) -> Errno {
    Errno::from_raw(error.raw_os_error())
}

fn new_socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    net::socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)
}

/// Opens a socket at an address. `connect` chooses the port.
fn new_bound(mut address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = new_socket(address)?;
    // Without this option, all peers together have one range of ports.
    let _ = set_bind_address_no_port(socket.as_fd());
    // Otherwise no listener of this host may take the port later.
    set_socket_reuseaddr(&socket, true)?;
    address.set_port(0);
    net::bind(&socket, &address)?;
    Ok(socket)
}

/// Opens a listener, and returns it with its address.
pub(super) fn listen(address: SocketAddr) -> io::Result<(OwnedFd, SocketAddr)> {
    let socket = new_socket(address)?;
    set_socket_reuseaddr(&socket, true)?;
    net::bind(&socket, &address)?;
    net::listen(&socket, BACKLOG)?;
    let address = SocketAddr::try_from(net::getsockname(&socket)?)?;
    Ok((socket, address))
}

/// Begins to connect from an address, with any port.
pub(super) fn connect(from: SocketAddr, to: SocketAddr) -> io::Result<OwnedFd> {
    // Peers recognise an endpoint by the address of its listener.
    let socket = new_bound(from)?;
    prepare(&socket)?;
    match net::connect(&socket, &to) {
        Ok(()) | Err(io::Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

/// Sets options, so that the kernel ends connections to hosts that are gone, also idle ones.
fn prepare(socket: impl AsFd) -> io::Result<()> {
    set_tcp_nodelay(&socket, true)?;
    set_tcp_keepidle(&socket, Duration::from_secs(10))?;
    set_tcp_keepintvl(&socket, Duration::from_secs(2))?;
    set_tcp_keepcnt(&socket, 5)?;
    set_socket_keepalive(socket, true)
}

/// Returns the next connection, with the address of its peer.
pub(super) fn accept(listener: impl AsFd) -> io::Result<Option<(OwnedFd, SocketAddr)>> {
    match net::acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok((socket, Some(address))) => {
            prepare(&socket)?;
            Ok(Some((socket, SocketAddr::try_from(address)?)))
        }
        Ok((_, None)) => Ok(None),
        Err(io::Errno::AGAIN | io::Errno::INTR | io::Errno::CONNABORTED) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Result of [`connect`].
pub(super) fn connect_result(socket: impl AsFd) -> io::Result<()> {
    socket_error(socket)?
}

/// Receives into a buffer. Returns `None` without a byte, and zero at the end of the stream.
pub(super) fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        // Takes less of the kernel than `read`.
        match net::recv(&socket, &mut *buffer, RecvFlags::empty()) {
            Ok((received, _)) => return Ok(Some(received)),
            Err(io::Errno::INTR) => {}
            Err(io::Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// Sends a byte. Returns `false` if the kernel has not taken it.
pub(super) fn send_byte(socket: impl AsFd) -> bool {
    net::send(socket, &[0], SendFlags::NOSIGNAL | SendFlags::DONTWAIT).is_ok()
}

/// Reads the bytes of a socket, so that closing it does not reset the connection.
pub(super) fn drain(socket: impl AsFd) {
    let mut dropped = [MaybeUninit::uninit(); 4096];
    // The kernel's buffer usually has at most 6 MiB.
    for _ in 0..2048 {
        match io::read(&socket, &mut dropped) {
            Ok((received, _)) if !received.is_empty() => {}
            _ => return,
        }
    }
}

/// Ends a connection, also for forked children that have the socket.
pub(super) fn shut_down(socket: impl AsFd) {
    let _ = net::shutdown(socket, Shutdown::Both);
}

/// Starts the periods of a timer, or stops them.
pub(super) fn set_ticking(timer: impl AsFd, on: bool) -> io::Result<()> {
    let nanoseconds = if on { i64::from(TICK_MS) * 1_000_000 } else { 0 };
    let period = Timespec { tv_sec: 0, tv_nsec: nanoseconds };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: period, it_value: period }).map(drop)
}

/// Word of the kernel's events: index in bits 0–31, mark of a listener, generation from bit 33 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Timer,
    Listener(u16),
    Connection { index: u32, generation: u32 },
}

impl Token {
    pub(super) fn data(self) -> epoll::EventData {
        epoll::EventData::new_u64(match self {
            Token::Timer => u64::MAX,
            Token::Listener(endpoint) => 1 << 32 | u64::from(endpoint),
            Token::Connection { index, generation } => u64::from(generation) << 33 | u64::from(index),
        })
    }

    #[expect(clippy::cast_possible_truncation, reason = "the parts of the word")]
    pub(super) fn of(data: epoll::EventData) -> Self {
        let word = data.u64();
        match word {
            u64::MAX => Token::Timer,
            _ if word >> 32 & 1 == 1 => Token::Listener(word as u16),
            _ => Token::Connection { index: word as u32, generation: (word >> 33) as u32 },
        }
    }
}

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, Ipv6Addr};

    use super::{SocketAddr, net, new_bound};

    #[test]
    fn ports_are_not_reserved_before_their_peer_is_known() {
        for address in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
            let Ok(socket) = new_bound(SocketAddr::new(address, 7)) else {
                assert!(address.is_ipv6(), "IPv4 is there");
                continue;
            };
            let bound = SocketAddr::try_from(net::getsockname(&socket).expect("it is open")).expect("an IP address");
            assert_eq!(bound, SocketAddr::new(address, 0));
        }
    }
}
