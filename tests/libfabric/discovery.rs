//! Infos of libfabric, and their agreement with hints.

use std::net::SocketAddr;
use std::process::Command;

use loom_core::Error;
use loom_core::domain::Domain;
use loom_core::error::OpenError;
use loom_core::info::{Hints, Info};
use loom_core::vocabulary::{
    AddressFormat, Attributes, Caps, EndpointAddr, EndpointAttributes, EndpointType, MsgOrder, OpFlags, ParamType,
    Protocol, ResourceMgmt, Threading, Version,
};
use loom_fabric::ofi::{Local, Ofi, QueryError, Shared, TextField, headers_version, params, providers};
use loom_fabric::{AnyInfo, Program, Transport};
use support::library_version;

fn all(hints: &Hints<'_>) -> Vec<Info<Ofi<Local>>> {
    match Ofi::<Local>::query(hints) {
        Ok(infos) => infos.collect(),
        Err(error) if error.is_no_match() => Vec::new(),
        Err(error) => panic!("{error:#}"),
    }
}

fn of(provider: &str) -> Hints<'_> {
    Hints { provider: Some(provider), endpoint_attr: EndpointAttributes::of(EndpointType::RDM), ..Hints::default() }
}

/// One number of the attributes, in hints and as granted.
struct Number {
    name: &'static str,
    hint: for<'h> fn(&'h mut Hints<'_>) -> &'h mut usize,
    granted: fn(&Attributes) -> usize,
}

const NUMBERS: [Number; 8] = [
    Number { name: "inject_size", hint: |hints| &mut hints.tx_attr.inject_size, granted: |all| all.tx.inject_size },
    Number { name: "tx size", hint: |hints| &mut hints.tx_attr.size, granted: |all| all.tx.size },
    Number { name: "tx iov_limit", hint: |hints| &mut hints.tx_attr.iov_limit, granted: |all| all.tx.iov_limit },
    Number {
        name: "rma_iov_limit",
        hint: |hints| &mut hints.tx_attr.rma_iov_limit,
        granted: |all| all.tx.rma_iov_limit,
    },
    Number { name: "rx size", hint: |hints| &mut hints.rx_attr.size, granted: |all| all.rx.size },
    Number { name: "rx iov_limit", hint: |hints| &mut hints.rx_attr.iov_limit, granted: |all| all.rx.iov_limit },
    Number {
        name: "max_msg_size",
        hint: |hints| &mut hints.endpoint_attr.max_msg_size,
        granted: |all| all.endpoint.max_msg_size,
    },
    Number {
        name: "cq_data_size",
        hint: |hints| &mut hints.domain_attr.cq_data_size,
        granted: |all| all.domain.cq_data_size,
    },
];

#[test]
fn requested_numbers_are_granted_or_the_result_is_empty() {
    let (mut tried, mut refused) = (0, 0);
    for provider in ["shm", "tcp;ofi_rxm"] {
        let Some(before) = all(&of(provider)).first().map(|info| *info.attributes()) else {
            println!("{provider}: not here");
            continue;
        };
        for Number { name, hint, granted } in NUMBERS {
            for asked in [granted(&before), granted(&before).saturating_add(1), 1 << 40] {
                let mut hints = of(provider);
                *hint(&mut hints) = asked;
                let found = all(&hints);
                for info in &found {
                    assert!(granted(info.attributes()) >= asked, "{provider}: {name} {asked}, and got {info}");
                }
                assert!(asked != granted(&before) || !found.is_empty(), "{provider}: {name} as granted");
                refused += u32::from(found.is_empty());
                tried += 1;
            }
        }
    }
    assert!(tried > 0 && refused > 0, "no provider to ask");
}

#[test]
fn unsupported_features_are_not_offered() {
    for provider in ["shm", "tcp;ofi_rxm"] {
        let asked = |change: fn(&mut Hints<'_>)| {
            let mut hints = of(provider);
            change(&mut hints);
            all(&hints).len()
        };
        assert_eq!(asked(|hints| hints.caps = Caps::from_bits_retain(1 << 61)), 0);
        assert_eq!(asked(|hints| hints.endpoint_attr.protocol = Protocol::CXI), 0);
        assert_eq!(asked(|hints| hints.addr_format = AddressFormat::ADDR_GNI), 0);
        assert_eq!(asked(|hints| hints.endpoint_attr.tx_ctx_cnt = 1 << 20), 0);
    }
}

