//! [`TcpAttr`]: sizes of a domain, and the networks that may connect.

use core::net::IpAddr;

use loom_core::error::OpenError;

use crate::memory::Pipe;

/// Addresses with the same first bits (CIDR).
///
/// ```
/// use loom_tcp::Subnet;
///
/// let rack = Subnet { address: "10.1.2.0".parse()?, prefix: 24 };
/// assert!(rack.contains("10.1.2.77".parse()?) && !rack.contains("10.1.3.77".parse()?));
/// # Ok::<_, core::net::AddrParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// Address in the network.
    pub address: IpAddr,
    /// Number of bits that all addresses share: at most 32, or 128 for IPv6.
    pub prefix: u8,
}

/// Sizes of a domain and of its objects. A domain takes all memory from its allocator when it
/// opens.
///
/// ```
/// use loom_core::{Domain, Hints, allocator_api2::alloc::Global};
/// use loom_tcp::{TcpAttr, query};
///
/// let size = |attr| Ok::<_, loom_core::Error>(Domain::layout::<Global>(&query(&Hints::default(), attr)?)?.size());
/// // One endpoint that talks to a few peers.
/// let small = TcpAttr { endpoints: 1, connections: 8, peers: 8, unexpected_size: 1 << 16, ..TcpAttr::DEFAULT };
/// assert!(size(small)? < size(TcpAttr::DEFAULT)? / 4);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpAttr {
    /// Maximum number of open endpoints, listeners and shared receive contexts.
    pub endpoints: u16,
    /// Maximum number of connections of all endpoints, including those that peers are opening.
    pub connections: u16,
    /// Maximum number of open completion queues.
    pub queues: u16,
    /// Maximum number of open event queues.
    pub event_queues: u16,
    /// Maximum number of open counters.
    pub counters: u16,
    /// Maximum number of open memory regions.
    pub regions: u16,
    /// Maximum number of open address vectors.
    pub vectors: u16,
    /// Maximum number of addresses in a vector.
    pub peers: u32,
    /// Maximum number of sends, reads and writes of an endpoint in flight.
    pub tx_depth: u32,
    /// Maximum number of receives posted on an endpoint, with tags and without tags each.
    pub rx_depth: u32,
    /// Maximum number of unexpected messages of an endpoint, with tags and without tags each.
    pub unexpected: u32,
    /// Memory for the bytes of unexpected messages of all endpoints, in bytes. One connection takes
    /// at most a quarter. A connection with a message that does not fit is read on when a receive
    /// accepts the message, or when there is room.
    pub unexpected_size: u32,
    /// Length in bytes up to which tagged messages are sent at once. The bytes of longer ones are
    /// sent when a receive of the peer accepts them, if the peer has this protocol (rendezvous).
    /// Later messages then arrive earlier than those bytes: both sides need room for them. The
    /// maximum, the default, sends all at once, as libfabric does by default.
    pub rendezvous_size: u32,
    /// Receive buffer of a connection in bytes, a multiple of [`MIN_BUFFER`](Self::MIN_BUFFER).
    pub receive_buffer: u32,
    /// Length in bytes of a ring for each direction, in memory that two endpoints of the same host
    /// and user share: a power of two from 4096 to 2^30, the same on both sides. With 0, or if the
    /// side that connects has less, bytes go through the kernel. The kernel provides the memory
    /// when a connection opens.
    pub shared_memory: u32,
    /// Time in milliseconds to open a connection, in either direction.
    pub connect_timeout: u32,
    /// Networks of the peers that may connect, to all endpoints and listeners of the domain. The
    /// connections of others are closed before a byte is read. Empty for all peers.
    pub allowed: &'static [Subnet],
}

impl Subnet {
    /// Returns `true` if the address is one of the network.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let differ = match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => (own.to_bits() ^ other.to_bits()).leading_zeros(),
            (IpAddr::V6(own), IpAddr::V6(other)) => (own.to_bits() ^ other.to_bits()).leading_zeros(),
            _ => return false,
        };
        differ >= self.prefix.into()
    }

    const fn is_valid(&self) -> bool {
        self.prefix <= if self.address.is_ipv4() { 32 } else { 128 }
    }
}

impl TcpAttr {
    /// Sizes for 8 endpoints and 64 connections.
    pub const DEFAULT: TcpAttr = TcpAttr {
        endpoints: 8,
        connections: 64,
        queues: 16,
        event_queues: 4,
        counters: 32,
        regions: 256,
        vectors: 4,
        peers: 256,
        tx_depth: 256,
        rx_depth: 512,
        unexpected: 512,
        unexpected_size: 4 << 20,
        rendezvous_size: u32::MAX,
        receive_buffer: 1 << 15,
        shared_memory: 0,
        connect_timeout: 10_000,
        allowed: &[],
    };

    /// Unit of [`receive_buffer`](Self::receive_buffer) in bytes.
    pub const MIN_BUFFER: u32 = 4096;

    /// Maximum number of bytes of an injected message or write.
    pub const INJECT_SIZE: usize = 128;

    /// Returns `true` if the peer may connect.
    pub(crate) fn allows(&self, peer: IpAddr) -> bool {
        self.allowed.is_empty() || self.allowed.iter().any(|subnet| subnet.contains(peer))
    }

    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let in_range = [
            ("TcpAttr::endpoints", self.endpoints != 0 && self.endpoints != u16::MAX),
            ("TcpAttr::connections", self.connections != 0 && self.connections != u16::MAX),
            ("TcpAttr::queues", self.queues != 0),
            ("TcpAttr::vectors", self.vectors != 0),
            ("TcpAttr::peers", self.peers != 0),
            ("TcpAttr::tx_depth", self.tx_depth != 0),
            ("TcpAttr::rx_depth", self.rx_depth != 0),
            ("TcpAttr::unexpected", self.unexpected != 0),
            (
                "TcpAttr::receive_buffer",
                self.receive_buffer != 0 && self.receive_buffer.is_multiple_of(Self::MIN_BUFFER),
            ),
            (
                "TcpAttr::shared_memory",
                self.shared_memory == 0
                    || self.shared_memory.is_power_of_two() && Pipe::CAPACITIES.contains(&self.shared_memory),
            ),
            ("TcpAttr::connect_timeout", self.connect_timeout != 0),
            ("TcpAttr::allowed", self.allowed.iter().all(Subnet::is_valid)),
        ];
        in_range.iter().find(|(_, good)| !good).map_or(Ok(()), |(field, _)| Err(OpenError::OutOfRange(field)))
    }
}

impl Default for TcpAttr {
    fn default() -> Self {
        Self::DEFAULT
    }
}
