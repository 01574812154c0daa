//! Addresses in several written forms, and their meaning.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use loom_core::vocabulary::{AddressFormat, EndpointAddr};

/// An address of small numbers, so that addresses collide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// IPv4 socket: plain, or in one of the formats for sockets with bytes in the padding.
    V4 { ip: u8, port: u8, form: u8 },
    /// IPv6 socket, or an IPv4 socket mapped to IPv6.
    V6 { ip: u8, port: u8, flow: bool, scope: bool, mapped: bool, form: u8 },
    /// Bytes in some format.
    Raw { format: u8, len: u16, last: u8 },
}

/// Lowest port and addresses.
const PORT: u16 = 7470;
const V4: u32 = 0x0a00_00fc;
const V6: u128 = 0xfe80_0000_0000_0000_0000_0000_0000_fffc;
const MAPPED: u128 = 0xffff << 32 | V4 as u128;

/// Meaning of an address, independent of its written form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Socket(SocketAddr),
    Bytes(u32, Vec<u8>),
}

const FORMATS: [AddressFormat; 3] = [AddressFormat::SOCKADDR, AddressFormat::SOCKADDR_IP, AddressFormat::UNSPEC];

impl Address {
    pub(super) fn socket(self) -> Option<SocketAddr> {
        match self {
            Address::V4 { ip, port, .. } => {
                let ip = Ipv4Addr::from_bits(V4 + u32::from(ip));
                Some(SocketAddrV4::new(ip, if port == u8::MAX { 0 } else { PORT + u16::from(port) }).into())
            }
            Address::V6 { ip, port, flow, scope, mapped, .. } => {
                let ip = Ipv6Addr::from_bits(if mapped { MAPPED } else { V6 } + u128::from(ip));
                Some(SocketAddrV6::new(ip, PORT + u16::from(port), flow.into(), scope.into()).into())
            }
            Address::Raw { .. } => None,
        }
    }

    /// Returns the socket if the form is plain.
    pub(super) fn plain(self) -> Option<SocketAddr> {
        match self {
            Address::V4 { form: 0, .. } | Address::V6 { form: 0, .. } => self.socket(),
            _ => None,
        }
    }

    /// Returns the address in its written form.
    pub(super) fn written(self) -> EndpointAddr {
        let (form, padded) = match self {
            Address::V4 { form, .. } => (form % 5, form >= 128),
            Address::V6 { form, .. } => (form % 5, false),
            Address::Raw { format, len, last } => {
                let mut bytes = vec![b'x'; usize::from(len % 513)];
                if let Some(end) = bytes.last_mut() {
                    *end = last;
                }
                let format = AddressFormat::from_raw(u32::from(format % 14));
                return EndpointAddr::new(format, &bytes).expect("not too long");
            }
        };
        let written = EndpointAddr::from(self.socket().expect("seen above"));
        let mut bytes = written.bytes().to_vec();
        if padded {
            bytes[15] = 1;
        }
        let format = if form < 2 { written.format() } else { FORMATS[usize::from(form) - 2] };
        EndpointAddr::new(format, &bytes).expect("not too long")
    }

    /// Returns the meaning in a table of this format.
    pub(super) fn meaning(self, table: AddressFormat) -> Meaning {
        if let Some(socket) = self.plain() {
            return Meaning::Socket(socket);
        }
        let address = self.written();
        let format = if address.format() == AddressFormat::UNSPEC { table } else { address.format() };
        let given = EndpointAddr::new(format, address.bytes()).expect("as long as before");
        match SocketAddr::try_from(&given) {
            Ok(socket) => Meaning::Socket(socket),
            Err(_) => Meaning::Bytes(format.as_raw(), address.bytes().to_vec()),
        }
    }
}

impl Meaning {
    /// Number of bytes besides the place: cells of 28 bytes, with six bytes in front of an address.
    pub(super) fn stored(&self) -> usize {
        match self {
            Meaning::Socket(SocketAddr::V4(v4)) if v4.port() != 0 => 0,
            Meaning::Socket(_) => 32,
            Meaning::Bytes(_, bytes) => (bytes.len() + 6).div_ceil(28) * 32,
        }
    }

    pub(super) fn address(&self, table: AddressFormat) -> EndpointAddr {
        match self {
            Meaning::Socket(socket) => {
                let address = EndpointAddr::from(*socket);
                let is_general = [AddressFormat::SOCKADDR, AddressFormat::SOCKADDR_IP].contains(&table);
                let format = if is_general { table } else { address.format() };
                EndpointAddr::new(format, address.bytes()).expect("short")
            }
            Meaning::Bytes(format, bytes) => {
                EndpointAddr::new(AddressFormat::from_raw(*format), bytes).expect("as long as before")
            }
        }
    }
}
