//! Exchange of [`Metadata`] over TCP or any other way.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::string::String;
use std::time::Instant;
use std::vec;
use std::vec::Vec;

use loom_core::{CqError, Error};

use super::system;
use crate::remote::RemoteMemory;

/// Maximum length in bytes.
pub const MAX_LEN: usize = 1 << 22;

const VERSION: [u8; 8] = *b"loomMD\x01\0";
const HEAD: usize = 12;
const TIMED_OUT: Error = Error::Queue(CqError::TimedOut);
const PAUSE: Duration = Duration::from_millis(1);

/// Records of an engine and of memory for its peers.
///
/// ```
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_core::{Access, Domain};
/// use loom_transfer::metadata::Metadata;
/// use loom_transfer::{Agent, AgentAttr, Block, Engine, EngineAttr};
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let info = Network::new(NetworkAttr::default())?.info();
///
/// let open = move || Engine::open_in(&[Domain::open(&info)?], EngineAttr::default(), Global);
/// let agent = Agent::<Block>::spawn(AgentAttr::default(), open)?;
/// let cache = agent.register(vec![0; 4096], Access::REMOTE_WRITE)?;
/// let bytes = agent.metadata("decoder 1", &[("cache", cache)])?.to_bytes()?;
///
/// // At the peer.
/// let metadata = Metadata::from_bytes(&bytes)?;
/// assert_eq!((&*metadata.name, metadata.memory("cache").map(|memory| memory.len())), ("decoder 1", Some(4096)));
/// # let peer = agent;
/// peer.insert_peer(metadata.address)?;
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Name of the engine.
    pub name: String,
    /// Record for [`Engine::insert_peer`](crate::Engine::insert_peer).
    pub address: Vec<u8>,
    /// Memory by name.
    pub memories: Vec<(String, RemoteMemory)>,
}

impl Metadata {
    /// Memory of this name.
    #[must_use]
    pub fn memory(&self, name: &str) -> Option<&RemoteMemory> {
        self.memories.iter().find(|memory| memory.0 == name).map(|memory| &memory.1)
    }

    /// Returns the record: version, length, name, address, number of memories, names and records,
    /// with lengths of four little-endian bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let mut out = Vec::from(VERSION);
        out.extend_from_slice(&[0; 4]);
        put(&mut out, self.name.as_bytes());
        put(&mut out, &self.address);
        out.extend_from_slice(&number(self.memories.len()));
        for (name, memory) in &self.memories {
            put(&mut out, name.as_bytes());
            put(&mut out, &memory.to_bytes());
        }
        if out.len() > MAX_LEN {
            return Err(TOO_LONG);
        }
        let rest = number(out.len() - HEAD);
        out[VERSION.len()..HEAD].copy_from_slice(&rest);
        Ok(out)
    }

    /// Decodes a record. Fails for other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let (head, mut rest) = bytes.split_first_chunk::<HEAD>().ok_or(MALFORMED)?;
        if rest_len(*head)? != rest.len() {
            return Err(MALFORMED);
        }
        let name = take_name(&mut rest)?;
        let address = take(&mut rest)?.to_vec();
        let mut memories = Vec::new();
        for _ in 0..take_number(&mut rest)? {
            memories.push((take_name(&mut rest)?, RemoteMemory::from_bytes(take(&mut rest)?)?));
        }
        rest.is_empty().then_some(Metadata { name, address, memories }).ok_or(MALFORMED)
    }
}

const MALFORMED: Error =
    Error::Invalid("not metadata of this version of loom: run one version on both sides, or check the address");
const TOO_LONG: Error = Error::Invalid("metadata longer than 4 MiB: describe fewer memories");

fn number(len: usize) -> [u8; 4] {
    u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes()
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&number(bytes.len()));
    out.extend_from_slice(bytes);
}

fn take_number(rest: &mut &[u8]) -> Result<usize, Error> {
    let (number, after) = rest.split_first_chunk::<4>().ok_or(MALFORMED)?;
    *rest = after;
    usize::try_from(u32::from_le_bytes(*number)).map_err(|_| MALFORMED)
}

