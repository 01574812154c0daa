//! Stream sockets of the standard library. Both processes poll them, and do not sleep in the
//! operating system.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use crate::Failure;
use crate::sets::peers::end::{End, Exchange, check_bytes, fill};

/// An end of a connection. A message is sent with one call, unless the connection accepts only a
/// part of it.
pub(super) struct Socket<S> {
    stream: S,
    outbox: Vec<u8>,
    inbox: Vec<u8>,
}

impl<S> Socket<S> {
    fn new(stream: S, len: usize) -> Self {
        Socket { stream, outbox: vec![0; len], inbox: vec![0; len] }
    }
}

/// Moves all of `len` bytes. `step` moves some, from an offset on.
#[inline]
fn all(len: usize, mut step: impl FnMut(usize) -> io::Result<usize>) {
    let mut moved = 0;
    while moved < len {
        match step(moved) {
            Ok(0) => panic!("the other process has closed the connection"),
            Ok(count) => moved += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error:#}"),
        }
    }
}

impl<S: Read + Write> End for Socket<S> {
    #[inline]
    fn send(&mut self, number: u64) {
        fill(&mut self.outbox, number);
        all(self.outbox.len(), |sent| self.stream.write(&self.outbox[sent..]));
    }

    #[inline]
    fn receive(&mut self, number: u64) {
        all(self.inbox.len(), |received| self.stream.read(&mut self.inbox[received..]));
        check_bytes(&self.inbox, number);
    }
}

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("loom-benches.{name}"))
}

fn unix(stream: UnixStream, len: usize) -> io::Result<Socket<UnixStream>> {
    stream.set_nonblocking(true)?;
    Ok(Socket::new(stream, len))
}

pub(super) fn unix_near(name: &str, len: usize, exchange: Exchange<'_>) -> Result<Socket<UnixStream>, Failure> {
    let path = path(name);
    let listener = UnixListener::bind(&path)?;
    exchange("");
    let accepted = listener.accept();
    std::fs::remove_file(&path)?;
    Ok(unix(accepted?.0, len)?)
}

pub(super) fn unix_far(name: &str, len: usize, exchange: Exchange<'_>) -> Result<Socket<UnixStream>, Failure> {
    exchange("");
    Ok(unix(UnixStream::connect(path(name))?, len)?)
}

fn tcp(stream: TcpStream, len: usize) -> io::Result<Socket<TcpStream>> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    Ok(Socket::new(stream, len))
}

pub(super) fn tcp_near(len: usize, exchange: Exchange<'_>) -> Result<Socket<TcpStream>, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    exchange(&listener.local_addr()?.to_string());
    Ok(tcp(listener.accept()?.0, len)?)
}

pub(super) fn tcp_far(len: usize, exchange: Exchange<'_>) -> Result<Socket<TcpStream>, Failure> {
    Ok(tcp(TcpStream::connect(exchange("").parse::<SocketAddr>()?)?, len)?)
}
