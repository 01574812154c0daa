//! Addresses, regions and attributes as values of `serde`. A written value is read back, the
//! written form is fixed, and invalid input is refused.

use std::fmt::Debug;

use loom_core::eq::EqAttr;
use loom_core::soft::NetworkAttr;
use loom_core::vocabulary::{
    AddressFormat, AtomicOp, Attributes, CollectiveOp, CompOrder, CompletionFlags, Datatype, DomainAttributes,
    EndpointAttributes, EndpointType, MemoryKey, Mode, MrFlags, MrMode, MsgOrder, OpFlags, Protocol, RemoteAddr,
    RxAttributes, Threading, TxAttributes, Version, WaitObj,
};
use loom_core::{Access, AvAttr, Caps, Counted, CounterAttr, CqAttr, EndpointAddr, ImmediateData, RemoteRegion, Tag};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

fn binary(value: &impl Serialize) -> Vec<u8> {
    let mut out = [0; 1024];
    postcard::to_slice(value, &mut out).unwrap().to_vec()
}

/// Checks that the value is read back from both formats.
#[track_caller]
fn comes_back<V: Serialize + DeserializeOwned + PartialEq + Debug>(value: V) {
    assert_eq!(serde_json::from_str::<V>(&json(&value)).unwrap(), value);
    assert_eq!(postcard::from_bytes::<V>(&binary(&value)).unwrap(), value);
}

/// Checks that the value is read back, and that this is its written form.
#[track_caller]
fn is_written<V: Serialize + DeserializeOwned + PartialEq + Debug>(value: V, text: &str, bytes: &[u8]) {
    assert_eq!(json(&value), text);
    assert_eq!(binary(&value), bytes);
    comes_back(value);
}

/// Returns the reason why this text is not such a value.
#[track_caller]
fn refused<V: DeserializeOwned + Debug>(text: &str) -> String {
    serde_json::from_str::<V>(text).unwrap_err().to_string()
}

fn ipv4() -> EndpointAddr {
    "127.0.0.1:4242".parse().unwrap()
}

fn name() -> EndpointAddr {
    EndpointAddr::new(AddressFormat::ADDR_STR, b"fi_shm://7\0").unwrap()
}

