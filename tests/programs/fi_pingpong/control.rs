//! The control connection of `fi_pingpong`, and its end.

use std::io::{self, ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use loom_fabric::EndpointAddr;

use crate::items;

/// Limit of every wait for the other side, except a server's for its client.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Pause between two attempts to connect.
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

    /// Connects to a server, which may still be starting.
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

    /// Synchronises with the other side before a size.
    pub(crate) fn meet(&mut self, is_client: bool) -> io::Result<()> {
        items::meet(&mut self.0, is_client)
    }

    /// Sends the client's number of received messages after a size, and returns the number that was
    /// sent.
    pub(crate) fn settle(&mut self, is_client: bool, received: u64) -> io::Result<u64> {
        items::settle(&mut self.0, is_client, received)
    }

    /// Reports that this side has finished.
    pub(crate) fn finish(&self) -> io::Result<()> {
        self.0.set_nonblocking(true)?;
        self.0.shutdown(std::net::Shutdown::Write)
    }

    /// Returns `true` if the other side has closed, or has reported that it has finished.
    pub(crate) fn is_over(&mut self) -> bool {
        match self.0.read(&mut [0; 16]) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => error.kind() != ErrorKind::WouldBlock && error.kind() != ErrorKind::Interrupted,
        }
    }
}

/// Connects once. At a local port without a listener, a client may be connected to itself, which is
/// not a server.
fn attempt(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(addresses)?;
    if stream.local_addr()? == stream.peer_addr()? { Err(ErrorKind::ConnectionRefused.into()) } else { Ok(stream) }
}
