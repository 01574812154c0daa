//! Numbers and names of libfabric's enumerations.

use loom_core::vocabulary::{
    AddressFormat, AvType, EndpointType, HmemIface, Progress, Protocol, ResourceMgmt, Threading, TrafficClass,
};

#[test]
fn numbers_are_those_of_the_header() {
    assert_eq!(Threading::COMPLETION.as_raw(), 4);
    assert_eq!(Progress::MANUAL.as_raw(), 2);
    assert_eq!(ResourceMgmt::ENABLED.as_raw(), 2);
    assert_eq!(AvType::TABLE.as_raw(), 2);
    assert_eq!(EndpointType::RDM.as_raw(), 3);
    assert_eq!(AddressFormat::ADDR_STR.as_raw(), 9);
    assert_eq!(AddressFormat::ADDR_CXI.as_raw(), 15);
    assert_eq!(Protocol::EFA.as_raw(), 20);
    assert_eq!(Protocol::XNET.as_raw(), 25);
    assert_eq!(Protocol::LNX.as_raw(), 31);
    assert_eq!(HmemIface::SYNAPSEAI.as_raw(), 5);
    assert_eq!(TrafficClass::NETWORK_CTRL.as_raw(), 0x205);
}

#[test]
fn text_is_the_name_or_the_number() {
    assert_eq!(EndpointType::RDM.to_string(), "EP_RDM");
    assert_eq!(Threading::SAFE.to_string(), "THREAD_SAFE");
    assert_eq!(AddressFormat::UNSPEC.to_string(), "FORMAT_UNSPEC");
    assert_eq!(AddressFormat::SOCKADDR_IN.to_string(), "SOCKADDR_IN");
    assert_eq!(Threading::from_raw(17).to_string(), "unknown (17)");
    assert_eq!(Threading::from_raw(17).as_raw(), 17);
    assert_eq!(format!("{:?}", Protocol::SHM), "Protocol(PROTO_SHM)");
}

#[test]
fn default_is_unspecified() {
    assert_eq!(Threading::default(), Threading::UNSPEC);
    assert_eq!(Protocol::default(), Protocol::UNSPEC);
    assert_eq!(AddressFormat::default(), AddressFormat::UNSPEC);
    assert_eq!(HmemIface::default(), HmemIface::SYSTEM);
    assert_eq!(TrafficClass::default(), TrafficClass::UNSPEC);
}

#[test]
fn named_numbers_are_dense_and_named() {
    for (number, protocol) in (0_u32..).zip(Protocol::NAMED) {
        assert_eq!(protocol.as_raw(), number);
        assert!(protocol.name().is_some());
    }
    for (number, format) in (0_u32..).zip(AddressFormat::NAMED) {
        assert_eq!(format.as_raw(), number);
    }
}

#[test]
fn code_points_are_apart_from_labels() {
    assert_eq!(TrafficClass::dscp(46).as_raw(), 0x12e);
    assert_eq!(TrafficClass::LABEL, TrafficClass::BEST_EFFORT);
}
