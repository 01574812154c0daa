use core::cell::Cell;

use heapless::Vec;

use super::faults::strict::{Contact, Strict};
use super::handles::SoftEndpoint;
use super::network::Net;
use super::network::endpoint_state::EndpointState;
use super::shared::address::addr_parts;
use super::shared::copy::LIMIT;
use crate::transport::{Refusal, RemotePart, RmaTarget};
use crate::vocabulary::{FabricAddr, RemoteAddr};

impl Net {
    /// Refuses posts to a new peer until both sides have polled, as over `shm` and `tcp;ofi_rxm`.
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

    pub(super) fn have_look(&self, to: u64) {
        if let Some(port) = self.ports().get(usize::from(addr_parts(to).0)) {
            port.notify();
        }
    }

    pub(super) fn looks_of(&self, to: u64) -> u32 {
        self.ports().get(usize::from(addr_parts(to).0)).map_or(0, |peer| peer.revocations.looks())
    }

    fn start_of(&self, target: &RmaTarget) -> Option<u64> {
        self.region(target.key)?.enter(target.key).ok()?.start()
    }
}

impl SoftEndpoint<'_> {
    fn strict(&self) -> Option<Strict> {
        self.port().own().faults().strict()
    }

    pub(super) fn meets(&self, to: FabricAddr) -> Result<(), Refusal> {
        match self.strict() {
            Some(_) => self.net.meet(self.port(), to),
            None => Ok(()),
        }
    }

    pub(super) fn aim(&self, target: RmaTarget) -> RmaTarget {
        match self.strict().and_then(|_| self.net.start_of(&target)) {
            Some(start) => RmaTarget { addr: RemoteAddr(target.addr.0.wrapping_sub(start)), ..target },
            None => target,
        }
    }

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
        if parts.len() > LIMIT { parts } else { room }
    }
}
