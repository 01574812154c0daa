//! Bytes and text from outside: addresses in all forms, peers' descriptions of regions, ranges,
//! data of connections, packets of tagged messages, and messages between processes of programs.
//! loom reads each as [naive] readers and the standard library do, or refuses it. It reads its own
//! output back.
//!
//! (`src/ofi` has tests of its own for the entries that libfabric writes into queues.)

/// Parsers of programs: the command, and the peer of libfabric's `fi_pingpong`.
#[path = "../../../cli/src/play/frame.rs"]
mod frame;
#[path = "../../../tests/programs/fi_pingpong/items.rs"]
mod items;
mod naive;
mod packets;
mod processes;
mod soft;
mod vector;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use arbitrary::{Arbitrary, Unstructured};
use loom_core::mr::RemoteRegion;
use loom_core::vocabulary::{
    Access, AddressError, AddressFormat, CmData, EndpointAddr, MemoryKey, RemoteAddr, Version,
};

#[derive(Arbitrary, Debug)]
enum Step<'a> {
    Text(&'a str),
    /// Text that resembles an address.
    Address {
        scheme: u8,
        body: Body<'a>,
    },
    Wire(&'a [u8]),
    /// Address of any bytes.
    Bytes {
        format: u8,
        bytes: &'a [u8],
    },
    Socket(Socket),
    Soft {
        other_network: bool,
        place: u16,
        generation: u32,
        garbled: Option<(u8, u8)>,
        by_name: bool,
    },
    Region {
        base: u64,
        len: u64,
        key: u64,
        offset: u64,
        part: usize,
    },
    RegionBytes([u8; RemoteRegion::WIRE_LEN]),
    Range {
        first: Socket,
        nodes: Count,
        services: u16,
        format: u8,
    },
    ConnectionData(&'a [u8]),
    Frames {
        greeting: Option<[u8; 8]>,
        frames: Vec<processes::Frame<'a>>,
        cut: u8,
    },
    Name(&'a [u8]),
    Settle {
        bytes: &'a [u8],
        is_client: bool,
        received: u64,
    },
    Version(u32),
    /// Packet of tagged messages, perhaps with a changed byte.
    Packet {
        packet: packets::Packet<'a>,
        garbled: Option<(u8, u8)>,
    },
    PacketBytes(&'a [u8]),
}

#[derive(Arbitrary, Debug)]
enum Body<'a> {
    Socket(Socket),
    Hexadecimal { bytes: &'a [u8], upper: bool, odd: bool },
    Text(&'a str),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Socket {
    V4 { ip: u32, port: u16 },
    V6 { ip: u128, port: u16, scope: u32, flow: u32 },
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Count {
    Few(u8),
    Any(u32),
}

impl From<Socket> for SocketAddr {
    fn from(socket: Socket) -> Self {
        match socket {
            Socket::V4 { ip, port } => SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::from(ip), port)),
            Socket::V6 { ip, port, scope, flow } => {
                SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from(ip), port, flow, scope))
            }
        }
    }
}

/// Runs every reader of input from outside.
pub fn bootstrap_wire(data: &[u8]) -> usize {
    const MOST: usize = 24;
    let mut bytes = Unstructured::new(data);
    let mut played = 0;
    while played < MOST && !bytes.is_empty() {
        let Ok(step) = bytes.arbitrary::<Step<'_>>() else { break };
        play(step);
        played += 1;
    }
    played
}

fn play(step: Step<'_>) {
    match step {
        Step::Text(text) => read_text(text),
        Step::Address { scheme, body } => {
            let scheme = naive::SCHEMES[usize::from(scheme) % naive::SCHEMES.len()].1;
            let body = match body {
                Body::Socket(socket) => SocketAddr::from(socket).to_string(),
                Body::Hexadecimal { bytes, upper, odd } => {
                    let digit = |byte: &u8| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") };
                    let mut digits: String = bytes.iter().map(digit).collect();
                    digits.truncate(digits.len() - usize::from(odd && !digits.is_empty()));
                    digits
                }
                Body::Text(text) => text.to_owned(),
            };
            read_text(&format!("{scheme}://{body}"));
        }
        Step::Wire(bytes) => {
            let decoded = EndpointAddr::decode(bytes);
            assert_eq!(
                decoded.as_ref().map(|(addr, len)| (naive::parts(addr), *len)),
                naive::decode(bytes).as_ref().map(|(parts, len)| (parts.clone(), *len))
            );
            if let Ok((addr, _)) = decoded {
                comes_back(&addr);
            }
        }
        Step::Bytes { format, bytes } => match EndpointAddr::new(AddressFormat::from_raw(format.into()), bytes) {
            Ok(addr) => {
                assert_eq!(naive::parts(&addr), (format.into(), bytes.to_vec()));
                comes_back(&addr);
            }
            Err(error) => assert!(error == AddressError::TooLong && bytes.len() > EndpointAddr::MAX_LEN),
        },
        Step::Socket(socket) => {
            let socket = SocketAddr::from(socket);
            let addr = EndpointAddr::from(socket);
            assert_eq!(naive::parts(&addr), naive::socket(socket));
            assert_eq!(SocketAddr::try_from(&addr), Ok(socket));
            read_text(&socket.to_string());
            comes_back(&addr);
        }
        Step::Soft { other_network, place, generation, garbled, by_name } => {
            soft::address(other_network, place, generation, garbled, by_name);
        }
        Step::Region { base, len, key, offset, part } => {
            region(
                RemoteRegion { base: RemoteAddr(base), len, key: MemoryKey(key), access: Access::REMOTE_READ },
                offset,
                part,
            );
        }
        Step::RegionBytes(bytes) => {
            let told = RemoteRegion::from_bytes(&bytes);
            let word = |at: usize| (0..8).rev().fold(0, |word, byte| word << 8 | u64::from(bytes[8 * at + byte]));
            assert_eq!((told.base.0, told.len, told.key.0, told.access.bits()), (word(0), word(1), word(2), word(3)));
            region(told, word(1) / 2, 1);
        }
        Step::Range { first, nodes, services, format } => {
            let nodes = match nodes {
                Count::Few(nodes) => u32::from(nodes % 8),
                Count::Any(nodes) => nodes,
            };
            vector::range(first.into(), nodes, services, format);
        }
        Step::ConnectionData(bytes) => match CmData::new(bytes) {
            Some(data) => assert_eq!((&*data, data), (bytes, CmData::new(&data).expect("it was as long"))),
            None => assert!(bytes.len() > CmData::MAX_LEN),
        },
        Step::Frames { greeting, frames, cut } => processes::frames(greeting, &frames, cut),
        Step::Name(bytes) => processes::name(bytes),
        Step::Settle { bytes, is_client, received } => processes::settle(bytes, is_client, received),
        Step::Version(number) => {
            let version = Version::from_raw(number);
            assert_eq!(
                (version.as_raw(), u32::from(version.major), u32::from(version.minor)),
                (number, number >> 16, number & 0xffff)
            );
        }
        Step::Packet { packet, garbled } => packets::written(packet, garbled),
        Step::PacketBytes(bytes) => packets::read(bytes),
    }
}

fn read_text(text: &str) {
    let read = text.parse::<EndpointAddr>();
    assert_eq!(read.as_ref().map(naive::parts).map_err(|error| *error), naive::read(text), "{text:?}");
    if let Ok(addr) = read {
        comes_back(&addr);
    }
}

/// Checks that an address is written in its documented form, and read back.
fn comes_back(addr: &EndpointAddr) {
    let text = addr.to_string();
    assert_eq!(text, naive::print(addr));
    assert_eq!(text.parse().as_ref(), Ok(addr), "{text}");
    let mut bytes = [0; EndpointAddr::MAX_LEN + 8];
    let len = addr.encode(&mut bytes).expect("there is room for the longest");
    assert_eq!(EndpointAddr::decode(&bytes[..len]), Ok((addr.clone(), len)));
    for short in [0, 4, 7, len - 1] {
        assert_eq!(EndpointAddr::decode(&bytes[..short]), Err(AddressError::Truncated));
        assert_eq!(addr.encode(&mut [0; EndpointAddr::MAX_LEN + 8][..short]), Err(AddressError::BufferTooSmall));
    }
    assert_eq!(SocketAddr::try_from(addr).ok(), naive::as_socket(addr));
}

/// Checks that a part lies within its region, with a numeric address.
fn region(region: RemoteRegion, offset: u64, len: usize) {
    assert_eq!(RemoteRegion::from_bytes(&region.to_bytes()), region);
    let fits = u128::from(offset) + len as u128 <= u128::from(region.len);
    let addr = u64::try_from(u128::from(region.base.0) + u128::from(offset)).ok().filter(|_| fits);
    let part = addr.map(|addr| RemoteRegion {
        base: RemoteAddr(addr),
        len: len as u64,
        key: region.key,
        access: region.access,
    });
    assert_eq!(region.part(offset, len), part);
}
