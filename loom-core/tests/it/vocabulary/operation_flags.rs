//! Flags of operations and completions.

use loom_core::vocabulary::{CompletionFlags, OpFlags};

#[test]
fn values_are_those_of_the_header() {
    assert_eq!(OpFlags::REMOTE_CQ_DATA.bits(), 0x2_0000);
    assert_eq!(OpFlags::MORE.bits(), 0x4_0000);
    assert_eq!(OpFlags::COMPLETION.bits(), 0x100_0000);
    assert_eq!(OpFlags::INJECT.bits(), 0x200_0000);
    assert_eq!(OpFlags::DELIVERY_COMPLETE.bits(), 0x1000_0000);
    assert_eq!(OpFlags::MATCH_COMPLETE.bits(), 0x8000_0000);
    assert_eq!(OpFlags::CLAIM.bits(), 1 << 59);
    assert_eq!(OpFlags::DISCARD.bits(), 1 << 58);
    assert_eq!(CompletionFlags::RECV.bits(), 0x400);
    assert_eq!(CompletionFlags::MULTI_RECV.bits(), 0x1_0000);
}

#[test]
fn an_alias_is_printed_once() {
    assert_eq!(OpFlags::EVENT.to_string(), "COMPLETION");
    assert_eq!((OpFlags::EVENT | OpFlags::FENCE).to_string(), "FENCE | COMPLETION");
}

#[test]
fn text_keeps_unknown_bits() {
    let flags = CompletionFlags::TAGGED | CompletionFlags::RECV | CompletionFlags::from_bits_retain(1 << 60);
    assert_eq!(flags.to_string(), "TAGGED | RECV | 0x1000000000000000");
}
