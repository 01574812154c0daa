//! What a strict network ([`NetworkAttr::strict`](super::NetworkAttr::strict)) grants; the documentation of [`soft`](super) has the
//! table.
//!
//! - What an info grants less is taken from it like what a [plan](super::Plan) takes: [`Strict::take_from`].
//! - What providers do that libfabric's manual does not have them do is said by [`QUIRKS`], which the objects ask.
//! - The first posts to a peer are refused until both sides have polled (`soft/first_contact.rs`).
//! - Reads and writes are held back like those that a plan reorders, until the peer has polled (`soft/delayed.rs`).

use crate::info::Hints;
use crate::transport::{Claims, Event, ProviderQuirks};
use crate::vocabulary::{Attributes, Caps, CompletionFlags, MrMode, MsgOrder};

/// What an info grants whose hints name no capability: `tcp;ofi_rxm` leaves out sources and directed receives then.
const UNASKED: Caps = Caps::MSG.union(Caps::TAGGED).union(Caps::RMA).union(Caps::MULTI_RECV);

/// The orders that every tested provider grants to hints which ask for them. All grant [`MsgOrder::SAS`] in any case.
const ORDERS: MsgOrder = MsgOrder::RAR
    .union(MsgOrder::RAW)
    .union(MsgOrder::WAW)
    .union(MsgOrder::SAW)
    .union(MsgOrder::RMA_RAR)
    .union(MsgOrder::RMA_RAW)
    .union(MsgOrder::RMA_WAW);

/// The most that can be injected, in bytes: as over `tcp;ofi_rxm`.
const INJECT_SIZE: usize = 64;

/// What cannot be relied on over each of the tested providers.
pub(super) const QUIRKS: ProviderQuirks = ProviderQuirks {
    // Only `tcp` of libfabric 2 keeps to the buffer.
    multi_recv: false,
    // No tested provider has them.
    tagged_multi_recv: false,
    // `net`, `tcp`, and `shm` and `tcp;ofi_rxm` of libfabric 2.
    directed_recv: false,
    // A fault of `shm` of libfabric 1 alone.
    masked_recv: true,
    // `shm` of libfabric 1 peeks by receiving; `udp;ofi_rxd` can do no more than peek.
    peek: false,
    claims: Claims::Not,
    discard: false,
    // `sockets`, and `shm` of libfabric 2.
    mr_close: false,
    close_with_sends: true,
    ends_with_queue: true,
};

/// Whether the environment makes every network strict.
#[cfg(feature = "std")]
pub(super) fn is_asked_for() -> bool {
    std::env::var_os("LOOM_STRICT").is_some_and(|value| !value.is_empty() && value != "0")
}

/// There is no environment.
#[cfg(not(feature = "std"))]
pub(super) const fn is_asked_for() -> bool {
    false
}

/// Leaves out of a peer's event how long its write was, and that it was RMA: as `tcp;ofi_rxm` and `net` of libfabric 1.
pub(super) fn hide_length(event: &mut Event) {
    event.len = 0;
    event.flags.remove(CompletionFlags::RMA);
}

/// What an info of a strict network grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strict {
    caps: Caps,
    orders: MsgOrder,
}

impl Strict {
    /// What the hints ask for, and nothing else.
    pub(super) fn of(hints: &Hints<'_>) -> Self {
        let asked = hints.caps | hints.tx_attr.caps | hints.rx_attr.caps;
        let caps = if asked.is_empty() { UNASKED } else { asked };
        let orders = (hints.tx_attr.msg_order | hints.rx_attr.msg_order) & ORDERS;
        Strict { caps: caps.with_modifiers() | Caps::LOCAL_COMM, orders: orders | MsgOrder::SAS }
    }

    /// Whether events say where messages and writes come from.
    pub(super) const fn tells_sources(self) -> bool {
        self.caps.contains(Caps::SOURCE)
    }

    /// Whether reads and writes wait for the peer: unless the hints have asked for an order of them.
    pub(super) fn holds_rma(self) -> bool {
        self.orders == MsgOrder::SAS
    }

    /// Takes from what a network grants.
    pub(super) fn take_from(self, granted: &mut Attributes) {
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
        // As `shm`, to which no order is asked for.
        domain.mr_mode |= MrMode::VIRT_ADDR;
    }
}

/// What an endpoint knows of a peer that it posts to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contact {
    /// Which endpoints in the two places: this one and the peer.
    pub(super) generations: (u32, u32),
    /// How often both had looked when the first post was refused; `None` if both have looked since.
    pub(super) looks: Option<(u32, u32)>,
}
