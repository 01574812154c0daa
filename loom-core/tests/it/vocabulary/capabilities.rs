//! Capabilities and modes.

use loom_core::vocabulary::{Caps, Mode};

#[test]
fn values_are_those_of_the_header() {
    for (flag, bits) in [
        (Caps::MSG, 0x2_u64),
        (Caps::RMA, 0x4),
        (Caps::TAGGED, 0x8),
        (Caps::ATOMICS, 0x10),
        (Caps::REMOTE_WRITE, 0x2000),
        (Caps::MULTI_RECV, 0x1_0000),
        (Caps::FENCE, 0x20_0000),
        (Caps::HMEM, 1 << 47),
        (Caps::SOURCE, 1 << 57),
        (Caps::DIRECTED_RECV, 1 << 59),
    ] {
        assert_eq!(flag.bits(), bits, "{flag}");
    }
    assert_eq!(Mode::CONTEXT.bits(), 1 << 59);
    assert_eq!(Mode::CONTEXT2.bits(), 1 << 52);
    assert_eq!(Mode::LOCAL_MR.bits(), 1 << 55);
}

#[test]
fn no_modifier_of_a_group_means_all_of_them() {
    let messages = Caps::SEND | Caps::RECV;
    let memory = Caps::READ | Caps::WRITE | Caps::REMOTE_READ | Caps::REMOTE_WRITE;
    assert_eq!(Caps::TAGGED.with_modifiers(), Caps::TAGGED | messages);
    assert_eq!((Caps::MSG | Caps::SEND).with_modifiers(), Caps::MSG | Caps::SEND);
    assert_eq!((Caps::RMA | Caps::SEND).with_modifiers(), Caps::RMA | Caps::SEND | memory);
    assert_eq!((Caps::MSG | Caps::RMA | Caps::READ).with_modifiers(), Caps::MSG | messages | Caps::RMA | Caps::READ);
    assert_eq!(Caps::DIRECTED_RECV.with_modifiers(), Caps::DIRECTED_RECV);
}

#[test]
fn text_names_defined_flags_and_keeps_other_bits() {
    assert_eq!(Caps::empty().to_string(), "0");
    assert_eq!((Caps::TAGGED | Caps::MSG).to_string(), "MSG | TAGGED");
    let unknown = Caps::MSG | Caps::TAGGED | Caps::from_bits_retain(0x4000);
    assert_eq!(unknown.to_string(), "MSG | TAGGED | 0x4000");
    assert_eq!(unknown.bits(), 0x400a);
    assert_eq!(format!("{:?}", Caps::MSG), "Caps(MSG)");
    assert_eq!(Mode::MSG_PREFIX.to_string(), "MSG_PREFIX");
}

#[test]
fn unknown_bits_survive_set_operations() {
    let all = Caps::from_bits_truncate(u64::MAX);
    assert_eq!(all.bits(), u64::MAX);
    assert_eq!((!Caps::MSG).bits(), !2);
    assert_eq!((all - Caps::MSG).bits(), !2);
    assert!(Caps::from_bits(1 << 63).is_some());
}