#[test]
fn a_requested_order_is_granted() {
    for provider in ["shm", "tcp;ofi_rxm"] {
        let hints = of(provider).with_msg_order(MsgOrder::SAS);
        for info in all(&hints) {
            let granted = info.attributes();
            assert!(granted.tx.msg_order.contains(MsgOrder::SAS), "{info}");
            assert!(granted.rx.msg_order.contains(MsgOrder::SAS), "{info}");
        }
    }
}

/// Checks a refusal: a provider that takes every receive for one of several messages would write
/// into returned buffers.
#[test]
fn default_flags_that_are_not_served_are_refused() {
    let (mut opened, mut refused) = (0, 0);
    for provider in ["shm", "tcp;ofi_rxm", "sockets", "udp;ofi_rxd"] {
        let mut hints = of(provider);
        hints.caps = Caps::MSG | Caps::MULTI_RECV;
        for flags in [OpFlags::empty(), OpFlags::MULTI_RECV] {
            hints.rx_attr.op_flags = flags;
            for info in all(&hints) {
                let granted = info.attributes().rx.op_flags.intersection(OpFlags::MULTI_RECV);
                match Domain::open(&info) {
                    Err(OpenError::OpFlags(flags)) => {
                        assert_eq!(flags, granted, "{info}");
                        refused += 1;
                    }
                    domain => {
                        domain.unwrap();
                        assert!(granted.is_empty(), "{info}");
                        opened += 1;
                    }
                }
            }
        }
    }
    assert!(opened > 0 && refused > 0, "{opened} opened, {refused:#} refused");
}

#[test]
fn the_domain_attributes_are_requested_too() {
    let mut hints = of("tcp;ofi_rxm");
    hints.domain_attr.resource_mgmt = ResourceMgmt::ENABLED;
    hints.domain_attr.ep_cnt = 2;
    for info in all(&hints) {
        assert_eq!(info.attributes().domain.resource_mgmt, ResourceMgmt::ENABLED);
        assert!(info.attributes().domain.ep_cnt >= 2);
    }
    // The type determines the threading level, so hints do not.
    hints.domain_attr.threading = Threading::UNSPEC;
    for info in Ofi::<Shared>::query(&hints).unwrap() {
        assert_eq!(info.attributes().domain.threading, Threading::SAFE);
    }
}

