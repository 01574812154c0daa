//! Flags of memory regions.

use loom_core::vocabulary::{Access, MrFlags, MrMode};

#[test]
fn values_are_those_of_the_header() {
    assert_eq!(MrMode::BASIC.bits(), 1);
    assert_eq!(MrMode::SCALABLE.bits(), 2);
    assert_eq!(MrMode::LOCAL.bits(), 4);
    assert_eq!(MrMode::VIRT_ADDR.bits(), 0x10);
    assert_eq!(MrMode::PROV_KEY.bits(), 0x40);
    assert_eq!(MrMode::ENDPOINT.bits(), 0x200);
    assert_eq!(MrMode::COLLECTIVE.bits(), 0x800);
    assert_eq!((Access::SEND | Access::RECV).bits(), 0xc00);
    assert_eq!((Access::REMOTE_READ | Access::REMOTE_WRITE).bits(), 0x3000);
    assert_eq!(MrFlags::DMABUF.bits(), 1 << 40);
}

#[test]
fn text_keeps_unknown_bits() {
    let mode = MrMode::from_bits_retain(0x8000_0004);
    assert_eq!(mode.to_string(), "LOCAL | 0x80000000");
    assert_eq!(mode.bits(), 0x8000_0004);
    assert_eq!((Access::READ | Access::REMOTE_WRITE).to_string(), "READ | REMOTE_WRITE");
    assert_eq!(MrFlags::empty().to_string(), "0");
}
