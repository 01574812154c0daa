//! The control connection of `fi_pingpong`: names, and keeping step. Each item is written at once, because the other side
//! reads each at once.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use loom_core::vocabulary::{AddressFormat, EndpointAddr};

/// Every wait for the other side ends here at the latest, but a server's for its client.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// The longest name that either side takes, in bytes.
const LONGEST_NAME: u32 = 1024;

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
            match TcpStream::connect(&addresses[..]) {
                Ok(stream) => return Self::new(stream),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => std::thread::yield_now(),
            }
        }
    }

    pub(crate) fn send_name(&mut self, name: &EndpointAddr) -> io::Result<()> {
        let len = u32::try_from(name.bytes().len()).map_err(io::Error::other)?;
        self.0.write_all(&len.to_be_bytes())?;
        self.0.write_all(&name.format().as_raw().to_ne_bytes())?;
        self.0.write_all(name.bytes())
    }

    pub(crate) fn receive_name(&mut self) -> io::Result<EndpointAddr> {
        let mut number = [0; 4];
        self.0.read_exact(&mut number)?;
        let len = u32::from_be_bytes(number);
        if len > LONGEST_NAME {
            return Err(io::Error::new(ErrorKind::InvalidData, format!("a name of {len} bytes")));
        }
        self.0.read_exact(&mut number)?;
        let format = AddressFormat::from_raw(u32::from_ne_bytes(number));
        let mut name = vec![0; len as usize];
        self.0.read_exact(&mut name)?;
        EndpointAddr::new(format, &name)
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, format!("the peer's name: {error}")))
    }

    fn expect(&mut self, wanted: &[u8]) -> io::Result<()> {
        let mut read = vec![0; wanted.len()];
        self.0.read_exact(&mut read)?;
        if read == wanted {
            Ok(())
        } else {
            Err(io::Error::new(ErrorKind::InvalidData, format!("{:?} where {:?} was due", read, wanted)))
        }
    }

    /// Meets the other side before a size.
    pub(crate) fn meet(&mut self, is_client: bool) -> io::Result<()> {
        if is_client {
            self.0.write_all(b"q\0")?;
            self.expect(b"a\0")
        } else {
            self.expect(b"q\0")?;
            self.0.write_all(b"a\0")
        }
    }

    /// After a size, the client tells how many messages have come; returns the number that was told.
    pub(crate) fn settle(&mut self, is_client: bool, received: u64) -> io::Result<u64> {
        let mut count = [0; 10];
        if is_client {
            let text = received.to_string();
            let room = count.get_mut(..text.len()).ok_or_else(|| io::Error::other("too many messages"))?;
            room.copy_from_slice(text.as_bytes());
            self.0.write_all(&count)?;
            self.expect(b"cnt ok\0")?;
            return Ok(received);
        }
        self.0.read_exact(&mut count)?;
        let told = String::from_utf8_lossy(&count).trim_end_matches('\0').parse().map_err(io::Error::other)?;
        self.0.write_all(b"cnt ok\0")?;
        Ok(told)
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
