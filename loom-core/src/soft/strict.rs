//! What a strict network ([`NetworkAttr::strict`](super::NetworkAttr::strict)) does not give; the documentation of
//! [`soft`](super) has the table.
//!
//! - What an info grants less is taken from it like what a [plan](super::Plan) takes: [`Strict::take_from`].
//! - What providers do that libfabric's manual does not have them do is said by [`QUIRKS`], which the objects ask.
//! - The first posts to a peer are refused until both sides have polled: [`Net::meet`].
//! - Reads and writes are held back like those that a plan reorders, until the peer has polled (`faults/late.rs`).

#![allow(unsafe_code, reason = "a table in the network's memory")]

use core::cell::Cell;

use heapless::Vec;

use super::addr_parts;
use super::endpoint_state::{EndpointState, LocalState};
use super::handles::SoftEndpoint;
use super::iovecs::LIMIT;
use super::network::Net;
use crate::objects::info::Hints;
use crate::transport::{Claims, Event, ProviderQuirks, Refusal, RemotePart, RmaTarget};
use crate::vocabulary::{Attributes, Caps, CompletionFlags, Errno, FabricAddr, MrMode, MsgOrder, RemoteAddr};

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
    // `net`, `tcp`, and `shm` and `tcp;ofi_rxm` of libfabric 2.
    directed_recv: false,
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

/// What becomes of a write that its target does not allow: the writer is told of a success, as over `shm`, `tcp;ofi_rxm` and `net`.
pub(super) fn end_of_write(own: &LocalState, result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::ENOKEY | Errno::EACCES | Errno::EFAULT) if own.faults().strict().is_some() => Ok(()),
        other => other,
    }
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

    /// Whether it is told where messages and writes come from.
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
    generations: (u32, u32),
    /// How often both had looked when the first post was refused; `None` if both have looked since.
    looks: Option<(u32, u32)>,
}

impl Net {
    /// Whether an endpoint reaches a peer: after the first post, which is refused, both have to poll before another is taken, as
    /// over `shm` and `tcp;ofi_rxm`. A post to a peer that is gone is taken, and ends as such posts do.
    fn meet(&self, port: &EndpointState, to: FabricAddr) -> Result<(), Refusal> {
        let (index, generation) = addr_parts(to.0);
        if self.reach(to.0).is_err() {
            return Ok(());
        }
        let (own, peer) = (port.own(), self.port(index));
        let contact: &Cell<Option<Contact>> = self.contact(own.index, index);
        let generations = (own.generation(), generation);
        let now = (port.revocations.looks(), peer.revocations.looks());
        let looks = match contact.get().filter(|contact| contact.generations == generations) {
            Some(Contact { looks: None, .. }) => return Ok(()),
            Some(Contact { looks: Some(before), .. }) if before.0 != now.0 && before.1 != now.1 => None,
            Some(Contact { looks, .. }) => looks,
            None => {
                self.have_look(own.addr.get());
                self.have_look(to.0);
                Some(now)
            }
        };
        contact.set(Some(Contact { generations, looks }));
        if looks.is_none() { Ok(()) } else { Err(Refusal::Again) }
    }

    /// Has the next poll of the endpoint in the place of a fabric address count as a look.
    pub(super) fn have_look(&self, to: u64) {
        if let Some(port) = self.ports().get(usize::from(addr_parts(to).0)) {
            port.revocations.tell();
        }
    }

    /// How often the endpoint in the place of a fabric address has looked.
    pub(super) fn looks_of(&self, to: u64) -> u32 {
        self.ports().get(usize::from(addr_parts(to).0)).map_or(0, |peer| peer.revocations.looks())
    }

    /// Where a region begins in its owner's memory, if there is one with this key.
    fn start_of(&self, target: &RmaTarget) -> Option<u64> {
        self.region(target.key)?.enter(target.key).ok()?.start()
    }
}

impl SoftEndpoint<'_> {
    fn strict(&self) -> Option<Strict> {
        self.port().own().faults().strict()
    }

    /// Whether the endpoint reaches the peer of a post already.
    pub(super) fn meets(&self, to: FabricAddr) -> Result<(), Refusal> {
        match self.strict() {
            Some(_) => self.net.meet(self.port(), to),
            None => Ok(()),
        }
    }

    /// The target of an operation as the network knows it: by its offset in the region.
    pub(super) fn aim(&self, target: RmaTarget) -> RmaTarget {
        match self.strict().and_then(|_| self.net.start_of(&target)) {
            Some(start) => RmaTarget { addr: RemoteAddr(target.addr.0.wrapping_sub(start)), ..target },
            None => target,
        }
    }

    /// The same of several.
    pub(super) fn aim_parts<'p>(
        &self,
        to: FabricAddr,
        parts: &'p [RemotePart],
        room: &'p mut Vec<RemotePart, LIMIT>,
    ) -> &'p [RemotePart] {
        if !self.extra_checks || self.strict().is_none() {
            return parts;
        }
        let aimed = parts
            .iter()
            .map(|part| RemotePart { addr: self.aim(RmaTarget { to, addr: part.addr, key: part.key }).addr, ..*part });
        room.extend(aimed.take(LIMIT));
        // More than there is room for are refused, wherever they lead.
        if parts.len() > LIMIT { parts } else { room }
    }
}
