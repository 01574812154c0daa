//! The encoded form of addresses.

use loom_core::vocabulary::{AddressError, AddressFormat, EndpointAddr};

#[test]
fn the_encoded_form_is_fixed() {
    let addr = EndpointAddr::new(AddressFormat::ADDR_STR, b"a\0").unwrap();
    let mut out = [0xff; 16];
    assert_eq!(addr.encode(&mut out), Ok(10));
    assert_eq!(out[..10], [9, 0, 0, 0, 2, 0, 0, 0, b'a', 0]);
    assert_eq!(out[10..], [0xff; 6]);
    assert_eq!(EndpointAddr::decode(&out), Ok((addr, 10)));
}

#[test]
fn every_length_comes_back() {
    let bytes = [0x5a; EndpointAddr::MAX_LEN];
    for len in [0, 1, 16, 511, 512] {
        let addr = EndpointAddr::new(AddressFormat::from_raw(u32::MAX), &bytes[..len]).unwrap();
        let mut out = [0; EndpointAddr::MAX_LEN + 8];
        assert_eq!(addr.encode(&mut out), Ok(len + 8));
        assert_eq!(EndpointAddr::decode(&out[..len + 8]), Ok((addr, len + 8)));
    }
}

#[test]
fn a_small_buffer_stays_untouched() {
    let addr = EndpointAddr::new(AddressFormat::ADDR_EFA, &[1, 2, 3]).unwrap();
    let mut out = [0xff; 10];
    for len in 0..=out.len() {
        assert_eq!(addr.encode(&mut out[..len]), Err(AddressError::BufferTooSmall));
    }
    assert_eq!(out, [0xff; 10]);
}

#[test]
fn short_and_hostile_bytes_are_errors() {
    let addr = EndpointAddr::new(AddressFormat::ADDR_EFA, &[1, 2, 3]).unwrap();
    let mut out = [0; 11];
    addr.encode(&mut out).unwrap();
    for len in 0..out.len() {
        assert_eq!(EndpointAddr::decode(&out[..len]), Err(AddressError::Truncated));
    }
    for hostile in [513_u32, 1 << 31, u32::MAX] {
        out[4..8].copy_from_slice(&hostile.to_le_bytes());
        assert_eq!(EndpointAddr::decode(&out), Err(AddressError::TooLong));
    }
}
