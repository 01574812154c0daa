//! Orders of messages and completions.

use loom_core::vocabulary::{CompOrder, MsgOrder};

#[test]
fn values_are_those_of_the_header() {
    for (order, bits) in [
        (MsgOrder::NONE, 0_u64),
        (MsgOrder::RAR, 1),
        (MsgOrder::WAW, 0x10),
        (MsgOrder::SAS, 0x100),
        (MsgOrder::STRICT, 0x1ff),
        (MsgOrder::RMA_RAR, 1 << 32),
        (MsgOrder::RMA_WAW, 1 << 35),
        (MsgOrder::ATOMIC_RAR, 1 << 36),
        (MsgOrder::ATOMIC_WAW, 1 << 39),
    ] {
        assert_eq!(order.bits(), bits, "{order}");
    }
    assert_eq!(CompOrder::DATA.bits(), 0x1_0000);
    assert_eq!(CompOrder::STRICT.bits(), 0x1ff);
}

#[test]
fn a_combination_is_printed_as_its_parts_and_reads_back() {
    let text = MsgOrder::STRICT.to_string();
    assert_eq!(text, "RAR | RAW | RAS | WAR | WAW | WAS | SAR | SAW | SAS");
    let read: MsgOrder = bitflags::parser::from_str(&text).unwrap();
    assert_eq!(read, MsgOrder::STRICT);
    assert_eq!(MsgOrder::NONE.to_string(), "0");
}

#[test]
fn completion_order_has_no_parts_to_print() {
    let both = CompOrder::STRICT | CompOrder::DATA;
    assert_eq!(both.to_string(), "DATA | STRICT");
    let read: CompOrder = bitflags::parser::from_str("DATA | STRICT").unwrap();
    assert_eq!(read, both);
    assert_eq!(CompOrder::from_bits_retain(0x3).to_string(), "0x3");
}
