use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use super::symmetric::RangePeer;
use crate::vocabulary::{AddressFormat, EndpointAddr};

/// Address passed to the table: a socket address, or one of any format.
///
/// ```
/// use std::net::SocketAddr;
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_core::{EndpointAddr, engine::address_table::{AddressTableAttr, AddressTableMemory}};
///
/// let mut memory = AddressTableMemory::new_in(AddressTableAttr::new(4), Global)?;
/// let mut table = memory.table();
/// let socket: SocketAddr = "10.0.0.1:7471".parse()?;
/// let peer = table.insert(socket)?.peer();
/// // The same address as a provider gives it.
/// let address = EndpointAddr::from(socket);
/// assert_eq!(table.find(&address), Some(peer));
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum AddressRef<'a> {
    /// Socket address.
    Socket(SocketAddr),
    /// Address of any format, including those of sockets.
    Address(&'a EndpointAddr),
    /// Member of a range, which can share the range's record.
    Member(&'a RangePeer),
}

impl From<SocketAddr> for AddressRef<'_> {
    #[inline]
    fn from(socket: SocketAddr) -> Self {
        AddressRef::Socket(socket)
    }
}

impl<'a> From<&'a EndpointAddr> for AddressRef<'a> {
    #[inline]
    fn from(address: &'a EndpointAddr) -> Self {
        AddressRef::Address(address)
    }
}

impl<'a> From<&'a RangePeer> for AddressRef<'a> {
    fn from(member: &'a RangePeer) -> Self {
        AddressRef::Member(member)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key<'a> {
    /// Address and port, without the padding.
    V4 { ip: u32, port: u16 },
    /// Address, port, flow information and scope.
    V6 { ip: u128, port: u16, flow: u32, scope: u32 },
    /// Bytes and format of any other address.
    Raw { format: AddressFormat, bytes: &'a [u8] },
}

/// Kind of a key, in the top bits of its first word.
const V4: u64 = 1 << 56;
const V6: u64 = 2 << 56;
const RAW: u64 = 3 << 56;

impl<'a> Key<'a> {
    #[inline]
    pub(super) fn of(address: AddressRef<'a>, table: AddressFormat) -> Self {
        match address {
            AddressRef::Socket(socket) => socket.into(),
            AddressRef::Address(address) => Self::of_address(address, table),
            AddressRef::Member(member) => member.socket().into(),
        }
    }

    fn of_address(address: &'a EndpointAddr, table: AddressFormat) -> Self {
        let format = match address.format() {
            AddressFormat::UNSPEC => table,
            format => format,
        };
        match address.socket_as(format) {
            Some(socket) => socket.into(),
            None => Key::Raw { format, bytes: address.bytes() },
        }
    }

    #[inline]
    pub(super) fn socket(&self) -> Option<SocketAddr> {
        match *self {
            Key::V4 { ip, port } => Some(SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::from_bits(ip), port))),
            Key::V6 { ip, port, flow, scope } => {
                Some(SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from_bits(ip), port, flow, scope)))
            }
            Key::Raw { .. } => None,
        }
    }

    /// Number of words that distinguish the key from every other.
    #[inline]
    pub(super) fn words(&self) -> usize {
        match self {
            Key::V4 { .. } => 1,
            Key::V6 { .. } => 4,
            Key::Raw { bytes, .. } => 1 + bytes.len().div_ceil(8),
        }
    }

    /// Returns one of these words, or 0 behind the last one.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of an address")]
    pub(super) fn word(&self, at: usize) -> u64 {
        match (*self, at) {
            (Key::V4 { ip, port }, 0) => V4 | u64::from(ip) << 16 | u64::from(port),
            (Key::V6 { port, .. }, 0) => V6 | u64::from(port),
            (Key::V6 { ip, .. }, 1) => (ip >> 64) as u64,
            (Key::V6 { ip, .. }, 2) => ip as u64,
            (Key::V6 { flow, scope, .. }, 3) => u64::from(flow) << 32 | u64::from(scope),
            (Key::Raw { format, bytes }, 0) => RAW | (bytes.len() as u64) << 32 | u64::from(format.as_raw()),
            (Key::Raw { bytes, .. }, at) => {
                let rest = bytes.get((at - 1) * 8..).unwrap_or_default();
                let word = rest.first_chunk().copied().unwrap_or_else(|| {
                    let mut word = [0; 8];
                    for (to, from) in word.iter_mut().zip(rest) {
                        *to = *from;
                    }
                    word
                });
                u64::from_le_bytes(word)
            }
            _ => 0,
        }
    }

    #[cold]
    pub(super) fn bit(&self, number: usize) -> bool {
        self.word(number / 64) >> (number % 64) & 1 == 1
    }
}

impl From<SocketAddr> for Key<'_> {
    #[inline]
    fn from(socket: SocketAddr) -> Self {
        let port = socket.port();
        match socket {
            SocketAddr::V4(v4) => Key::V4 { ip: v4.ip().to_bits(), port },
            SocketAddr::V6(v6) => Key::V6 { ip: v6.ip().to_bits(), port, flow: v6.flowinfo(), scope: v6.scope_id() },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn keys_with_the_same_words_are_the_same() {
        let bytes: [[u8; 24]; 25] = core::array::from_fn(|changed| core::array::from_fn(|at| u8::from(at == changed)));
        let raw = |format| move |bytes| Key::Raw { format: AddressFormat::from_raw(format), bytes };
        let mut keys: Vec<Key<'_>> = bytes.iter().map(|bytes| &bytes[..]).map(raw(0)).collect();
        keys.extend((0..24).map(|len| &bytes[24][..len]).map(raw(0)));
        keys.push(raw(1)(&bytes[24][..]));
        for (ip, port) in [(0, 0), (0, 1), (1, 0), (1, 1), (1 << 31, 1 << 15)] {
            keys.push(Key::V4 { ip, port });
        }
        keys.push(Key::V6 { ip: 0, port: 0, flow: 0, scope: 0 });
        keys.push(Key::V6 { ip: 1, port: 0, flow: 0, scope: 0 });
        keys.push(Key::V6 { ip: 1 << 64, port: 0, flow: 0, scope: 0 });
        keys.push(Key::V6 { ip: 0, port: 1, flow: 0, scope: 0 });
        keys.push(Key::V6 { ip: 0, port: 0, flow: 1, scope: 0 });
        keys.push(Key::V6 { ip: 0, port: 0, flow: 0, scope: 1 });
        let mut known = BTreeMap::new();
        for key in keys {
            let words: Vec<u64> = (0..key.words()).map(|at| key.word(at)).collect();
            assert_eq!(known.insert(words, key), None);
        }
    }
}
