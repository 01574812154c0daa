//! Attributes and behaviour of a [strict network](crate::soft::NetworkAttr::strict).

use crate::info::Hints;
use crate::transport::{Claims, ProviderQuirks};
use crate::vocabulary::{Attributes, Caps, MrMode, MsgOrder};

/// Capabilities for hints without capabilities: `tcp;ofi_rxm` then omits sources and directed
/// receives.
const DEFAULT_CAPS: Caps = Caps::MSG.union(Caps::TAGGED).union(Caps::RMA).union(Caps::MULTI_RECV);

/// Orders that every tested provider grants if the hints request them.
const ORDERS: MsgOrder = MsgOrder::RAR
    .union(MsgOrder::RAW)
    .union(MsgOrder::WAW)
    .union(MsgOrder::SAW)
    .union(MsgOrder::RMA_RAR)
    .union(MsgOrder::RMA_RAW)
    .union(MsgOrder::RMA_WAW);

/// Maximum length, in bytes, of injected data, as over `tcp;ofi_rxm`.
const INJECT_SIZE: usize = 64;

/// Quirks that some tested provider has, by the table of [`soft`](crate::soft).
pub(crate) const QUIRKS: ProviderQuirks = ProviderQuirks {
    multi_recv: false,
    tagged_multi_recv: false,
    directed_recv: false,
    // Only `shm` of libfabric 1 has this fault.
    masked_recv: true,
    peek: false,
    claims: Claims::Not,
    discard: false,
    mr_close: false,
    close_with_sends: true,
    ends_with_queue: true,
};

#[cfg(feature = "std")]
pub(crate) fn is_requested() -> bool {
    std::env::var_os("LOOM_STRICT").is_some_and(|value| !value.is_empty() && value != "0")
}

#[cfg(not(feature = "std"))]
pub(crate) const fn is_requested() -> bool {
    false
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strict {
    caps: Caps,
    orders: MsgOrder,
}

impl Strict {
    pub(crate) fn of(hints: &Hints<'_>) -> Self {
        let requested = hints.caps | hints.tx_attr.caps | hints.rx_attr.caps;
        let caps = if requested.is_empty() { DEFAULT_CAPS } else { requested };
        let orders = (hints.tx_attr.msg_order | hints.rx_attr.msg_order) & ORDERS;
        Strict { caps: caps.with_modifiers() | Caps::LOCAL_COMM, orders: orders | MsgOrder::SAS }
    }

    pub(crate) const fn reports_sources(self) -> bool {
        self.caps.contains(Caps::SOURCE)
    }

    pub(crate) fn holds_rma(self) -> bool {
        self.orders == MsgOrder::SAS
    }

    pub(crate) fn take_from(self, granted: &mut Attributes) {
        let Attributes { caps, endpoint, tx, rx, domain, .. } = granted;
        for caps in [caps, &mut tx.caps, &mut rx.caps] {
            *caps &= self.caps;
        }
        tx.msg_order &= self.orders;
        rx.msg_order &= self.orders;
        let size = |order, size| if self.orders.contains(order) { size } else { 0 };
        endpoint.max_order_raw_size = size(MsgOrder::RAW, endpoint.max_order_raw_size);
        endpoint.max_order_waw_size = size(MsgOrder::WAW, endpoint.max_order_waw_size);
        endpoint.max_order_war_size = 0;
        tx.inject_size = tx.inject_size.min(INJECT_SIZE);
        // Like `shm` without a requested order.
        domain.mr_mode |= MrMode::VIRT_ADDR;
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Contact {
    /// Generations of this endpoint and of the peer, in their places.
    pub(crate) generations: (u32, u32),
    /// Poll counts of both when the first post was refused. `None` if both have polled since.
    pub(crate) looks: Option<(u32, u32)>,
}
