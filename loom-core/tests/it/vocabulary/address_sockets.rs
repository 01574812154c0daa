//! Socket addresses and their bytes.

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};

use loom_core::vocabulary::{AddressError, AddressFormat, EndpointAddr};

fn socket(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn ipv4_is_laid_out_as_sockaddr_in() {
    let addr = EndpointAddr::from(socket("127.0.0.1:4242"));
    assert_eq!(addr.format(), AddressFormat::SOCKADDR_IN);
    let mut expected = [0; 16];
    expected[..2].copy_from_slice(&2_u16.to_ne_bytes());
    expected[2..8].copy_from_slice(&[0x10, 0x92, 127, 0, 0, 1]);
    assert_eq!(addr.bytes(), expected);
    assert_eq!(SocketAddr::try_from(&addr), Ok(socket("127.0.0.1:4242")));
}

#[test]
fn ipv6_is_laid_out_as_sockaddr_in6() {
    let original = SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 4242, 7, 3));
    let addr = EndpointAddr::from(original);
    assert_eq!(addr.format(), AddressFormat::SOCKADDR_IN6);
    let bytes = addr.bytes();
    assert_eq!(bytes.len(), 28);
    assert_eq!(bytes[..2], 10_u16.to_ne_bytes());
    assert_eq!(bytes[2..4], [0x10, 0x92]);
    assert_eq!(bytes[4..8], 7_u32.to_ne_bytes());
    assert_eq!(bytes[8..24], Ipv6Addr::LOCALHOST.octets());
    assert_eq!(bytes[24..], 3_u32.to_ne_bytes());
    assert_eq!(SocketAddr::try_from(&addr), Ok(original));
}

#[test]
fn the_family_decides_in_a_general_format() {
    for format in [AddressFormat::SOCKADDR, AddressFormat::SOCKADDR_IP] {
        for text in ["10.0.0.1:1", "[fe80::1]:65535"] {
            let specific = EndpointAddr::from(socket(text));
            let general = EndpointAddr::new(format, specific.bytes()).unwrap();
            assert_eq!(SocketAddr::try_from(&general), Ok(socket(text)));
        }
    }
}

#[test]
fn short_odd_and_foreign_bytes_are_errors() {
    let v4 = EndpointAddr::from(socket("10.0.0.1:1"));
    let v6 = EndpointAddr::from(socket("[::1]:1"));
    let formats = [AddressFormat::SOCKADDR, AddressFormat::SOCKADDR_IN, AddressFormat::SOCKADDR_IN6];
    for format in formats {
        for len in 0..=EndpointAddr::MAX_LEN {
            for family in [v4.bytes(), v6.bytes()] {
                let mut bytes = [0; EndpointAddr::MAX_LEN];
                let used = len.min(family.len());
                bytes[..used].copy_from_slice(&family[..used]);
                if len == family.len() {
                    continue;
                }
                let addr = EndpointAddr::new(format, &bytes[..len]).unwrap();
                assert_eq!(SocketAddr::try_from(&addr), Err(AddressError::NotASocket));
            }
        }
    }
    for (format, bytes) in [
        (AddressFormat::SOCKADDR_IN6, v4.bytes()),
        (AddressFormat::SOCKADDR_IN, v6.bytes()),
        (AddressFormat::ADDR_EFA, v4.bytes()),
        (AddressFormat::UNSPEC, v6.bytes()),
        (AddressFormat::SOCKADDR, &[0xff; 16][..]),
    ] {
        let addr = EndpointAddr::new(format, bytes).unwrap();
        assert_eq!(SocketAddr::try_from(&addr), Err(AddressError::NotASocket));
    }
}
