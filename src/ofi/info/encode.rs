use loom_core::info::Hints;
use loom_core::vocabulary::{
    DomainAttributes, EndpointAttributes, Mode, MrMode, RxAttributes, Threading, TxAttributes,
};

use crate::ofi::sys;

const MODE: Mode = Mode::CONTEXT.union(Mode::CONTEXT2).union(Mode::ASYNC_IOV).union(Mode::RX_CQ_DATA);
const MR_MODE: MrMode = MrMode::VIRT_ADDR
    .union(MrMode::ALLOCATED)
    .union(MrMode::PROV_KEY)
    .union(MrMode::RMA_EVENT)
    .union(MrMode::COLLECTIVE);

pub(crate) const fn is_expressible(hints: &Hints<'_>) -> bool {
    (cfg!(libfabric_has_total_buffered_recv) || hints.rx_attr.total_buffered_recv == 0)
        && (cfg!(libfabric_has_max_ep_auth_key) || hints.domain_attr.max_ep_auth_key == 0)
        && (cfg!(libfabric_has_max_group_id) || hints.domain_attr.max_group_id == 0)
}

pub(crate) fn info(raw: &mut sys::fi_info, hints: &Hints<'_>) {
    raw.caps = hints.caps.bits();
    raw.mode = MODE.union(hints.mode).bits();
    raw.addr_format = hints.addr_format.as_raw();
}

pub(crate) fn endpoint(raw: &mut sys::fi_ep_attr, hints: &EndpointAttributes) {
    raw.type_ = hints.kind.as_raw();
    raw.protocol = hints.protocol.as_raw();
    raw.protocol_version = hints.protocol_version;
    raw.max_msg_size = hints.max_msg_size;
    raw.msg_prefix_size = hints.msg_prefix_size;
    raw.max_order_raw_size = hints.max_order_raw_size;
    raw.max_order_war_size = hints.max_order_war_size;
    raw.max_order_waw_size = hints.max_order_waw_size;
    raw.mem_tag_format = hints.mem_tag_format;
    raw.tx_ctx_cnt = hints.tx_ctx_cnt;
    raw.rx_ctx_cnt = hints.rx_ctx_cnt;
}

pub(crate) fn tx(raw: &mut sys::fi_tx_attr, hints: &TxAttributes) {
    raw.caps = hints.caps.bits();
    raw.op_flags = hints.op_flags.bits();
    raw.msg_order = hints.msg_order.bits();
    raw.comp_order = hints.comp_order.bits();
    raw.inject_size = hints.inject_size;
    raw.size = hints.size;
    raw.iov_limit = hints.iov_limit;
    raw.rma_iov_limit = hints.rma_iov_limit;
    raw.tclass = hints.tclass.as_raw();
}

pub(crate) fn rx(raw: &mut sys::fi_rx_attr, hints: &RxAttributes) {
    raw.caps = hints.caps.bits();
    raw.op_flags = hints.op_flags.bits();
    raw.msg_order = hints.msg_order.bits();
    raw.comp_order = hints.comp_order.bits();
    #[cfg(libfabric_has_total_buffered_recv)]
    {
        raw.total_buffered_recv = hints.total_buffered_recv;
    }
    raw.size = hints.size;
    // `iov_limit` is compared after the query: providers grant at most the hint, which would
    // include the last piece.
}

pub(crate) fn domain(raw: &mut sys::fi_domain_attr, hints: &DomainAttributes, threading: Threading) {
    raw.threading = threading.as_raw();
    raw.control_progress = hints.control_progress.as_raw();
    #[cfg(libfabric_has_progress)]
    {
        raw.__bindgen_anon_1.data_progress = hints.data_progress.as_raw();
    }
    #[cfg(not(libfabric_has_progress))]
    {
        raw.data_progress = hints.data_progress.as_raw();
    }
    raw.resource_mgmt = hints.resource_mgmt.as_raw();
    raw.av_type = hints.av_type.as_raw();
    raw.mr_mode = MR_MODE.union(hints.mr_mode).bits().cast_signed();
    raw.mr_key_size = hints.mr_key_size;
    raw.cq_data_size = hints.cq_data_size;
    raw.cq_cnt = hints.cq_cnt;
    raw.ep_cnt = hints.ep_cnt;
    raw.tx_ctx_cnt = hints.tx_ctx_cnt;
    raw.rx_ctx_cnt = hints.rx_ctx_cnt;
    raw.max_ep_tx_ctx = hints.max_ep_tx_ctx;
    raw.max_ep_rx_ctx = hints.max_ep_rx_ctx;
    raw.max_ep_stx_ctx = hints.max_ep_stx_ctx;
    raw.max_ep_srx_ctx = hints.max_ep_srx_ctx;
    raw.cntr_cnt = hints.cntr_cnt;
    raw.mr_iov_limit = hints.mr_iov_limit;
    raw.caps = hints.caps.bits();
    raw.max_err_data = hints.max_err_data;
    raw.mr_cnt = hints.mr_cnt;
    raw.tclass = hints.tclass.as_raw();
    #[cfg(libfabric_has_max_ep_auth_key)]
    {
        raw.max_ep_auth_key = hints.max_ep_auth_key;
    }
    #[cfg(libfabric_has_max_group_id)]
    {
        raw.max_group_id = hints.max_group_id;
    }
}
