use super::{Hints, Info};
use crate::error::OpenError;
use crate::transport::Transport;
use crate::vocabulary::{
    AddressFormat, AvType, DomainAttributes, EndpointAttributes, EndpointType, Progress, Protocol, ResourceMgmt,
};

/// Compares fields of the same name: granted flags contain the requested ones, and sizes are at
/// least as large.
macro_rules! compared {
    ($attr:literal, $granted:ident, $requested:expr, flags: $($flag:ident)*, sizes: $($size:ident)*) => {[
        $((concat!($attr, ".", stringify!($flag)), $granted.$flag.contains($requested.$flag)),)*
        $((concat!($attr, ".", stringify!($size)), $requested.$size <= $granted.$size),)*
    ]};
}
pub(super) fn satisfies<T: Transport>(info: &Info<T>, hints: &Hints<'_>) -> Result<(), OpenError> {
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
    let (tx, rx) = (&granted.tx, &granted.rx);
    first_unmet(&compared! {
        "tx_attr", tx, hints.tx_attr,
        flags: caps op_flags msg_order comp_order,
        sizes: inject_size size iov_limit rma_iov_limit
    })?;
    first_unmet(&compared! {
        "rx_attr", rx, hints.rx_attr,
        flags: caps op_flags msg_order comp_order,
        sizes: total_buffered_recv size iov_limit
    })?;
    domain(&granted.domain, &hints.domain_attr)
}

fn first_unmet(fields: &[(&'static str, bool)]) -> Result<(), OpenError> {
    fields.iter().find(|(_, met)| !met).map_or(Ok(()), |(field, _)| Err(OpenError::NotOffered(field)))
}

fn endpoint(granted: &EndpointAttributes, requested: &EndpointAttributes) -> Result<(), OpenError> {
    first_unmet(&[
        ("endpoint_attr.kind", requested.kind == EndpointType::UNSPEC || requested.kind == granted.kind),
        ("endpoint_attr.protocol", requested.protocol == Protocol::UNSPEC || requested.protocol == granted.protocol),
    ])?;
    first_unmet(&compared! {
        "endpoint_attr", granted, requested,
        flags: ,
        sizes: protocol_version msg_prefix_size max_msg_size max_order_raw_size max_order_war_size
            max_order_waw_size tx_ctx_cnt rx_ctx_cnt
    })
}

fn domain(granted: &DomainAttributes, requested: &DomainAttributes) -> Result<(), OpenError> {
    let progress = |requested: Progress| requested == Progress::UNSPEC || requested == Progress::MANUAL;
    let resource_mgmt =
        requested.resource_mgmt == ResourceMgmt::UNSPEC || requested.resource_mgmt == granted.resource_mgmt;
    first_unmet(&[
        ("domain_attr.control_progress", progress(requested.control_progress)),
        ("domain_attr.data_progress", progress(requested.data_progress)),
        ("domain_attr.resource_mgmt", resource_mgmt),
        ("domain_attr.av_type", requested.av_type == AvType::UNSPEC || requested.av_type == granted.av_type),
    ])?;
    first_unmet(&compared! {
        "domain_attr", granted, requested,
        flags: caps,
        sizes: mr_key_size cq_data_size ep_cnt cq_cnt cntr_cnt tx_ctx_cnt rx_ctx_cnt max_ep_tx_ctx max_ep_rx_ctx
            max_ep_stx_ctx max_ep_srx_ctx mr_iov_limit max_err_data mr_cnt max_ep_auth_key max_group_id
    })
}
