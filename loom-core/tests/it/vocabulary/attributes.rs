//! Default attributes, and unknown numbers in attributes.

use loom_core::vocabulary::{
    AddressFormat, Attributes, Caps, DomainAttributes, EndpointAttributes, EndpointType, MrMode, MsgOrder,
    RxAttributes, Threading, TxAttributes, Version,
};

#[test]
fn default_attributes_are_unspecified() {
    let hints = Attributes::default();
    assert_eq!(hints.caps, Caps::empty());
    assert_eq!(hints.addr_format, AddressFormat::UNSPEC);
    assert_eq!(hints.endpoint.kind, EndpointType::UNSPEC);
    assert_eq!(hints.tx.msg_order, MsgOrder::NONE);
    assert_eq!(hints.rx.size, 0);
    assert_eq!(hints.domain.mr_mode, MrMode::empty());
    assert_eq!(hints.api_version, Version::new(0, 0));
    assert_eq!(EndpointAttributes::UNSPEC, EndpointAttributes::default());
    assert_eq!(TxAttributes::UNSPEC, TxAttributes::default());
    assert_eq!(RxAttributes::UNSPEC, RxAttributes::default());
    assert_eq!(DomainAttributes::UNSPEC, DomainAttributes::default());
}

#[test]
fn unknown_numbers_travel_in_attributes() {
    let granted = Attributes {
        caps: Caps::from_bits_retain(1 << 62),
        domain: DomainAttributes { threading: Threading::from_raw(99), ..DomainAttributes::default() },
        ..Attributes::default()
    };
    let copy = granted;
    assert_eq!(copy, granted);
    assert_eq!(copy.caps.bits(), 1 << 62);
    assert_eq!(copy.domain.threading.as_raw(), 99);
}
