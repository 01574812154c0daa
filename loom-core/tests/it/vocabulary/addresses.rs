//! Formats and bytes of addresses.

use std::collections::HashSet;

use loom_core::vocabulary::{AddressError, AddressFormat, EndpointAddr};

#[test]
fn bytes_and_format_are_kept() {
    let addr = EndpointAddr::new(AddressFormat::from_raw(4242), &[1, 2, 0]).unwrap();
    assert_eq!(addr.format().as_raw(), 4242);
    assert_eq!(addr.bytes(), [1, 2, 0]);
}

#[test]
fn too_long_is_an_error_and_the_limit_is_not() {
    let bytes = vec![7; EndpointAddr::MAX_LEN + 1];
    assert_eq!(EndpointAddr::new(AddressFormat::ADDR_EFA, &bytes), Err(AddressError::TooLong));
    let longest = EndpointAddr::new(AddressFormat::ADDR_EFA, &bytes[1..]).unwrap();
    assert_eq!(longest.bytes(), &bytes[1..]);
}

#[test]
fn equality_and_hash_see_format_and_bytes() {
    let addr = |format, bytes: &[u8]| EndpointAddr::new(format, bytes).unwrap();
    let one = addr(AddressFormat::ADDR_EFA, &[1]);
    assert_eq!(one, one.clone());
    assert_ne!(one, addr(AddressFormat::ADDR_CXI, &[1]));
    assert_ne!(one, addr(AddressFormat::ADDR_EFA, &[1, 0]));
    let set = HashSet::from([one.clone(), one, addr(AddressFormat::ADDR_EFA, &[])]);
    assert_eq!(set.len(), 2);
}
