//! Removed peers: the room of address vectors, and the source of late messages.
//!
//! Connections of `ofi_rxm`, `net` and `tcp` keep a removed peer's index until its address is
//! inserted again (`rxm-removed-peer-has-the-next-ones-index` and others). So the first index is
//! reserved: a removed address is inserted once more while that index is the only lower free one,
//! and removed for good.

#![allow(unsafe_code, reason = "calls libfabric")]

use core::ffi::c_void;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::ptr;

use loom_core::transport::AvRoom;
use loom_core::vocabulary::{AddressFormat, Caps, EndpointAddr, Errno, FabricAddr, Threading};

use super::known_behaviour::Facts;
use crate::ofi::av::{Av, Padded, found, read_address};
use crate::ofi::ffi::call::{done, entry};
use crate::ofi::info::RawInfo;
use crate::ofi::quirks;
use crate::ofi::threading::Level;

/// Maximum number of removed addresses beyond a vector's capacity.
const SPARE: usize = 16;

/// Reserved for late messages.
const RESERVED: FabricAddr = FabricAddr(0);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Removal {
    at_any_time: bool,
    /// Maximum number of addresses of a vector at a time.
    most: usize,
    /// No host has it: 240.0.0.0/4 and 100::/64 are reserved and discarded.
    reserved: Option<SocketAddr>,
    /// Maximum number of addresses in the lifetime of a vector.
    limit: Option<usize>,
}

impl Removal {
    #[cfg(test)]
    pub(crate) const NOT: Self = Removal { at_any_time: false, most: usize::MAX, reserved: None, limit: None };

    /// Addresses are removed beside open endpoints only if one thread uses the domain: another
    /// might post to one. Collective groups send to members' addresses at the join
    /// (`rxm-collective-with-a-removed-member-crashes`).
    pub(crate) fn of<L: Level>(facts: Facts, info: &RawInfo, format: AddressFormat) -> Self {
        let keeps_index = quirks::keeps_index_of_removed(info);
        let reserved = match format {
            AddressFormat::SOCKADDR_IN => Some(IpAddr::V4(Ipv4Addr::new(240, 0, 0, 1))),
            AddressFormat::SOCKADDR_IN6 => Some(IpAddr::V6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1))),
            _ => None,
        };
        let is_safe = L::THREADING == Threading::DOMAIN && !info.attributes().caps.contains(Caps::COLLECTIVE);
        let at_any_time = facts.contains(Facts::REMOVES_PEERS) && is_safe && (!keeps_index || reserved.is_some());
        Removal {
            at_any_time,
            most: quirks::addresses_at_a_time(info),
            reserved: reserved.filter(|_| at_any_time && keeps_index).map(|ip| SocketAddr::new(ip, 1)),
            limit: quirks::addresses_limit(info),
        }
    }

    pub(crate) fn room(self, capacity: usize) -> AvRoom {
        if let Some(limit) = self.limit {
            return AvRoom { places: limit.max(capacity), reused: None, limit: Some(limit) };
        }
        if capacity > self.most {
            return AvRoom { places: capacity, limit: Some(self.most), ..Default::default() };
        }
        let reused = capacity.saturating_add(capacity.min(SPARE));
        // The reserved index, and an address inserted by name, which is counted afterwards.
        let places = reused.saturating_add(2);
        if self.at_any_time && places <= self.most {
            AvRoom { places, reused: Some(reused), limit: None }
        } else {
            AvRoom { places: capacity, ..Default::default() }
        }
    }

    pub(crate) fn count(self, capacity: usize) -> usize {
        if self.at_any_time { self.room(capacity).places } else { capacity }
    }
}

/// Reserves the first index of a new vector.
///
/// # Safety
/// Contract of callers.
pub(crate) unsafe fn reserve<L>(av: &Av<L>) -> Result<(), Errno> {
    let Some(reserved) = av.removal().reserved else { return Ok(()) };
    // SAFETY: open (H1).
    let index = unsafe { insert(av, &Padded::new(&reserved.into())) }?;
    if index == RESERVED { Ok(()) } else { Err(Errno::EOTHER) }
}

/// After the call, the peer's late messages do not report a later peer.
///
/// # Safety
/// Contract of callers. No other thread changes the vector.
pub(crate) unsafe fn remove<L>(av: &Av<L>, peer: FabricAddr) -> Result<(), Errno> {
    let reserved = av.removal().reserved.map(EndpointAddr::from);
    // SAFETY: open, with the address (H1, O1).
    let address = reserved.as_ref().and_then(|_| unsafe { lookup(av, peer) }.ok());
    // SAFETY: open, with the address (H1, O1).
    let removed = unsafe { remove_one(av, peer) };
    if let (Some(reserved), Some(address)) = (reserved, address)
        // SAFETY: open (H1). The index holds the first address, or another one.
        && unsafe { lookup(av, RESERVED) }.is_ok_and(|there| there.bytes() == reserved.bytes())
    {
        // SAFETY: the vector has the address of the index, which belongs to no peer.
        let _ = unsafe { remove_one(av, RESERVED) };
        // SAFETY: open (H1).
        if let Ok(index) = unsafe { insert(av, &Padded::new(&address)) } {
            // SAFETY: the address was just inserted.
            let _ = unsafe { remove_one(av, index) };
        }
        // SAFETY: open (H1).
        let _ = unsafe { insert(av, &Padded::new(&reserved)) };
    }
    removed
}

/// # Safety
/// Contract of callers.
pub(crate) unsafe fn insert<L>(av: &Av<L>, address: &Padded) -> Result<FabricAddr, Errno> {
    let raw = av.raw();
    let insert = entry!(raw, ops => insert)?;
    let mut peer = FabricAddr::NOTAVAIL.0;
    let address = ptr::from_ref(address).cast::<c_void>();
    // SAFETY: open (H1), the address has enough memory, and `peer` receives one number. Without an
    // event queue, the call completes here.
    let inserted = unsafe { insert(raw.as_ptr(), address, 1, &raw mut peer, 0, ptr::null_mut()) };
    found(inserted, peer)
}

/// # Safety
/// Contract of callers. The vector has the address.
unsafe fn remove_one<L>(av: &Av<L>, peer: FabricAddr) -> Result<(), Errno> {
    let raw = av.raw();
    let remove = entry!(raw, ops => remove)?;
    let mut peer = peer.0;
    // SAFETY: the caller guarantees that the vector is open (H1) and has the address. `peer` is one
    // number.
    done(unsafe { remove(raw.as_ptr(), &raw mut peer, 1, 0) })
}

/// # Safety
/// Contract of callers. The vector has the address.
pub(crate) unsafe fn lookup<L>(av: &Av<L>, peer: FabricAddr) -> Result<EndpointAddr, Errno> {
    let raw = av.raw();
    let lookup = entry!(raw, ops => lookup)?;
    // SAFETY: the caller guarantees that the vector is open (H1) and has the address.
    read_address(av.addr_format(), |bytes, len| unsafe { lookup(raw.as_ptr(), peer.0, bytes, len) })
}