#[test]
fn an_older_interface_can_be_requested() {
    let newest = Version::new(1, 17);
    let asked = |version| Ofi::<Local>::query(&Hints { api_version: Some(version), ..of("tcp;ofi_rxm") });
    for version in [Version::new(1, 9), newest] {
        for info in asked(version).unwrap() {
            assert_eq!(info.attributes().api_version, version);
        }
    }
    for version in [Version::new(1, 4), Version::new(99, 0)] {
        match asked(version).unwrap_err() {
            QueryError::ApiVersion { asked, oldest, newest } => {
                assert_eq!(asked, version);
                assert!(!(oldest..=newest).contains(&asked));
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn an_info_has_the_requested_addresses() {
    let address = EndpointAddr::from(SocketAddr::from(([127, 0, 0, 1], 0)));
    let peer = EndpointAddr::from(SocketAddr::from(([127, 0, 0, 1], 4711)));
    let hints = Hints { source: Some(&address), destination: Some(&peer), ..of("tcp;ofi_rxm") };
    let found = all(&hints);
    for info in &found {
        let source = info.source_address().and_then(|address| SocketAddr::try_from(&address).ok());
        assert_eq!(source.map(|source| source.ip()), Some([127, 0, 0, 1].into()), "{info}");
        let destination = info.destination_address().and_then(|address| SocketAddr::try_from(&address).ok());
        assert_eq!(destination, Some(SocketAddr::from(([127, 0, 0, 1], 4711))), "{info}");
    }
    assert!(!found.is_empty() || all(&of("tcp;ofi_rxm")).is_empty());
}

/// Checks the refusal of addresses that do not fit their format. No provider of 1.17 follows the
/// flag if the node is a name, so this is its only visible effect.
#[test]
fn addresses_that_contradict_their_format_are_refused() {
    let good = EndpointAddr::from(SocketAddr::from(([127, 0, 0, 1], 0)));
    let six = EndpointAddr::from(SocketAddr::from(([0u16; 8], 0)));
    let short = EndpointAddr::new(AddressFormat::SOCKADDR_IN6, &[10, 0]).unwrap();
    let endless = EndpointAddr::new(AddressFormat::ADDR_STR, b"aaa").unwrap();
    let odd = EndpointAddr::new(AddressFormat::SOCKADDR_IN6, good.bytes()).unwrap();
    let unknown = EndpointAddr::new(AddressFormat::ADDR_GNI, &[0; 8]).unwrap();
    let refused = |source, destination, addr_format| {
        let hints = Hints { source, destination, addr_format, ..Hints::default() };
        Ofi::<Local>::query(&hints).unwrap_err() == QueryError::Address
    };
    let any = AddressFormat::UNSPEC;
    for bad in [&short, &endless, &odd, &unknown] {
        assert!(refused(Some(bad), None, any) && refused(None, Some(bad), any), "{bad:?}");
        assert!(refused(Some(bad), None, bad.format()), "{bad:?}");
    }
    assert!(refused(Some(&six), Some(&good), any), "of two formats");
    assert!(refused(Some(&good), None, AddressFormat::SOCKADDR_IN6), "of another format");
}

#[test]
fn attributes_without_a_header_field_are_not_offered() {
    for change in [
        |hints: &mut Hints<'_>| hints.domain_attr.max_ep_auth_key = 9,
        |hints: &mut Hints<'_>| hints.domain_attr.max_group_id = 3,
    ] {
        let mut hints = Hints::default();
        change(&mut hints);
        for info in all(&hints) {
            let granted = &info.attributes().domain;
            assert!(granted.max_ep_auth_key >= hints.domain_attr.max_ep_auth_key, "{info}");
            assert!(granted.max_group_id >= hints.domain_attr.max_group_id, "{info}");
        }
    }
}

#[test]
fn a_number_needs_no_look_up() {
    for provider in ["tcp;ofi_rxm", "udp", "sockets"] {
        let by = |numeric_host| {
            let (node, service) = (Some("127.0.0.1"), Some("4712"));
            let hints =
                Hints { node, service, listen: true, numeric_host, provider: Some(provider), ..Hints::default() };
            all(&hints).iter().map(|info| info.source_address()).collect::<Vec<_>>()
        };
        assert_eq!(by(true), by(false), "{provider}");
    }
}

#[test]
fn names_of_endpoints_of_shared_memory_cannot_be_chosen() {
    let source: EndpointAddr = "fi_shm://chosen".parse().unwrap();
    let named = Hints { node: Some("127.0.0.1"), listen: true, ..of("shm") };
    for hints in [named, Hints { source: Some(&source), ..of("shm") }] {
        assert_eq!(Ofi::<Local>::query(&hints).map(drop), Err(QueryError::ChosenName));
    }
    // Without a provider's name, the query finds the others.
    let any = Hints { node: Some("127.0.0.1"), listen: true, ..Hints::default() };
    let found = all(&any);
    assert!(!found.is_empty() && found.iter().all(|info| !["shm", "sm2"].contains(&info.provider())));
    // Without `listen`, the node is a peer.
    assert!(Ofi::<Local>::query(&Hints { node: Some("127.0.0.1"), ..of("shm") }).is_ok());
}

#[test]
fn keys_are_lent_for_the_question_only() {
    for provider in ["shm", "tcp;ofi_rxm"] {
        let key = vec![7; 16];
        let hints = Hints { domain_auth_key: Some(&key), endpoint_auth_key: Some(&key), ..of(provider) };
        // These providers have no keys, and may refuse or ignore them.
        println!("{provider} with keys: {} infos", all(&hints).len());
    }
}

#[test]
fn providers_are_named_with_their_versions() {
    let found: Vec<_> = providers().unwrap().map(|provider| (provider.name().to_owned(), provider.version())).collect();
    println!("{found:?}");
    for name in ["tcp", "shm"] {
        assert!(found.iter().any(|(found, version)| found == name && *version > Version::new(0, 0)), "{name}");
    }
}

#[test]
fn an_info_is_printed_in_one_line_or_in_libfabrics_words() {
    for info in all(&Hints::default()) {
        let (line, words) = (info.to_string(), info.raw().to_string());
        assert!(!line.contains('\n') && line.contains(info.provider()), "{line}");
        assert!(words.contains(info.provider()), "{words}");
        let prefix = if library_version() == headers_version() { "FI_" } else { "" };
        assert!(words.starts_with("fi_info:") || prefix.is_empty(), "{words}");
        let names = info.caps().to_string();
        for name in names.split(" | ").filter(|name| !name.starts_with("0x")) {
            assert!(words.contains(&format!("{prefix}{name}")), "{name} is not in {words}");
        }
        assert_eq!(info.clone().raw().to_string(), words, "a copy says the same");
    }
}

#[test]
fn infos_have_cards_if_their_providers_report_them() {
    for info in all(&Hints::default()) {
        if let Some(nic) = info.nic() {
            println!("{info}: {nic:?}");
            assert!(nic.device.name.is_some() || nic.link.address.is_some(), "an empty card");
        }
    }
}

#[test]
fn segments_longer_than_receives_have_room_for_are_refused() {
    const CHILD: &str = "LOOM_TEST_ASKS_FOR_SEGMENTS";
    if std::env::var_os(CHILD).is_some() {
        let of = |provider| Ofi::<Local>::query(&Hints { provider, ..Hints::default() });
        println!("result: {:?}", of(Some("tcp;ofi_rxm")).map(drop));
        assert!(
            of(None).unwrap().all(|info| !info.provider().ends_with("ofi_rxm")) == of(Some("tcp;ofi_rxm")).is_err()
        );
        return;
    }
    for (limit, result) in [
        ("1048577", "Err(SegmentLimit)"),
        ("-1", "Err(SegmentLimit)"),
        ("0x7fffffff", "Err(SegmentLimit)"),
        ("1048576", "Ok(())"),
        ("0", "Ok(())"),
    ] {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "discovery::segments_longer_than_receives_have_room_for_are_refused", "--nocapture"])
            .env(CHILD, "1")
            .env("FI_OFI_RXM_SAR_LIMIT", limit)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && said.contains(&format!("result: {result}")), "{limit}: {said}");
    }
}

const CHILD: &str = "LOOM_TEST_PRINTS_PARAMS";

#[test]
fn parameters_have_a_description_and_their_value() {
    if std::env::var_os(CHILD).is_some() {
        let params = params().unwrap();
        let logging = params.iter().find(|param| param.name == "FI_LOG_LEVEL");
        println!("value: {:?}", logging.map(|param| param.value));
        return;
    }
    let found = params().unwrap();
    assert!(found.iter().len() > 10);
    for param in found.iter() {
        assert!(!param.name.is_empty() && !param.help.is_empty(), "{param:?}");
        assert!(ParamType::NAMED.contains(&param.kind), "{param:?}");
    }
    let name = "discovery::parameters_have_a_description_and_their_value";
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .env("FI_LOG_LEVEL", "warn")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && said.contains("value: Some(Some(\"warn\"))"), "{said}");
    println!("libfabric {}: {} parameters", library_version(), found.iter().len());
}

