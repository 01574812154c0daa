//! The control connection of `fi_pingpong`, and its end.

use std::io::{self, ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use loom_fabric::EndpointAddr;

use crate::items;

/// Every wait for the other side ends here at the latest, but a server's for its client.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) struct Control(TcpStream);

impl Control {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(LIMIT))?;
        Ok(Control(stream))
    }

    /// Waits for a client.
    pub(crate) fn accept(port: u16) -> io::Result<Self> {
        Self::new(TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?.accept()?.0)
    }

    /// Connects to a server, which may only be starting.
    pub(crate) fn connect(server: &str, port: u16) -> io::Result<Self> {
        let addresses: Vec<SocketAddr> = (server, port).to_socket_addrs()?.collect();
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            match attempt(&addresses) {
                Ok(stream) => return Self::new(stream),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    pub(crate) fn send_name(&mut self, name: &EndpointAddr) -> io::Result<()> {
        items::send_name(&mut self.0, name)
    }

    pub(crate) fn receive_name(&mut self) -> io::Result<EndpointAddr> {
        items::receive_name(&mut self.0)
    }

    /// Meets the other side before a size.
    pub(crate) fn meet(&mut self, is_client: bool) -> io::Result<()> {
        items::meet(&mut self.0, is_client)
    }

    /// After a size, the client tells how many messages have come; returns the number that was told.
    pub(crate) fn settle(&mut self, is_client: bool, received: u64) -> io::Result<u64> {
        items::settle(&mut self.0, is_client, received)
    }

    /// Says that this side needs nothing more.
    pub(crate) fn finish(&self) -> io::Result<()> {
        self.0.set_nonblocking(true)?;
        self.0.shutdown(std::net::Shutdown::Write)
    }

    /// Whether the other side has gone, or said that it needs nothing more.
    pub(crate) fn is_over(&mut self) -> bool {
        match self.0.read(&mut [0; 16]) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => error.kind() != ErrorKind::WouldBlock && error.kind() != ErrorKind::Interrupted,
        }
    }
}

/// Connects once. Without a listener at a port of this machine's that is also one for clients, a client may be connected
/// to itself: that is no server.
fn attempt(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(addresses)?;
    if stream.local_addr()? == stream.peer_addr()? { Err(ErrorKind::ConnectionRefused.into()) } else { Ok(stream) }
}
