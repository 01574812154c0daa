//! Removed peers: the room that address vectors need, and the source of messages that come late.
//!
//! Connections of `ofi_rxm`, `net` and `tcp` outlive the removal of their peer's address, and keep the index that the address had: once another
//! address has the index, messages of the removed peer name the later one as their source (`rxm-removed-peer-has-the-next-ones-index` and others).
//! A connection takes another index only when its peer's address is inserted again. So the first index is reserved: a removed address is
//! inserted once more when that index is the only lower one which is free, and removed for good. Late messages name the first index, which is no
//! peer's.

#![allow(unsafe_code, reason = "calls libfabric")]

use core::ffi::c_void;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::ptr;

use loom_core::transport::AvRoom;
use loom_core::vocabulary::{AddressFormat, Caps, EndpointAddr, Errno, FabricAddr, Threading};

use super::call::{done, entry};
use super::control::{Av, Padded, read_address};
use super::info::RawInfo;
use super::known_behaviour::Facts;
use super::quirks;
use super::threading::Level;

/// Maximum number of removed addresses that a vector holds beside those of its capacity, so that their indices do not return at once.
const SPARE: usize = 16;

/// The first index, which is reserved where late messages are to name it.
const RESERVED: FabricAddr = FabricAddr(0);

/// The handling of removed addresses by the vectors of a domain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Removal {
    at_any_time: bool,
    /// Maximum number of addresses of a vector at a time.
    most: usize,
    /// The address of the reserved index. It is no host's: 240.0.0.0/4 and 100::/64 are reserved and discarded.
    reserved: Option<SocketAddr>,
    /// Maximum number of addresses in the lifetime of a vector.
    limit: Option<usize>,
}

impl Removal {
    /// No address is removed while an endpoint is open.
    #[cfg(test)]
    pub(super) const NOT: Self = Removal { at_any_time: false, most: usize::MAX, reserved: None, limit: None };

    /// Addresses are removed beside open endpoints only if one thread has the domain: other threads may have looked up an address that they are about to
    /// post to. Collective groups send to the addresses that their members had when they joined (`rxm-collective-with-a-removed-member-crashes`).
    pub(super) fn of<L: Level>(facts: Facts, info: &RawInfo, format: AddressFormat) -> Self {
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

    pub(super) fn room(self, capacity: usize) -> AvRoom {
        if let Some(limit) = self.limit {
            return AvRoom { places: limit.max(capacity), reused: None, limit: Some(limit) };
        }
        if capacity > self.most {
            return AvRoom { limit: Some(self.most), ..AvRoom::new(capacity) };
        }
        let reused = capacity.saturating_add(capacity.min(SPARE));
        // The reserved index, and one for an address that is inserted by its name, and is counted afterwards.
        let places = reused.saturating_add(2);
        if self.at_any_time && places <= self.most {
            AvRoom { places, reused: Some(reused), limit: None }
        } else {
            AvRoom::new(capacity)
        }
    }

    /// The number of addresses that a raw vector is opened for.
    pub(super) fn count(self, capacity: usize) -> usize {
        if self.at_any_time { self.room(capacity).places } else { capacity }
    }
}

/// Reserves the first index of a new vector, where late messages are to name it.
///
/// # Safety
/// The contract of callers.
///
/// # Errors
/// The provider's; `EOTHER` if it gives another index.
pub(super) unsafe fn reserve<L>(av: &Av<L>) -> Result<(), Errno> {
    let Some(reserved) = av.removal().reserved else { return Ok(()) };
    // SAFETY: the caller's promise.
    let index = unsafe { insert(av, &Padded::new(&reserved.into())) }?;
    if index == RESERVED { Ok(()) } else { Err(Errno::EOTHER) }
}

/// `fi_av_remove`, after which the peer's late messages name no later peer.
///
/// # Safety
/// The contract of callers; no other thread changes the vector.
pub(super) unsafe fn remove<L>(av: &Av<L>, peer: FabricAddr) -> Result<(), Errno> {
    let reserved = av.removal().reserved.map(EndpointAddr::from);
    // SAFETY: the caller's promise.
    let address = reserved.as_ref().and_then(|_| unsafe { lookup(av, peer) }.ok());
    // SAFETY: as above.
    let removed = unsafe { remove_one(av, peer) };
    if let (Some(reserved), Some(address)) = (reserved, address)
        // SAFETY: the vector is open (C1). Nothing else was ever inserted at the index, or the address is another.
        && unsafe { lookup(av, RESERVED) }.is_ok_and(|there| there.bytes() == reserved.bytes())
    {
        // SAFETY: the vector has the address of the index, which is no peer's.
        let _ = unsafe { remove_one(av, RESERVED) };
        // SAFETY: the caller's promise.
        if let Ok(index) = unsafe { insert(av, &Padded::new(&address)) } {
            // SAFETY: the address was inserted just now.
            let _ = unsafe { remove_one(av, index) };
        }
        // SAFETY: the caller's promise.
        let _ = unsafe { insert(av, &Padded::new(&reserved)) };
    }
    removed
}

/// # Safety
/// The contract of callers.
unsafe fn insert<L>(av: &Av<L>, address: &Padded) -> Result<FabricAddr, Errno> {
    let raw = av.raw();
    let insert = entry!(raw, ops => insert)?;
    let mut peer = FabricAddr::NOTAVAIL.0;
    let address = ptr::from_ref(address).cast::<c_void>();
    // SAFETY: the vector is open (C1); there is one socket address, in memory larger than addresses are; `peer` takes one number. The
    // vector has no event queue, so the call finishes here.
    let inserted = unsafe { insert(raw.as_ptr(), address, 1, &raw mut peer, 0, ptr::null_mut()) };
    if inserted == 1 { Ok(FabricAddr(peer)) } else { Err(Errno::EADDRNOTAVAIL) }
}

/// # Safety
/// The contract of callers.
unsafe fn remove_one<L>(av: &Av<L>, peer: FabricAddr) -> Result<(), Errno> {
    let raw = av.raw();
    let remove = entry!(raw, ops => remove)?;
    let mut peer = peer.0;
    // SAFETY: the vector is open and has this address (C1, and the contract of this function); `peer` is one number.
    done(unsafe { remove(raw.as_ptr(), &raw mut peer, 1, 0) })
}

/// # Safety
/// The contract of callers.
pub(super) unsafe fn lookup<L>(av: &Av<L>, peer: FabricAddr) -> Result<EndpointAddr, Errno> {
    let raw = av.raw();
    let lookup = entry!(raw, ops => lookup)?;
    // SAFETY: the vector is open and has this address (C1, and the contract of this function).
    read_address(av.addr_format(), |bytes, len| unsafe { lookup(raw.as_ptr(), peer.0, bytes, len) })
}