fn take<'b>(rest: &mut &'b [u8]) -> Result<&'b [u8], Error> {
    let len = take_number(rest)?;
    let (bytes, after) = rest.split_at_checked(len).ok_or(MALFORMED)?;
    *rest = after;
    Ok(bytes)
}

fn take_name(rest: &mut &[u8]) -> Result<String, Error> {
    String::from_utf8(take(rest)?.to_vec()).map_err(|_| MALFORMED)
}

fn rest_len(head: [u8; HEAD]) -> Result<usize, Error> {
    let mut len = head.strip_prefix(&VERSION).ok_or(MALFORMED)?;
    let len = take_number(&mut len)?;
    if len > MAX_LEN - HEAD { Err(TOO_LONG) } else { Ok(len) }
}

fn rest_of(deadline: Instant) -> Result<Duration, Error> {
    let rest = deadline.saturating_duration_since(Instant::now());
    if rest.is_zero() { Err(TIMED_OUT) } else { Ok(rest) }
}

fn failed(call: &'static str, error: &io::Error) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => TIMED_OUT,
        ErrorKind::UnexpectedEof => Error::Invalid("the connection ended within metadata: fetch again"),
        _ => system(call, error),
    }
}

/// Sends metadata to the next peer that [fetches](fetch) it, which is not authenticated. Makes the
/// listener non-blocking.
///
/// # Errors
/// [`CqError::TimedOut`], [`Error::System`]. The next peer can be served.
pub fn serve(listener: &TcpListener, metadata: &Metadata, deadline: Instant) -> Result<SocketAddr, Error> {
    let bytes = metadata.to_bytes()?;
    listener.set_nonblocking(true).map_err(|error| system("fcntl", &error))?;
    let (mut stream, peer) = loop {
        match listener.accept() {
            Ok(accepted) => break accepted,
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(PAUSE.min(rest_of(deadline)?)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(system("accept", &error)),
        }
    };
    stream.set_nonblocking(false).map_err(|error| system("fcntl", &error))?;
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        stream.set_write_timeout(Some(rest_of(deadline)?)).map_err(|error| system("setsockopt", &error))?;
        match stream.write(rest) {
            Ok(0) => return Err(failed("write", &ErrorKind::UnexpectedEof.into())),
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(failed("write", &error)),
        }
    }
    Ok(peer)
}

/// Fetches metadata from a peer that [serves](serve) it, once it listens.
///
/// # Errors
/// [`CqError::TimedOut`], [`Error::Invalid`] for other bytes or too few, [`Error::System`].
pub fn fetch(peer: impl ToSocketAddrs, deadline: Instant) -> Result<Metadata, Error> {
    let addresses: Vec<_> = peer.to_socket_addrs().map_err(|error| system("getaddrinfo", &error))?.collect();
    let mut stream = connect(&addresses, deadline)?;
    let mut bytes = vec![0; HEAD];
    read(&mut stream, &mut bytes, deadline)?;
    let len = rest_len(*bytes.first_chunk::<HEAD>().ok_or(MALFORMED)?)?;
    // By the bytes that arrive.
    while bytes.len() < HEAD + len {
        let at = bytes.len();
        bytes.resize(at + (HEAD + len - at).min(1 << 16), 0);
        read(&mut stream, &mut bytes[at..], deadline)?;
    }
    Metadata::from_bytes(&bytes)
}

fn connect(addresses: &[SocketAddr], deadline: Instant) -> Result<TcpStream, Error> {
    loop {
        for address in addresses {
            match TcpStream::connect_timeout(address, rest_of(deadline)?) {
                Ok(stream) => return Ok(stream),
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(failed("connect", &error)),
            }
        }
        std::thread::sleep(PAUSE.min(rest_of(deadline)?));
    }
}

fn read(stream: &mut TcpStream, mut place: &mut [u8], deadline: Instant) -> Result<(), Error> {
    while !place.is_empty() {
        stream.set_read_timeout(Some(rest_of(deadline)?)).map_err(|error| system("setsockopt", &error))?;
        match stream.read(place) {
            Ok(0) => return Err(failed("read", &ErrorKind::UnexpectedEof.into())),
            Ok(count) => place = &mut place[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(failed("read", &error)),
        }
    }
    Ok(())
}
