use serde_json::{Value, json};

use super::machine;
use super::offer::{Card, Found, Offer};

fn names(flags: &impl ToString) -> Vec<String> {
    flags.to_string().split(" | ").filter(|name| *name != "0x0").map(str::to_owned).collect()
}

fn card(card: &Card) -> Value {
    json!({
        "device": card.device,
        "driver": card.driver,
        "pci": card.pci,
        "bits_per_second": card.bits_per_second,
        "mtu": card.mtu,
        "link": card.link.to_string(),
    })
}

fn offer(offer: &Offer) -> Value {
    let all = &offer.attributes;
    json!({
        "provider": offer.provider,
        "provider_version": all.provider_version.to_string(),
        "tested": offer.tested,
        "fabric": offer.fabric,
        "domain": offer.domain,
        "address": offer.address,
        "addr_format": all.addr_format.to_string(),
        "caps": names(&all.caps),
        "caps_on_request": names(&offer.on_request),
        "mode": names(&all.mode),
        "endpoint": {
            "type": all.endpoint.kind.to_string(),
            "protocol": all.endpoint.protocol.to_string(),
            "max_msg_size": all.endpoint.max_msg_size,
            "msg_prefix_size": all.endpoint.msg_prefix_size,
            "mem_tag_format": format!("{:#x}", all.endpoint.mem_tag_format),
        },
        "tx": {
            "msg_order": names(&all.tx.msg_order),
            "comp_order": names(&all.tx.comp_order),
            "inject_size": all.tx.inject_size,
            "size": all.tx.size,
            "iov_limit": all.tx.iov_limit,
            "rma_iov_limit": all.tx.rma_iov_limit,
        },
        "rx": {
            "msg_order": names(&all.rx.msg_order),
            "comp_order": names(&all.rx.comp_order),
            "size": all.rx.size,
            "iov_limit": all.rx.iov_limit,
        },
        "domain_attr": {
            "threading": all.domain.threading.to_string(),
            "control_progress": all.domain.control_progress.to_string(),
            "data_progress": all.domain.data_progress.to_string(),
            "resource_mgmt": all.domain.resource_mgmt.to_string(),
            "av_type": all.domain.av_type.to_string(),
            "mr_mode": names(&all.domain.mr_mode),
            "mr_key_size": all.domain.mr_key_size,
            "cq_data_size": all.domain.cq_data_size,
            "ep_cnt": all.domain.ep_cnt,
            "cq_cnt": all.domain.cq_cnt,
            "mr_cnt": all.domain.mr_cnt,
        },
        "nic": offer.card.as_ref().map(card),
        "card": offer.place,
    })
}

pub(crate) fn text(found: &Found) -> String {
    let offers: Vec<_> = found.offers.iter().map(offer).collect();
    let object =
        json!({ "library": found.library.as_ref().ok(), "offers": offers, "topology": machine::json(&found.topology) });
    format!("{object:#}\n")
}
