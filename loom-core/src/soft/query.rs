//! Whether a network grants what somebody asks for.

use super::transport::Soft;
use crate::objects::info::{Hints, Info};
use crate::vocabulary::{
    AddressFormat, AvType, DomainAttributes, EndpointAttributes, EndpointType, Progress, Protocol, ResourceMgmt,
    RxAttributes, TxAttributes, WaitObj,
};

impl Info<Soft<'_>> {
    /// Whether queues can be slept on that are opened with this object ([`CqAttr::wait`](crate::objects::cq::CqAttr::wait)): an info of
    /// libfabric says nothing of that.
    ///
    /// With the feature `std` on a Unix system, [`WaitObj::FD`] can be, and [`WaitObj::UNSPEC`], which has no descriptor; not in a
    /// [strict](crate::soft::NetworkAttr::strict) network. Counters cannot be slept on.
    #[must_use]
    pub fn can_sleep_on(&self, wait: WaitObj) -> bool {
        self.raw().net.can_sleep(wait)
    }
}

/// Whether a network's info satisfies what somebody asks for.
pub(super) fn satisfies(info: &Info<Soft<'_>>, hints: &Hints<'_>) -> bool {
    let granted = info.attributes();
    let named = |wanted: Option<&str>, name: &str| wanted.is_none_or(|wanted| wanted.eq_ignore_ascii_case(name));
    granted.caps.contains(hints.caps)
        && named(hints.provider, info.provider())
        && named(hints.fabric, info.fabric())
        && named(hints.domain, info.domain())
        && (hints.addr_format == AddressFormat::UNSPEC || hints.addr_format == granted.addr_format)
        && endpoint(&granted.endpoint, &hints.endpoint_attr)
        && tx(&granted.tx, &hints.tx_attr)
        && rx(&granted.rx, &hints.rx_attr)
        && domain(&granted.domain, &hints.domain_attr)
        // Endpoints choose their addresses themselves, there is no one to show a key to, and no interface of another version.
        && hints.source.is_none()
        && hints.destination.is_none()
        && hints.node.is_none()
        && hints.service.is_none()
        && hints.domain_auth_key.is_none()
        && hints.endpoint_auth_key.is_none()
        && hints.api_version.is_none()
}

fn endpoint(granted: &EndpointAttributes, asked: &EndpointAttributes) -> bool {
    (asked.kind == EndpointType::UNSPEC || asked.kind == granted.kind)
        && asked.protocol == Protocol::UNSPEC
        && asked.protocol_version <= granted.protocol_version
        && asked.msg_prefix_size <= granted.msg_prefix_size
        && asked.max_msg_size <= granted.max_msg_size
        && asked.max_order_raw_size <= granted.max_order_raw_size
        && asked.max_order_war_size <= granted.max_order_war_size
        && asked.max_order_waw_size <= granted.max_order_waw_size
        && asked.tx_ctx_cnt <= granted.tx_ctx_cnt
        && asked.rx_ctx_cnt <= granted.rx_ctx_cnt
}

fn tx(granted: &TxAttributes, asked: &TxAttributes) -> bool {
    granted.caps.contains(asked.caps)
        && granted.op_flags.contains(asked.op_flags)
        && granted.msg_order.contains(asked.msg_order)
        && granted.comp_order.contains(asked.comp_order)
        && asked.inject_size <= granted.inject_size
        && asked.size <= granted.size
        && asked.iov_limit <= granted.iov_limit
        && asked.rma_iov_limit <= granted.rma_iov_limit
}

fn rx(granted: &RxAttributes, asked: &RxAttributes) -> bool {
    granted.caps.contains(asked.caps)
        && granted.op_flags.contains(asked.op_flags)
        && granted.msg_order.contains(asked.msg_order)
        && granted.comp_order.contains(asked.comp_order)
        && asked.total_buffered_recv <= granted.total_buffered_recv
        && asked.size <= granted.size
        && asked.iov_limit <= granted.iov_limit
}

