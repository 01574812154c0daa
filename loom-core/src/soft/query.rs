//! Comparison of hints with the features of a network.

use super::transport::Soft;
use crate::error::OpenError;
use crate::info::{Hints, Info};
use crate::vocabulary::{
    AddressFormat, AvType, DomainAttributes, EndpointAttributes, EndpointType, Progress, Protocol, ResourceMgmt,
    RxAttributes, TxAttributes, WaitObj,
};

pub(super) fn satisfies(info: &Info<Soft<'_>>, hints: &Hints<'_>) -> Result<(), OpenError> {
    let granted = info.attributes();
    let missing = hints.caps - granted.caps;
    if !missing.is_empty() {
        return Err(OpenError::NotGranted(missing));
    }
    let named = |wanted: Option<&str>, name: &str| wanted.is_none_or(|wanted| wanted.eq_ignore_ascii_case(name));
    first_unmet(&[
        ("provider", named(hints.provider, info.provider())),
        ("fabric", named(hints.fabric, info.fabric())),
        ("domain", named(hints.domain, info.domain())),
        ("addr_format", hints.addr_format == AddressFormat::UNSPEC || hints.addr_format == granted.addr_format),
        ("source", hints.source.is_none()),
        ("destination", hints.destination.is_none()),
        ("node", hints.node.is_none()),
        ("service", hints.service.is_none()),
        ("domain_auth_key", hints.domain_auth_key.is_none()),
        ("endpoint_auth_key", hints.endpoint_auth_key.is_none()),
        ("api_version", hints.api_version.is_none()),
    ])?;
    endpoint(&granted.endpoint, &hints.endpoint_attr)?;
    tx(&granted.tx, &hints.tx_attr)?;
    rx(&granted.rx, &hints.rx_attr)?;
    domain(&granted.domain, &hints.domain_attr)
}

fn first_unmet(fields: &[(&'static str, bool)]) -> Result<(), OpenError> {
    fields.iter().find(|(_, met)| !met).map_or(Ok(()), |(field, _)| Err(OpenError::NotOffered(field)))
}

fn endpoint(granted: &EndpointAttributes, asked: &EndpointAttributes) -> Result<(), OpenError> {
    first_unmet(&[
        ("endpoint_attr.kind", asked.kind == EndpointType::UNSPEC || asked.kind == granted.kind),
        ("endpoint_attr.protocol", asked.protocol == Protocol::UNSPEC),
        ("endpoint_attr.protocol_version", asked.protocol_version <= granted.protocol_version),
        ("endpoint_attr.msg_prefix_size", asked.msg_prefix_size <= granted.msg_prefix_size),
        ("endpoint_attr.max_msg_size", asked.max_msg_size <= granted.max_msg_size),
        ("endpoint_attr.max_order_raw_size", asked.max_order_raw_size <= granted.max_order_raw_size),
        ("endpoint_attr.max_order_war_size", asked.max_order_war_size <= granted.max_order_war_size),
        ("endpoint_attr.max_order_waw_size", asked.max_order_waw_size <= granted.max_order_waw_size),
        ("endpoint_attr.tx_ctx_cnt", asked.tx_ctx_cnt <= granted.tx_ctx_cnt),
        ("endpoint_attr.rx_ctx_cnt", asked.rx_ctx_cnt <= granted.rx_ctx_cnt),
    ])
}

fn tx(granted: &TxAttributes, asked: &TxAttributes) -> Result<(), OpenError> {
    first_unmet(&[
        ("tx_attr.caps", granted.caps.contains(asked.caps)),
        ("tx_attr.op_flags", granted.op_flags.contains(asked.op_flags)),
        ("tx_attr.msg_order", granted.msg_order.contains(asked.msg_order)),
        ("tx_attr.comp_order", granted.comp_order.contains(asked.comp_order)),
        ("tx_attr.inject_size", asked.inject_size <= granted.inject_size),
        ("tx_attr.size", asked.size <= granted.size),
        ("tx_attr.iov_limit", asked.iov_limit <= granted.iov_limit),
        ("tx_attr.rma_iov_limit", asked.rma_iov_limit <= granted.rma_iov_limit),
    ])
}

fn rx(granted: &RxAttributes, asked: &RxAttributes) -> Result<(), OpenError> {
    first_unmet(&[
        ("rx_attr.caps", granted.caps.contains(asked.caps)),
        ("rx_attr.op_flags", granted.op_flags.contains(asked.op_flags)),
        ("rx_attr.msg_order", granted.msg_order.contains(asked.msg_order)),
        ("rx_attr.comp_order", granted.comp_order.contains(asked.comp_order)),
        ("rx_attr.total_buffered_recv", asked.total_buffered_recv <= granted.total_buffered_recv),
        ("rx_attr.size", asked.size <= granted.size),
        ("rx_attr.iov_limit", asked.iov_limit <= granted.iov_limit),
    ])
}

fn domain(granted: &DomainAttributes, asked: &DomainAttributes) -> Result<(), OpenError> {
    let progress = |asked: Progress| asked == Progress::UNSPEC || asked == Progress::MANUAL;
    first_unmet(&[
        ("domain_attr.control_progress", progress(asked.control_progress)),
        ("domain_attr.data_progress", progress(asked.data_progress)),
        (
            "domain_attr.resource_mgmt",
            asked.resource_mgmt == ResourceMgmt::UNSPEC || asked.resource_mgmt == granted.resource_mgmt,
        ),
        ("domain_attr.av_type", asked.av_type == AvType::UNSPEC || asked.av_type == granted.av_type),
        ("domain_attr.caps", granted.caps.contains(asked.caps)),
        ("domain_attr.mr_key_size", asked.mr_key_size <= granted.mr_key_size),
        ("domain_attr.cq_data_size", asked.cq_data_size <= granted.cq_data_size),
        ("domain_attr.ep_cnt", asked.ep_cnt <= granted.ep_cnt),
        ("domain_attr.cq_cnt", asked.cq_cnt <= granted.cq_cnt),
        ("domain_attr.cntr_cnt", asked.cntr_cnt <= granted.cntr_cnt),
        ("domain_attr.tx_ctx_cnt", asked.tx_ctx_cnt <= granted.tx_ctx_cnt),
        ("domain_attr.rx_ctx_cnt", asked.rx_ctx_cnt <= granted.rx_ctx_cnt),
        ("domain_attr.max_ep_tx_ctx", asked.max_ep_tx_ctx <= granted.max_ep_tx_ctx),
        ("domain_attr.max_ep_rx_ctx", asked.max_ep_rx_ctx <= granted.max_ep_rx_ctx),
        ("domain_attr.max_ep_stx_ctx", asked.max_ep_stx_ctx <= granted.max_ep_stx_ctx),
        ("domain_attr.max_ep_srx_ctx", asked.max_ep_srx_ctx <= granted.max_ep_srx_ctx),
        ("domain_attr.mr_iov_limit", asked.mr_iov_limit <= granted.mr_iov_limit),
        ("domain_attr.max_err_data", asked.max_err_data <= granted.max_err_data),
        ("domain_attr.mr_cnt", asked.mr_cnt <= granted.mr_cnt),
        ("domain_attr.max_ep_auth_key", asked.max_ep_auth_key <= granted.max_ep_auth_key),
        ("domain_attr.max_group_id", asked.max_group_id <= granted.max_group_id),
    ])
}
