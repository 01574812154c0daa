//! Hints and the attributes of a network.

use loom_core::error::OpenError;
use loom_core::info::Hints;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::vocabulary::{
    Attributes, AvType, Caps, CompOrder, EndpointType, MsgOrder, OpFlags, Progress, Protocol, ResourceMgmt, Version,
};

type Change = fn(&mut Hints<'_>);

#[test]
fn a_network_grants_its_attributes_and_no_more() {
    let Ok(network) = Network::new(NetworkAttr::DEFAULT) else { panic!("the sizes are small") };
    let granted: Attributes = *network.info().attributes();
    let all = Hints {
        caps: granted.caps,
        addr_format: granted.addr_format,
        endpoint_attr: granted.endpoint,
        tx_attr: granted.tx,
        rx_attr: granted.rx,
        domain_attr: granted.domain,
        provider: Some("SOFT"),
        ..Hints::default()
    };
    assert!(network.query(&all).is_ok(), "what was granted can be asked for");
    let beyond: [(&str, Change); 25] = [
        ("domain_attr.cntr_cnt", |hints| hints.domain_attr.cntr_cnt = 1),
        ("domain_attr.tx_ctx_cnt", |hints| hints.domain_attr.tx_ctx_cnt += 1),
        ("endpoint_attr.msg_prefix_size", |hints| hints.endpoint_attr.msg_prefix_size = 64),
        ("caps", |hints| hints.caps |= Caps::MULTICAST),
        ("provider", |hints| hints.provider = Some("shm")),
        ("fabric", |hints| hints.fabric = Some("elsewhere")),
        ("domain", |hints| hints.domain = Some("elsewhere")),
        ("endpoint_attr.kind", |hints| hints.endpoint_attr.kind = EndpointType::MSG),
        ("endpoint_attr.protocol", |hints| hints.endpoint_attr.protocol = Protocol::SHM),
        ("endpoint_attr.max_msg_size", |hints| hints.endpoint_attr.max_msg_size += 1),
        ("endpoint_attr.tx_ctx_cnt", |hints| hints.endpoint_attr.tx_ctx_cnt = 2),
        ("tx_attr.msg_order", |hints| hints.tx_attr.msg_order |= MsgOrder::RAS),
        ("tx_attr.comp_order", |hints| hints.tx_attr.comp_order |= CompOrder::STRICT),
        ("tx_attr.inject_size", |hints| hints.tx_attr.inject_size += 1),
        ("tx_attr.size", |hints| hints.tx_attr.size += 1),
        ("tx_attr.op_flags", |hints| hints.tx_attr.op_flags |= OpFlags::DELIVERY_COMPLETE),
        ("rx_attr.iov_limit", |hints| hints.rx_attr.iov_limit += 1),
        ("rx_attr.total_buffered_recv", |hints| hints.rx_attr.total_buffered_recv += 1),
        ("domain_attr.control_progress", |hints| hints.domain_attr.control_progress = Progress::AUTO),
        ("domain_attr.resource_mgmt", |hints| hints.domain_attr.resource_mgmt = ResourceMgmt::DISABLED),
        ("domain_attr.av_type", |hints| hints.domain_attr.av_type = AvType::MAP),
        ("domain_attr.mr_cnt", |hints| hints.domain_attr.mr_cnt += 1),
        ("node", |hints| hints.node = Some("localhost")),
        ("endpoint_auth_key", |hints| hints.endpoint_auth_key = Some(b"key")),
        ("api_version", |hints| hints.api_version = Some(Version::new(1, 9))),
    ];
    for (field, change) in beyond {
        let mut hints = all.clone();
        change(&mut hints);
        let wanted =
            if field == "caps" { OpenError::NotGranted(Caps::MULTICAST) } else { OpenError::NotOffered(field) };
        assert_eq!(network.query(&hints).map(drop), Err(wanted));
    }
}
