//! Tags, keys and addresses as values.

use loom_core::vocabulary::{FabricAddr, ImmediateData, MemoryKey, RemoteAddr, Tag, TagMatch};

#[test]
fn text() {
    assert_eq!(Tag(42).to_string(), "0x2a");
    assert_eq!(format!("{:?}", Tag(42)), "Tag(0x2a)");
    assert_eq!(MemoryKey(7).to_string(), "0x7");
    assert_eq!(RemoteAddr(4096).to_string(), "0x1000");
    assert_eq!(FabricAddr(3).to_string(), "0x3");
    assert_eq!(format!("{:?}", FabricAddr::NOTAVAIL), "FabricAddr(unspecified)");
    assert_eq!(TagMatch::exact(Tag(42)).to_string(), "0x2a");
    assert_eq!(TagMatch::ANY.to_string(), "any");
    assert_eq!(TagMatch { tag: Tag(42), ignore: 255 }.to_string(), "0x2a ignoring 0xff");
}

#[test]
fn addresses() {
    assert_eq!(FabricAddr::UNSPEC.0, u64::MAX);
    assert_eq!(FabricAddr::NOTAVAIL, FabricAddr::UNSPEC);
    assert_eq!(FabricAddr::default(), FabricAddr::UNSPEC);
}

#[test]
fn tags_match_in_the_bits_not_ignored() {
    assert!(TagMatch::from(Tag::from(5)).accepts(Tag(5)));
    assert!(!TagMatch::exact(Tag(5)).accepts(Tag(4)));
    assert!(TagMatch::ANY.accepts(Tag(u64::MAX)));
    let low_byte_free = TagMatch { tag: Tag(0x1234), ignore: 0xff };
    assert!(low_byte_free.accepts(Tag(0x12ff)));
    assert!(!low_byte_free.accepts(Tag(0x1334)));
    assert!(!low_byte_free.accepts(Tag(0x8000_0000_0000_1234)));
}

#[test]
fn remote_addresses_do_not_wrap() {
    assert_eq!(RemoteAddr(1).checked_add(2), Some(RemoteAddr(3)));
    assert_eq!(RemoteAddr(u64::MAX).checked_add(0), Some(RemoteAddr(u64::MAX)));
    assert_eq!(RemoteAddr(u64::MAX).checked_add(1), None);
}

#[test]
fn immediate_data_fits_its_size() {
    assert!(!ImmediateData(0).fits(0));
    assert!(ImmediateData(u64::from(u32::MAX)).fits(4));
    assert!(!ImmediateData(1 << 32).fits(4));
    assert!(ImmediateData(255).fits(1));
    assert!(!ImmediateData(u64::MAX).fits(7));
    assert!(ImmediateData(u64::MAX).fits(8));
    assert!(ImmediateData(u64::MAX).fits(usize::MAX));
}