/// Checks that an error repeats the name, and lists the existing ones.
#[test]
fn unknown_names_are_repeated_beside_those_that_exist() {
    let refused = |hints: &Hints<'_>| Ofi::<Local>::query(hints).map(drop).unwrap_err();
    for name in ["tpc;ofi_rxm", "tcp;rxm"] {
        let error = refused(&Hints { provider: Some(name), ..Hints::default() });
        let text = error.to_string();
        assert!(is_unknown(error, TextField::Provider) && error.is_no_match(), "{error:?}");
        assert!(text.contains(name) && text.contains("tcp") && text.contains("shm"), "{text}");
        let text = Error::from(error).to_string();
        assert!(text.contains(name), "{text}");
    }
    let long = "x".repeat(200);
    let text = refused(&Hints { provider: Some(&long), ..Hints::default() }).to_string();
    assert!(text.contains("xxx…`") && text.len() < 1000, "{text}");
    for provider in ["tcp;ofi_rxm", "sockets", "udp;ofi_rxd", "net", "tcp"] {
        if all(&of(provider)).is_empty() {
            continue;
        }
        for (node, listen) in [("no-such-host.invalid", false), ("no-such-host.invalid", true)] {
            let hints = Hints { node: Some(node), service: Some("4711"), listen, ..of(provider) };
            let error = refused(&hints);
            let text = error.to_string();
            println!("{provider} {listen}: {text}");
            assert!(is_unknown(error, TextField::Node) && error.is_no_match(), "{provider}: {error:?}");
            assert!(text.contains(node) && (!listen || text.contains("127.0.0.1")), "{provider}: {text}");
            assert!(Error::from(error).to_string().contains(node));
        }
        // The provider exists, but has fewer capabilities.
        let caps = Hints { caps: Caps::MSG | Caps::from_bits_retain(1 << 62), ..of(provider) };
        assert_eq!(refused(&caps), QueryError::NoMatch, "{provider}");
    }
}

