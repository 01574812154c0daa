//! Engine of a domain: sockets, connections and operations. One thread at a time uses it, by
//! `&mut`, and it does not call code of the user.

mod claims;
mod connected;
mod connection;
mod endpoints;
mod event_queues;
mod handshake;
mod incoming;
mod list;
mod listeners;
mod loss;
mod matching;
mod multi_receive;
mod open;
mod outgoing;
mod post;
mod progress;
mod queues;
mod regions;
mod rendezvous;
mod send;
mod shared;
mod socket;

use core::net::SocketAddr;

use loom_core::storage::Array;
use loom_core::vocabulary::Errno;
use rustix::fd::OwnedFd;
use rustix::io;

use self::connection::Connection;
use self::endpoints::Endpoint;
use self::event_queues::{EventQueue, QueuedEvent};
use self::list::Free;
use self::matching::{Piece, Receive, Unexpected};
use self::queues::{Counter, Queue};
use self::regions::Region;
use self::send::Send;
use self::socket::errno;
use crate::attr::TcpAttr;
use crate::info::InterfaceName;
use crate::interface::{in_scope, scope_of};
use crate::memory::{Block, Process, Ranges};
use crate::tls::{Records, Tls};

pub(crate) use self::connected::PendingRequest;
pub(crate) use self::endpoints::Bound;
pub(crate) use self::event_queues::EqEvent;
pub(crate) use self::loss::Loss;
pub(crate) use self::matching::MessageKind;
pub(crate) use self::open::layout;
pub(crate) use self::send::{Post, Verb};

pub(crate) type Table<V> = Array<V, Block>;

/// Value of an index that refers to no element.
pub(crate) const NIL: u32 = u32::MAX;

/// Errors of tables without a free place. The kernel does not return them for sockets.
#[derive(Debug)]
pub(crate) struct Full(());

impl Full {
    pub(crate) const ENDPOINTS: Errno = errno(io::Errno::USERS);
    pub(crate) const VECTORS: Errno = errno(io::Errno::NOSR);
    pub(crate) const QUEUES: Errno = errno(io::Errno::MLINK);
    pub(crate) const COUNTERS: Errno = errno(io::Errno::NOANO);
    pub(crate) const CONNECTIONS: Errno = errno(io::Errno::XFULL);
    pub(crate) const EVENT_QUEUES: Errno = errno(io::Errno::CHRNG);

    /// Attribute to raise.
    pub(crate) fn attribute(errno: Errno) -> Option<&'static str> {
        Some(match errno {
            Self::ENDPOINTS => "TcpAttr::endpoints",
            Self::VECTORS => "TcpAttr::vectors",
            Self::QUEUES => "TcpAttr::queues",
            Self::COUNTERS => "TcpAttr::counters",
            Self::CONNECTIONS => "TcpAttr::connections",
            Self::EVENT_QUEUES => "TcpAttr::event_queues",
            Errno::ENOMR => "TcpAttr::regions",
            Errno::ENOSPC => "TcpAttr::peers",
            _ => return None,
        })
    }
}

/// Unit of receive buffers.
type Page = [u8; TcpAttr::MIN_BUFFER as usize];

/// Bytes of an injected operation.
type Injected = [u8; TcpAttr::INJECT_SIZE];

/// Frames of one system call.
const BATCH: usize = 64;

/// Bytes of headers and short payloads of one system call.
const OUTBOX: usize = 16 << 10;

/// State of a domain.
pub(crate) struct Engine {
    pub(crate) attr: TcpAttr,
    pub(crate) process: Process,
    pid: u32,
    /// Address of the info, with the family and scope of all peers.
    pub(crate) address: SocketAddr,
    pub(crate) interface: InterfaceName,
    epoll: OwnedFd,
    /// Number of listeners that are not watched.
    unwatched: u32,
    /// Number of connections so far.
    opened: u64,
    /// Number of requests for announced messages so far.
    requested: u64,
    /// Ticks while connections are being opened, or listeners are not watched.
    timer: OwnedFd,
    is_ticking: bool,
    /// Number of connections being opened.
    opening: u32,
    /// Number of connections that are not read because of a frame without room.
    paused: u32,
    /// Room has appeared since the paused connections were tried.
    try_paused: bool,
    /// Queue that is being polled.
    polled: u16,
    /// Connection that had the last bytes, or `NIL`.
    last: u32,
    /// Polls since frames were sent, while there are frames.
    delays: u32,
    /// Polls of that connection alone since the last poll of all.
    polls_of_last: u32,
    last_had_bytes: bool,
    /// Polls of that connection with bytes since it was watched.
    reads_of_last: u32,
    /// Number of the current poll.
    turn: u64,
    /// First connection with frames to send.
    dirty: u32,
    /// First connection for which the next poll looks for room.
    retried: u32,
    queues: Table<Queue>,
    counters: Table<Counter>,
    regions: Table<Option<Region>>,
    open_regions: u16,
    vectors: Table<bool>,
    /// Addresses by vector.
    peers: Table<Option<SocketAddr>>,
    endpoints: Table<Endpoint>,
    /// Connection of each endpoint to each peer of its vector, or `NIL`.
    routes: Table<u32>,
    connections: Table<Connection>,
    free_connections: Free,
    /// Open connections with shared memory: the first `shared_count`.
    shared: Table<u32>,
    shared_count: usize,
    /// Polls since the last look at the kernel's events.
    looks: u32,
    /// Coarse time of the last poll, in nanoseconds of its second.
    looked_at: i64,
    /// Receive buffers of the connections.
    buffers: Table<Page>,
    sends: Table<Send>,
    injected: Table<Injected>,
    receives: Table<Receive>,
    unexpected: Table<Unexpected>,
    pieces: Table<Piece>,
    free_pieces: Free,
    /// Headers and short payloads of one system call.
    outbox: Table<u8>,
    ranges: Ranges,
    pub(crate) tls: Option<Tls>,
    /// Encrypted bytes of the connections, with `tls`.
    records: Table<Records>,
    event_queues: Table<EventQueue>,
    events: Table<Option<QueuedEvent>>,
}

impl Engine {
    /// Address of a peer as sockets return it.
    fn peer(&self, address: SocketAddr) -> Result<SocketAddr, Errno> {
        let is_of_family = address.is_ipv4() == self.address.is_ipv4();
        if is_of_family { Ok(in_scope(address, scope_of(self.address))) } else { Err(Errno::EINVAL) }
    }
}

impl core::fmt::Debug for Engine {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Engine").field("attr", &self.attr).finish_non_exhaustive()
    }
}
