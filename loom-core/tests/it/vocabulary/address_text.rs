//! Addresses as text.

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};

use loom_core::vocabulary::{AddressError, AddressFormat, EndpointAddr};

fn addr(format: AddressFormat, bytes: &[u8]) -> EndpointAddr {
    EndpointAddr::new(format, bytes).unwrap()
}

fn socket(text: &str) -> EndpointAddr {
    text.parse::<SocketAddr>().unwrap().into()
}

#[track_caller]
fn round_trip(addr: &EndpointAddr) -> String {
    let text = addr.to_string();
    assert_eq!(text.parse().as_ref(), Ok(addr), "{text}");
    text
}

#[test]
fn sockets() {
    for (plain, full) in [
        ("127.0.0.1:4242", "fi_sockaddr_in://127.0.0.1:4242"),
        ("[::1]:4242", "fi_sockaddr_in6://[::1]:4242"),
        ("[fe80::1%3]:1", "fi_sockaddr_in6://[fe80::1%3]:1"),
        ("[::ffff:10.0.0.1]:1", "fi_sockaddr_in6://[::ffff:10.0.0.1]:1"),
    ] {
        assert_eq!(round_trip(&socket(plain)), full);
        assert_eq!(plain.parse(), Ok(socket(plain)));
    }
    let general = addr(AddressFormat::SOCKADDR, socket("10.0.0.1:80").bytes());
    assert_eq!(round_trip(&general), "fi_sockaddr://10.0.0.1:80");
    let general = addr(AddressFormat::SOCKADDR_IP, socket("[::]:0").bytes());
    assert_eq!(round_trip(&general), "fi_sockaddr_ip://[::]:0");
}

#[test]
fn sockets_without_a_text_form_are_hexadecimal() {
    let flow = SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 1, 9, 0));
    assert!(round_trip(&flow.into()).starts_with("fi_sockaddr_in6://0a00"));
    let mut padded = socket("127.0.0.1:4242").bytes().to_vec();
    padded[15] = 1;
    let text = round_trip(&addr(AddressFormat::SOCKADDR_IN, &padded));
    assert_eq!(text, "fi_sockaddr_in://020010927f0000010000000000000001");
    assert_eq!(round_trip(&addr(AddressFormat::SOCKADDR_IN, &padded[..3])), "fi_sockaddr_in://020010");
    let family = addr(AddressFormat::SOCKADDR_IN6, socket("1.2.3.4:5").bytes());
    assert!(round_trip(&family).starts_with("fi_sockaddr_in6://0200"));
}

#[test]
fn strings() {
    let string = |bytes: &[u8]| round_trip(&addr(AddressFormat::ADDR_STR, bytes));
    assert_eq!(string(b"fi_shm://1234:0\0"), "fi_shm://1234:0");
    assert_eq!(string(b"://\0"), "://");
    assert_eq!(string(b"a://b"), "fi_addr_str://613a2f2f62");
    assert_eq!(string(b"a://\0\0"), "fi_addr_str://613a2f2f0000");
    assert_eq!(string(b"a\0://\0"), "fi_addr_str://61003a2f2f00");
    assert_eq!(string(b"\0"), "fi_addr_str://00");
    assert_eq!(string(b""), "fi_addr_str://");
    assert_eq!(string(b"name\0"), "fi_addr_str://6e616d6500");
    assert!(string(b"127.0.0.1:1\0").starts_with("fi_addr_str://3132"));
    assert!(string(b"fi_addr_efa://00\0").starts_with("fi_addr_str://6669"));
    assert!(string(b"fi_addr_new://00\0").starts_with("fi_addr_str://6669"));
    assert!(string(b"fi_sockaddr_in://1.2.3.4:5\0").starts_with("fi_addr_str://"));
    assert!(string(b"fi_format_7://\0").starts_with("fi_addr_str://"));
    assert!(string(b"fi_sockaddR_in://\0").starts_with("fi_addr_str://"));
    assert_eq!(string(b"a://\xff\0"), "fi_addr_str://613a2f2fff00");
    assert_eq!(string(b"a:// \n\0"), "fi_addr_str://613a2f2f200a00");
    let mut longest = b"a://".to_vec();
    longest.resize(511, b'x');
    longest.push(0);
    assert_eq!(string(&longest).len(), 511);
    longest[511] = b'x';
    string(&longest);
    let too_long = String::from_utf8(longest).unwrap();
    assert_eq!(too_long.parse::<EndpointAddr>(), Err(AddressError::TooLong));
}

#[test]
fn every_format_comes_back() {
    let samples: [&[u8]; 4] = [b"", b"\0", b"a://b\0", &[0xff; EndpointAddr::MAX_LEN]];
    for number in (0..40).chain([4242, u32::MAX]) {
        for bytes in samples {
            round_trip(&addr(AddressFormat::from_raw(number), bytes));
        }
    }
    let text = |format, bytes| addr(format, bytes).to_string();
    assert_eq!(text(AddressFormat::ADDR_EFA, &[0xfe, 0x80]), "fi_addr_efa://fe80");
    assert_eq!(text(AddressFormat::UNSPEC, &[1]), "fi_format_unspec://01");
    assert_eq!(text(AddressFormat::from_raw(4242), &[1]), "fi_format_4242://01");
}

#[test]
fn arbitrary_bytes_come_back() {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()[0]
    };
    for _ in 0..2000 {
        let format = AddressFormat::from_raw(u32::from(next() % 20));
        let len = usize::from(next() % 40);
        let bytes: Vec<u8> = (0..len).map(|_| next() & next()).collect();
        round_trip(&addr(format, &bytes));
    }
}

#[test]
fn other_text_is_an_error() {
    for text in [
        "",
        "name",
        "127.0.0.1",
        "::1",
        "fi_addr_efa://f",
        "fi_addr_efa://xy",
        "fi_addr_efa://+1",
        "fi_addr_efa://1.2.3.4:5",
        "fi_addr_efa://é",
        "fi_addr_none://00",
        "fi_sockaddr_in://[::1]:4242",
        "fi_sockaddr_in6://127.0.0.1:4242",
        "fi_sockaddr_in://127.0.0.1",
        "fi_format_://00",
        "fi_format_4294967296://00",
        "fi_shm:// ",
        "fi_shm://\0",
    ] {
        assert_eq!(text.parse::<EndpointAddr>(), Err(AddressError::Malformed), "{text:?}");
    }
    let long = format!("fi_addr_efa://{}", "00".repeat(EndpointAddr::MAX_LEN + 1));
    assert_eq!(long.parse::<EndpointAddr>(), Err(AddressError::TooLong));
}
