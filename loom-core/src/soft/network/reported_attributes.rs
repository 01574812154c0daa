use super::NetworkAttr;
use crate::soft::shared::copy::{LIMIT, receive_limit, send_limit};
use crate::vocabulary::{
    AddressFormat, Attributes, AvType, Caps, DomainAttributes, EndpointAttributes, EndpointType, MrMode, MsgOrder,
    Progress, ResourceMgmt, RxAttributes, Threading, TxAttributes, Version,
};

pub(crate) const PROVIDER: &str = "soft";

const CAPS: Caps = Caps::MSG
    .union(Caps::TAGGED)
    .union(Caps::RMA)
    .union(Caps::ATOMIC)
    .union(Caps::SEND)
    .union(Caps::RECV)
    .union(Caps::READ)
    .union(Caps::WRITE)
    .union(Caps::REMOTE_READ)
    .union(Caps::REMOTE_WRITE)
    .union(Caps::DIRECTED_RECV)
    .union(Caps::SOURCE)
    .union(Caps::MULTI_RECV)
    .union(Caps::TAGGED_MULTI_RECV)
    .union(Caps::RMA_EVENT)
    .union(Caps::LOCAL_COMM);

/// RMA is done when its post returns, and messages arrive in order. `RAS` and `WAS` are missing,
/// because RMA does not wait for receives of earlier messages.
const MSG_ORDER: MsgOrder = MsgOrder::RAR
    .union(MsgOrder::RAW)
    .union(MsgOrder::WAR)
    .union(MsgOrder::WAW)
    .union(MsgOrder::SAR)
    .union(MsgOrder::SAW)
    .union(MsgOrder::SAS)
    .union(MsgOrder::RMA_RAR)
    .union(MsgOrder::RMA_RAW)
    .union(MsgOrder::RMA_WAR)
    .union(MsgOrder::RMA_WAW)
    .union(MsgOrder::ATOMIC_RAR)
    .union(MsgOrder::ATOMIC_RAW)
    .union(MsgOrder::ATOMIC_WAR)
    .union(MsgOrder::ATOMIC_WAW);

pub(crate) fn attributes(attr: &NetworkAttr) -> Attributes {
    let inject_size = attr.eager_size as usize;
    let caps = if attr.groups > 0 { CAPS.union(Caps::COLLECTIVE) } else { CAPS };
    Attributes {
        caps,
        addr_format: AddressFormat::ADDR_STR,
        endpoint: EndpointAttributes {
            kind: EndpointType::RDM,
            protocol_version: 1,
            max_msg_size: isize::MAX.unsigned_abs(),
            max_order_raw_size: usize::MAX,
            max_order_war_size: usize::MAX,
            max_order_waw_size: usize::MAX,
            mem_tag_format: 0xaaaa_aaaa_aaaa_aaaa,
            tx_ctx_cnt: 1,
            rx_ctx_cnt: 1,
            ..EndpointAttributes::default()
        },
        tx: TxAttributes {
            caps,
            msg_order: MSG_ORDER,
            inject_size,
            size: attr.tx_depth as usize,
            iov_limit: send_limit(inject_size),
            rma_iov_limit: LIMIT,
            ..TxAttributes::default()
        },
        rx: RxAttributes {
            caps,
            msg_order: MSG_ORDER,
            size: attr.rx_depth as usize,
            iov_limit: receive_limit(attr.rx_depth),
            ..RxAttributes::default()
        },
        domain: DomainAttributes {
            caps: Caps::LOCAL_COMM,
            threading: Threading::COMPLETION,
            control_progress: Progress::MANUAL,
            data_progress: Progress::MANUAL,
            resource_mgmt: ResourceMgmt::ENABLED,
            av_type: AvType::TABLE,
            mr_mode: MrMode::PROV_KEY,
            mr_key_size: size_of::<u64>(),
            cq_data_size: size_of::<u64>(),
            cq_cnt: usize::from(attr.endpoints) * 2,
            ep_cnt: attr.endpoints.into(),
            tx_ctx_cnt: attr.endpoints.into(),
            rx_ctx_cnt: attr.endpoints.into(),
            max_ep_tx_ctx: 1,
            max_ep_rx_ctx: 1,
            mr_iov_limit: 1,
            mr_cnt: attr.regions.into(),
            ..DomainAttributes::default()
        },
        provider_version: Version::new(0, 1),
        ..Attributes::default()
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    #[test]
    fn network_reports_its_attributes() {
        let made =
            NetworkAttr { endpoints: 3, tx_depth: 5, rx_depth: 7, eager_size: 64, regions: 11, ..NetworkAttr::DEFAULT };
        let Attributes { addr_format, endpoint, tx, rx, domain, provider_version, .. } = attributes(&made);
        assert_eq!((addr_format, provider_version), (AddressFormat::ADDR_STR, Version::new(0, 1)));
        assert_eq!((endpoint.kind, endpoint.protocol_version), (EndpointType::RDM, 1));
        assert_eq!((endpoint.tx_ctx_cnt, endpoint.rx_ctx_cnt), (1, 1));
        assert_eq!((tx.size, tx.inject_size, tx.rma_iov_limit), (5, 64, LIMIT));
        assert_eq!((rx.size, rx.iov_limit), (7, receive_limit(7)));
        for order in [tx.msg_order, rx.msg_order] {
            assert!(order.contains(MsgOrder::SAS | MsgOrder::RAW | MsgOrder::WAW | MsgOrder::RMA_WAW), "{order:?}");
        }
        assert_eq!((domain.threading, domain.resource_mgmt), (Threading::COMPLETION, ResourceMgmt::ENABLED));
        assert_eq!((domain.control_progress, domain.data_progress), (Progress::MANUAL, Progress::MANUAL));
        assert_eq!((domain.av_type, domain.mr_mode), (AvType::TABLE, MrMode::PROV_KEY));
        assert_eq!((domain.mr_key_size, domain.cq_data_size), (8, 8));
        assert_eq!((domain.ep_cnt, domain.cq_cnt), (3, 6));
        assert_eq!((domain.tx_ctx_cnt, domain.rx_ctx_cnt), (3, 3));
        assert_eq!((domain.max_ep_tx_ctx, domain.max_ep_rx_ctx), (1, 1));
        assert_eq!((domain.mr_cnt, domain.mr_iov_limit), (11, 1));
    }
}