fn domain(granted: &DomainAttributes, asked: &DomainAttributes) -> bool {
    let progress = |asked: Progress| asked == Progress::UNSPEC || asked == Progress::MANUAL;
    progress(asked.control_progress)
        && progress(asked.data_progress)
        && (asked.resource_mgmt == ResourceMgmt::UNSPEC || asked.resource_mgmt == granted.resource_mgmt)
        && (asked.av_type == AvType::UNSPEC || asked.av_type == granted.av_type)
        && granted.caps.contains(asked.caps)
        && asked.mr_key_size <= granted.mr_key_size
        && asked.cq_data_size <= granted.cq_data_size
        && asked.ep_cnt <= granted.ep_cnt
        && asked.cq_cnt <= granted.cq_cnt
        && asked.cntr_cnt <= granted.cntr_cnt
        && asked.tx_ctx_cnt <= granted.tx_ctx_cnt
        && asked.rx_ctx_cnt <= granted.rx_ctx_cnt
        && asked.max_ep_tx_ctx <= granted.max_ep_tx_ctx
        && asked.max_ep_rx_ctx <= granted.max_ep_rx_ctx
        && asked.max_ep_stx_ctx <= granted.max_ep_stx_ctx
        && asked.max_ep_srx_ctx <= granted.max_ep_srx_ctx
        && asked.mr_iov_limit <= granted.mr_iov_limit
        && asked.max_err_data <= granted.max_err_data
        && asked.mr_cnt <= granted.mr_cnt
        && asked.max_ep_auth_key <= granted.max_ep_auth_key
        && asked.max_group_id <= granted.max_group_id
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use crate::objects::info::Hints;
    use crate::soft::{Network, NetworkAttr};
    use crate::vocabulary::{
        Attributes, AvType, Caps, CompOrder, EndpointType, MsgOrder, OpFlags, Progress, Protocol, ResourceMgmt, Version,
    };

    type Change = fn(&mut Hints<'_>);

    #[test]
    fn a_network_grants_what_it_says_and_nothing_beyond() {
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
        assert!(network.query(&all).is_some(), "what was granted can be asked for");
        let beyond: [Change; 25] = [
            |hints| hints.domain_attr.cntr_cnt = 1,
            |hints| hints.domain_attr.tx_ctx_cnt += 1,
            |hints| hints.endpoint_attr.msg_prefix_size = 64,
            |hints| hints.caps |= Caps::MULTICAST,
            |hints| hints.provider = Some("shm"),
            |hints| hints.fabric = Some("elsewhere"),
            |hints| hints.domain = Some("elsewhere"),
            |hints| hints.endpoint_attr.kind = EndpointType::MSG,
            |hints| hints.endpoint_attr.protocol = Protocol::SHM,
            |hints| hints.endpoint_attr.max_msg_size += 1,
            |hints| hints.endpoint_attr.tx_ctx_cnt = 2,
            |hints| hints.tx_attr.msg_order |= MsgOrder::RAS,
            |hints| hints.tx_attr.comp_order |= CompOrder::STRICT,
            |hints| hints.tx_attr.inject_size += 1,
            |hints| hints.tx_attr.size += 1,
            |hints| hints.tx_attr.op_flags |= OpFlags::DELIVERY_COMPLETE,
            |hints| hints.rx_attr.iov_limit += 1,
            |hints| hints.rx_attr.total_buffered_recv += 1,
            |hints| hints.domain_attr.control_progress = Progress::AUTO,
            |hints| hints.domain_attr.resource_mgmt = ResourceMgmt::DISABLED,
            |hints| hints.domain_attr.av_type = AvType::MAP,
            |hints| hints.domain_attr.mr_cnt += 1,
            |hints| hints.node = Some("localhost"),
            |hints| hints.endpoint_auth_key = Some(b"key"),
            |hints| hints.api_version = Some(Version::new(1, 9)),
        ];
        for (index, change) in beyond.iter().enumerate() {
            let mut hints = all.clone();
            change(&mut hints);
            assert!(network.query(&hints).is_none(), "change {index}");
        }
    }
}
