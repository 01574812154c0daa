#![allow(unsafe_code, reason = "follows pointers in an `fi_info`")]

use loom_core::vocabulary::{
    AddressFormat, Attributes, AvType, Caps, CompOrder, DomainAttributes, EndpointAttributes, EndpointType, Mode,
    MrMode, MsgOrder, OpFlags, Progress, Protocol, ResourceMgmt, RxAttributes, Threading, TrafficClass, TxAttributes,
    Version,
};

use super::RawInfo;
use crate::ofi::sys;

pub(crate) fn attributes(info: &RawInfo) -> Attributes {
    let fields = info.fields();
    // SAFETY: null, or owned by the borrowed info.
    let fabric = unsafe { fields.fabric_attr.as_ref() };
    // SAFETY: null, or owned by the info.
    let endpoint = unsafe { fields.ep_attr.as_ref() };
    // SAFETY: null, or owned by the info.
    let tx = unsafe { fields.tx_attr.as_ref() };
    // SAFETY: null, or owned by the info.
    let rx = unsafe { fields.rx_attr.as_ref() };
    // SAFETY: null, or owned by the info.
    let domain = unsafe { fields.domain_attr.as_ref() };
    Attributes {
        caps: Caps::from_bits_retain(fields.caps),
        mode: Mode::from_bits_retain(fields.mode),
        addr_format: AddressFormat::from_raw(fields.addr_format),
        endpoint: endpoint.map(endpoint_attributes).unwrap_or_default(),
        tx: tx.map(tx_attributes).unwrap_or_default(),
        rx: rx.map(rx_attributes).unwrap_or_default(),
        domain: domain.map(domain_attributes).unwrap_or_default(),
        api_version: fabric.map(|fabric| Version::from_raw(fabric.api_version)).unwrap_or_default(),
        provider_version: fabric.map(|fabric| Version::from_raw(fabric.prov_version)).unwrap_or_default(),
    }
}

fn endpoint_attributes(raw: &sys::fi_ep_attr) -> EndpointAttributes {
    EndpointAttributes {
        kind: EndpointType::from_raw(raw.type_),
        protocol: Protocol::from_raw(raw.protocol),
        protocol_version: raw.protocol_version,
        max_msg_size: raw.max_msg_size,
        msg_prefix_size: raw.msg_prefix_size,
        max_order_raw_size: raw.max_order_raw_size,
        max_order_war_size: raw.max_order_war_size,
        max_order_waw_size: raw.max_order_waw_size,
        mem_tag_format: raw.mem_tag_format,
        tx_ctx_cnt: raw.tx_ctx_cnt,
        rx_ctx_cnt: raw.rx_ctx_cnt,
    }
}

fn tx_attributes(raw: &sys::fi_tx_attr) -> TxAttributes {
    TxAttributes {
        caps: Caps::from_bits_retain(raw.caps),
        mode: Mode::from_bits_retain(raw.mode),
        op_flags: OpFlags::from_bits_retain(raw.op_flags),
        msg_order: MsgOrder::from_bits_retain(raw.msg_order),
        comp_order: CompOrder::from_bits_retain(raw.comp_order),
        inject_size: raw.inject_size,
        size: raw.size,
        iov_limit: raw.iov_limit,
        rma_iov_limit: raw.rma_iov_limit,
        tclass: TrafficClass::from_raw(raw.tclass),
    }
}

fn rx_attributes(raw: &sys::fi_rx_attr) -> RxAttributes {
    RxAttributes {
        caps: Caps::from_bits_retain(raw.caps),
        mode: Mode::from_bits_retain(raw.mode),
        op_flags: OpFlags::from_bits_retain(raw.op_flags),
        msg_order: MsgOrder::from_bits_retain(raw.msg_order),
        comp_order: CompOrder::from_bits_retain(raw.comp_order),
        #[cfg(libfabric_has_total_buffered_recv)]
        total_buffered_recv: raw.total_buffered_recv,
        #[cfg(not(libfabric_has_total_buffered_recv))]
        total_buffered_recv: 0,
        size: raw.size,
        iov_limit: raw.iov_limit,
    }
}

#[cfg(libfabric_has_progress)]
fn data_progress(raw: &sys::fi_domain_attr) -> sys::fi_progress {
    // SAFETY: both members of the union are the same number.
    unsafe { raw.__bindgen_anon_1.data_progress }
}

#[cfg(not(libfabric_has_progress))]
fn data_progress(raw: &sys::fi_domain_attr) -> sys::fi_progress {
    raw.data_progress
}

fn domain_attributes(raw: &sys::fi_domain_attr) -> DomainAttributes {
    DomainAttributes {
        threading: Threading::from_raw(raw.threading),
        control_progress: Progress::from_raw(raw.control_progress),
        data_progress: Progress::from_raw(data_progress(raw)),
        resource_mgmt: ResourceMgmt::from_raw(raw.resource_mgmt),
        av_type: AvType::from_raw(raw.av_type),
        mr_mode: MrMode::from_bits_retain(raw.mr_mode.cast_unsigned()),
        mr_key_size: raw.mr_key_size,
        cq_data_size: raw.cq_data_size,
        cq_cnt: raw.cq_cnt,
        ep_cnt: raw.ep_cnt,
        tx_ctx_cnt: raw.tx_ctx_cnt,
        rx_ctx_cnt: raw.rx_ctx_cnt,
        max_ep_tx_ctx: raw.max_ep_tx_ctx,
        max_ep_rx_ctx: raw.max_ep_rx_ctx,
        max_ep_stx_ctx: raw.max_ep_stx_ctx,
        max_ep_srx_ctx: raw.max_ep_srx_ctx,
        cntr_cnt: raw.cntr_cnt,
        mr_iov_limit: raw.mr_iov_limit,
        caps: Caps::from_bits_retain(raw.caps),
        mode: Mode::from_bits_retain(raw.mode),
        max_err_data: raw.max_err_data,
        mr_cnt: raw.mr_cnt,
        tclass: TrafficClass::from_raw(raw.tclass),
        #[cfg(libfabric_has_max_ep_auth_key)]
        max_ep_auth_key: raw.max_ep_auth_key,
        #[cfg(not(libfabric_has_max_ep_auth_key))]
        max_ep_auth_key: 0,
        #[cfg(libfabric_has_max_group_id)]
        max_group_id: raw.max_group_id,
        #[cfg(not(libfabric_has_max_group_id))]
        max_group_id: 0,
    }
}