/// Checks that each name without a provider is named, and no other.
#[test]
fn errors_name_the_hint_that_does_not_match() {
    let refused = |hints: &Hints<'_>| Ofi::<Local>::query(hints).map(drop).unwrap_err();
    let known = Hints { node: Some("127.0.0.1"), service: Some("4711"), ..Hints::default() };
    for provider in ["tcp;ofi_rxm", "sockets", "udp;ofi_rxd", "net", "tcp"] {
        let infos = all(&of(provider));
        if infos.is_empty() {
            continue;
        }
        let known = Hints { provider: Some(provider), ..known.clone() };
        for listen in [false, true] {
            for node in [None, known.node] {
                let error = refused(&Hints { node, service: Some("no-such-port"), listen, ..known.clone() });
                let text = error.to_string();
                assert!(is_unknown(error, TextField::Service) && error.is_no_match(), "{provider}: {error:?}");
                assert!(text.contains("service `no-such-port`") && !text.contains("host"), "{provider}: {text}");
                let text = Error::from(error).to_string();
                assert!(text.contains("service `no-such-port`"), "{provider}: {text}");
            }
        }
        let error = refused(&Hints { fabric: Some("no-such-fabric"), ..known.clone() });
        assert!(is_unknown(error, TextField::Fabric), "{provider}: {error:?}");
        let error = refused(&Hints { domain: Some("no-such-domain"), ..known.clone() });
        assert!(is_unknown(error, TextField::Domain), "{provider}: {error:?}");

        // The names exist, but not together with the other hints.
        let caps = Hints { caps: Caps::MSG | Caps::from_bits_retain(1 << 62), ..known.clone() };
        assert_eq!(refused(&caps), QueryError::NoMatch, "{provider}");
        let other_family = Hints { addr_format: AddressFormat::SOCKADDR_IN6, ..known.clone() };
        let of_domains = infos.iter().map(|info| Hints { domain: Some(info.domain()), ..known.clone() });
        for hints in of_domains.chain([other_family]) {
            if let Err(error) = Ofi::<Local>::query(&hints).map(drop) {
                assert_eq!(error, QueryError::NoMatch, "{provider}: {hints:?}");
            }
        }
    }
    // Only endpoints of shared memory accept the service, as their name.
    let error = refused(&Hints { service: Some("no-such-port"), listen: true, ..known });
    assert!(is_unknown(error, TextField::Service), "{error:?}");
    let shm = Hints { listen: true, service: Some("name"), ..of("shm") };
    if !all(&of("shm")).is_empty() {
        assert_eq!(refused(&shm), QueryError::ChosenName);
    }
}

fn is_unknown(error: QueryError, is: TextField) -> bool {
    matches!(error, QueryError::Unknown { field, .. } if field == is)
}

struct Provider;

impl Program for Provider {
    type Output = String;

    fn run<T: Transport + 'static>(self, info: &Info<T>) -> String {
        info.provider().to_owned()
    }
}

fn offered(hints: &Hints<'_>) -> Result<Vec<String>, Error> {
    Ok(AnyInfo::query(hints)?.iter().map(|offer| offer.run(Provider)).collect())
}

#[test]
fn offers_of_all_transports_are_ranked() {
    let ranks = Hints { caps: Caps::MSG | Caps::TAGGED, ..Hints::default() };
    let offers = offered(&ranks).unwrap();
    let first = |provider| offers.iter().position(|offer| offer == provider).expect(provider);
    let last = |provider| offers.iter().rposition(|offer| offer == provider).expect(provider);
    assert!(last("shm") < first("tcp;ofi_rxm"), "{offers:?}");
    if cfg!(feature = "tcp") {
        assert!(last("shm") < first("loom-tcp") && first("loom-tcp") < first("tcp;ofi_rxm"), "{offers:?}");
    }
    assert_eq!(first("soft"), offers.len() - 1, "{offers:?}");
    for provider in ["soft", "shm", "tcp;ofi_rxm"] {
        assert!(offered(&of(provider)).unwrap().iter().all(|offer| offer == provider));
    }
}

#[test]
fn query_without_an_offer_returns_the_error_of_the_named_transport() {
    let soft = Hints { caps: Caps::MULTICAST, provider: Some("soft"), ..Hints::default() };
    assert!(matches!(offered(&soft), Err(Error::Open(OpenError::NotGranted(Caps::MULTICAST)))));
    assert!(matches!(offered(&of("shn")), Err(Error::Unknown { what: "provider", .. })));
    #[cfg(feature = "tcp")]
    {
        let tcp = Hints { caps: Caps::ATOMIC, ..of("loom-tcp") };
        assert!(matches!(offered(&tcp), Err(Error::Open(OpenError::NotGranted(Caps::ATOMIC)))));
    }
}