#[test]
fn addresses_are_text_for_people_and_bytes_for_machines() {
    let mut bytes = vec![19, 9, 0, 0, 0, 11, 0, 0, 0];
    bytes.extend(b"fi_shm://7\0");
    is_written(name(), r#""fi_shm://7""#, &bytes);
    assert_eq!(json(&ipv4()), r#""fi_sockaddr_in://127.0.0.1:4242""#);
    comes_back(ipv4());
    // As written by a person.
    assert_eq!(serde_json::from_str::<EndpointAddr>(r#""127.0.0.1:4242""#).unwrap(), ipv4());
    let unknown = EndpointAddr::new(AddressFormat::from_raw(4242), &[0, 255]).unwrap();
    is_written(unknown, r#""fi_format_4242://00ff""#, &[10, 0x92, 0x10, 0, 0, 2, 0, 0, 0, 0, 255]);
    comes_back(EndpointAddr::new(AddressFormat::ADDR_EFA, &[]).unwrap());
    comes_back(EndpointAddr::new(AddressFormat::ADDR_EFA, &[7; EndpointAddr::MAX_LEN]).unwrap());
}

#[test]
fn invalid_addresses_are_refused() {
    let long = format!("\"fi_addr_efa://{}\"", "00".repeat(EndpointAddr::MAX_LEN + 1));
    assert!(refused::<EndpointAddr>(&long).starts_with("address too long"));
    for text in ["\"\"", "\"somewhere\"", "\"fi_addr_efa://0\"", "\"fi_sockaddr_in://[::1]:1\"", "\"127.0.0.1\""] {
        assert!(refused::<EndpointAddr>(text).starts_with("malformed address"), "{text}");
    }
    for text in ["7", "null", "[1,2]", "{}"] {
        assert!(refused::<EndpointAddr>(text).contains("expected the text of an address"), "{text}");
    }
    // The first byte is the length of the rest.
    let whole = binary(&name());
    let with = |len: u8, encoded: &[u8]| [&[len], encoded].concat();
    let encoded = &whole[1..];
    for bytes in [
        // Shorter than a header, shorter than the header's length, and longer.
        with(0, &[]),
        with(7, &encoded[..7]),
        with(18, &encoded[..18]),
        with(20, &[encoded, &[0]].concat()),
        // Longer than any address.
        with(8, &[9, 0, 0, 0, 1, 2, 0, 0]),
        with(8, &[9, 0, 0, 0, 255, 255, 255, 255]),
        // Incomplete.
        whole[..12].to_vec(),
    ] {
        assert!(postcard::from_bytes::<EndpointAddr>(&bytes).is_err(), "{bytes:?}");
    }
    // 521 bytes, more than the longest address has.
    let long = [&[0x89, 0x04][..], &[0; 521]].concat();
    assert!(postcard::from_bytes::<EndpointAddr>(&long).is_err());
}

#[test]
fn regions_have_names_for_people_and_32_bytes_for_machines() {
    let region = RemoteRegion {
        base: RemoteAddr(16),
        len: 4096,
        key: MemoryKey(u64::MAX),
        access: Access::REMOTE_READ | Access::REMOTE_WRITE,
    };
    let bytes = [&[32], &region.to_bytes()[..]].concat();
    is_written(
        region,
        r#"{"base":"0x10","len":4096,"key":"0xffffffffffffffff","access":"REMOTE_READ | REMOTE_WRITE"}"#,
        &bytes,
    );
    // Numbers, where the format has them.
    let read: RemoteRegion = serde_json::from_str(
        r#"{"access":"REMOTE_READ | REMOTE_WRITE","key":18446744073709551615,"len":4096,"base":16}"#,
    )
    .unwrap();
    assert_eq!(read, region);
}

#[test]
fn invalid_regions_are_refused() {
    assert!(refused::<RemoteRegion>(r#"{"base":0,"len":1,"access":""}"#).starts_with("missing field `key`"));
    assert!(refused::<RemoteRegion>(r#"{"base":0,"len":1,"key":0}"#).starts_with("missing field `access`"));
    assert!(
        refused::<RemoteRegion>(r#"{"base":0,"len":1,"key":0,"access":"REMOTE"}"#).contains("unrecognized named flag")
    );
    assert!(refused::<RemoteRegion>(r#"{"base":0,"len":-1,"key":0}"#).starts_with("invalid value"));
    assert!(refused::<RemoteRegion>(r#"{"base":"0xg","len":1,"key":0}"#).starts_with("invalid value"));
    assert!(
        refused::<RemoteRegion>(r#"{"base":0,"len":1,"key":0,"access":"","rights":1}"#).starts_with("unknown field")
    );
    for len in [0_u8, 24, 31, 33, 64] {
        let bytes = [&[len][..], &vec![0; len.into()]].concat();
        assert!(postcard::from_bytes::<RemoteRegion>(&bytes).is_err(), "{len}");
    }
    assert!(postcard::from_bytes::<RemoteRegion>(&[32, 0, 0]).is_err());
}

#[test]
fn numbers_of_64_bits_are_hexadecimal_for_people() {
    is_written(Tag(42), r#""0x2a""#, &[42]);
    is_written(ImmediateData(u64::MAX), r#""0xffffffffffffffff""#, &[255, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
    is_written(MemoryKey(0), r#""0x0""#, &[0]);
    is_written(RemoteAddr(300), r#""0x12c""#, &[0xac, 2]);
    for text in ["42", "\"42\"", "\"0x2A\""] {
        assert_eq!(serde_json::from_str::<Tag>(text).unwrap(), Tag(42));
    }
    for text in ["-1", "1.5", "\"\"", "\"0x\"", "\"0x+1\"", "\"+1\"", "\"-1\"", "\"0x1ffffffffffffffff\"", "true"] {
        assert!(refused::<Tag>(text).contains("expected a number of 64 bits"), "{text}");
    }
}

#[test]
fn flags_are_names_for_people_and_keep_bits_that_are_unknown() {
    is_written(Caps::MSG | Caps::TAGGED, r#""MSG | TAGGED""#, &[10]);
    is_written(Caps::empty(), r#""""#, &[0]);
    let unknown = Access::REMOTE_READ | Access::from_bits_retain(1 << 62);
    is_written(unknown, r#""REMOTE_READ | 0x4000000000000000""#, &binary(&unknown.bits()));
    comes_back(Caps::from_bits_retain(u64::MAX));
    comes_back(Mode::CONTEXT | Mode::MSG_PREFIX);
    comes_back(MrMode::VIRT_ADDR | MrMode::from_bits_retain(1 << 31));
    comes_back(MsgOrder::STRICT);
    comes_back(CompOrder::STRICT | CompOrder::DATA);
    comes_back(OpFlags::COMPLETION | OpFlags::FENCE);
    comes_back(CompletionFlags::RECV);
    comes_back(Counted::SEND);
    comes_back(MrFlags::RMA_EVENT);
    // Unknown names, and bits beyond the type, are refused.
    assert!(refused::<Caps>("\"MSG | SMOKE_SIGNALS\"").contains("unrecognized named flag"));
    assert!(refused::<Caps>("\"MSG, TAGGED\"").contains("unrecognized named flag"));
    assert!(refused::<MrMode>("\"0x100000000\"").contains("invalid hex flag"));
    assert!(refused::<Caps>("10").contains("expected a string"));
    assert!(postcard::from_bytes::<MrMode>(&binary(&(1_u64 << 32))).is_err());
}

#[test]
fn enumerations_are_names_for_people_and_keep_numbers_that_are_unknown() {
    is_written(EndpointType::RDM, r#""EP_RDM""#, &[3]);
    is_written(Threading::from_raw(99), "99", &[99]);
    assert_eq!(serde_json::from_str::<EndpointType>("3").unwrap(), EndpointType::RDM);
    for value in Protocol::NAMED {
        comes_back(*value);
    }
    comes_back(Datatype::FLOAT);
    comes_back(AtomicOp::SUM);
    comes_back(CollectiveOp::BARRIER);
    for text in ["\"EP_SMOKE\"", "\"\"", "\"3\"", "\"ep_rdm\"", "-1", "4294967296", "[]"] {
        assert!(refused::<EndpointType>(text).contains("expected libfabric's name"), "{text}");
    }
    assert!(postcard::from_bytes::<EndpointType>(&binary(&(1_u64 << 32))).is_err());
}

#[test]
fn versions_are_text_for_people() {
    is_written(Version::new(1, 17), r#""1.17""#, &[0x91, 0x80, 4]);
    for text in ["\"1\"", "\"1.17.0\"", "\"+1.1\"", "\"1.+1\"", "\"1.65536\"", "\".\""] {
        assert!(refused::<Version>(text).contains("expected a version"), "{text}");
    }
    assert!(refused::<Version>("1.17").contains("expected a version"));
}

#[test]
fn configurations_fill_missing_fields_with_defaults() {
    fn read<V: DeserializeOwned>(text: &str) -> V {
        serde_json::from_str(text).unwrap()
    }
    assert_eq!(read::<NetworkAttr>("{}"), NetworkAttr::DEFAULT);
    let network = read::<NetworkAttr>(r#"{"endpoints":2,"seed":"0xfedcba9876543210"}"#);
    assert_eq!(network, NetworkAttr { endpoints: 2, seed: 0xfedc_ba98_7654_3210, ..NetworkAttr::DEFAULT });
    assert_eq!(read::<CqAttr>(r#"{"depth":64}"#), CqAttr::new(64));
    assert_eq!(read::<CqAttr>(r#"{"depth":64,"wait":"WAIT_FD"}"#), CqAttr { wait: WaitObj::FD, ..CqAttr::new(64) });
    assert_eq!(read::<AvAttr>(r#"{"capacity":16}"#), AvAttr::new(16));
    assert_eq!(read::<AvAttr>(r#"{"capacity":16,"singles":2}"#), AvAttr { singles: Some(2), ..AvAttr::new(16) });
    assert_eq!(read::<EqAttr>("{}"), EqAttr::default());
    assert_eq!(read::<CounterAttr>(r#"{"wait":"WAIT_FD"}"#), CounterAttr { wait: WaitObj::FD });
    assert_eq!(
        read::<EndpointAttributes>(r#"{"kind":"EP_RDM","max_msg_size":4096}"#),
        EndpointAttributes { max_msg_size: 4096, ..EndpointAttributes::of(EndpointType::RDM) }
    );
    assert!(refused::<CqAttr>("{}").starts_with("missing field `depth`"));
    assert!(refused::<AvAttr>("{}").starts_with("missing field `capacity`"));
    for unknown in [refused::<NetworkAttr>(r#"{"endpoint":2}"#), refused::<CqAttr>(r#"{"depth":1,"size":2}"#)] {
        assert!(unknown.starts_with("unknown field"), "{unknown}");
    }
    assert!(refused::<NetworkAttr>(r#"{"endpoints":65536}"#).starts_with("invalid value"));
}

#[test]
fn attributes_are_written_field_by_field() {
    assert_eq!(
        json(&NetworkAttr::DEFAULT),
        r#"{"endpoints":8,"tx_depth":128,"rx_depth":1024,"eager_size":1024,"regions":64,"groups":4,"seed":"0x0","lanes":2,"strict":false}"#
    );
    is_written(
        CqAttr { separate: true, ..CqAttr::new(64) },
        r#"{"depth":64,"endpoints":16,"separate":true,"wait":"WAIT_NONE","wait_is_optional":false,"claims":false}"#,
        &[64, 16, 1, 0, 0, 0],
    );
    is_written(
        AvAttr::new(3),
        r#"{"capacity":3,"bytes":null,"singles":null,"ranges":16,"seed":"0x0","rx_ctx_bits":0}"#,
        &[3, 0, 0, 16, 0, 0],
    );
    comes_back(AvAttr {
        bytes: Some(7),
        singles: Some(1),
        ranges: 2,
        seed: u64::MAX,
        rx_ctx_bits: 3,
        ..AvAttr::new(9)
    });
    comes_back(NetworkAttr { seed: u64::MAX, strict: true, ..NetworkAttr::DEFAULT });
    is_written(EqAttr::default(), r#"{"size":0,"wait":"WAIT_UNSPEC","write":false}"#, &[0, 1, 0]);
    is_written(CounterAttr { wait: WaitObj::FD }, r#"{"wait":"WAIT_FD"}"#, &[3]);
    comes_back(TxAttributes { inject_size: 64, ..TxAttributes::UNSPEC });
    comes_back(RxAttributes { size: usize::MAX, ..RxAttributes::UNSPEC });
    let granted = Attributes {
        caps: Caps::MSG | Caps::from_bits_retain(1 << 62),
        endpoint: EndpointAttributes { mem_tag_format: 0xaaaa_aaaa_aaaa_aaaa, ..EndpointAttributes::UNSPEC },
        domain: DomainAttributes { threading: Threading::from_raw(99), ..DomainAttributes::UNSPEC },
        provider_version: Version::new(117, 0),
        ..Attributes::default()
    };
    comes_back(granted);
}

proptest! {
    /// A peer's bytes are a value or an error, and a value is written and read back.
    #[test]
    fn any_bytes_are_a_value_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(address) = postcard::from_bytes::<EndpointAddr>(&bytes) {
            comes_back(address);
        }
        if let Ok(region) = postcard::from_bytes::<RemoteRegion>(&bytes) {
            comes_back(region);
        }
        if let Ok(attr) = postcard::from_bytes::<AvAttr>(&bytes) {
            comes_back(attr);
        }
    }

    #[test]
    fn any_address_and_region_comes_back(
        format in any::<u32>(),
        bytes in proptest::collection::vec(any::<u8>(), 0..=EndpointAddr::MAX_LEN),
        words in any::<[u64; 4]>(),
    ) {
        comes_back(EndpointAddr::new(AddressFormat::from_raw(format % 20), &bytes).unwrap());
        comes_back(EndpointAddr::new(AddressFormat::from_raw(format), &bytes).unwrap());
        comes_back(RemoteRegion { base: RemoteAddr(words[0]), len: words[1], key: MemoryKey(words[2]), access: Access::from_bits_retain(words[3]) });
    }

    #[test]
    fn any_text_is_an_address_or_an_error(text in "\\PC{0,80}") {
        if let Ok(address) = serde_json::from_str::<EndpointAddr>(&json(&text)) {
            comes_back(address);
        }
    }
}
