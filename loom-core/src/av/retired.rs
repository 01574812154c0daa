//! [`Addresses`]: the addresses of a vector, and of removed peers that the provider still holds.
//!
//! If the provider can remove addresses while endpoints are open, a removed peer's address is
//! retired: it stays in the provider's vector, and late messages name a slot without a peer. When
//! space runs out, an insertion removes the oldest.

use crate::engine::address_table::AddressTable;
use crate::engine::peer_table::Peer;
use crate::vocabulary::{EndpointAddr, FabricAddr};

const FREE: u32 = u32::MAX;
const END: u32 = u32::MAX - 1;

/// Slots of removed peers, the oldest first. An address inserted again leaves its slot in the list.
#[derive(Debug)]
pub(super) struct Removed {
    next: &'static mut [u32],
    ends: Option<(u32, u32)>,
}

impl Removed {
    pub(super) const LINK: u32 = FREE;

    pub(super) fn new(next: &'static mut [u32]) -> Self {
        Removed { next, ends: None }
    }

    pub(super) fn push(&mut self, place: u32) {
        let Some(link) = self.next.get_mut(place as usize).filter(|link| **link == FREE) else { return };
        *link = END;
        self.ends = match self.ends {
            None => Some((place, place)),
            Some((first, last)) => {
                if let Some(link) = self.next.get_mut(last as usize) {
                    *link = place;
                }
                Some((first, place))
            }
        };
    }

    fn pop(&mut self) -> Option<u32> {
        let (first, last) = self.ends?;
        let next = core::mem::replace(self.next.get_mut(first as usize)?, FREE);
        self.ends = (next != END).then_some((next, last));
        Some(first)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) peers: usize,
    /// Maximum number of addresses at the provider, including removed peers'.
    pub(super) addresses: usize,
}

#[derive(Debug)]
pub(crate) struct Addresses {
    pub(super) table: AddressTable<'static>,
    pub(super) removed: Removed,
    room: Option<Room>,
}

impl Addresses {
    pub(super) fn new(table: AddressTable<'static>, removed: Removed, room: Option<Room>) -> Self {
        Addresses { table, removed, room }
    }

    pub(super) const fn are_removed(&self) -> bool {
        self.room.is_some()
    }

    pub(super) fn most(&self) -> usize {
        self.room.map_or(self.table.peers().places(), |room| room.peers)
    }

    pub(super) fn has_room(&self) -> bool {
        self.room.is_none_or(|room| self.table.len() < room.peers)
    }

    pub(super) fn is_full(&self) -> bool {
        self.room.is_some_and(|room| self.table.len() + self.table.retired() >= room.addresses)
    }

    pub(super) fn find(&mut self, address: &EndpointAddr) -> Option<Peer> {
        let found = self.table.find(address);
        found.or_else(|| if self.has_room() { self.table.revive(address) } else { None })
    }

    /// Returns the fabric address that the provider must remove.
    pub(super) fn oldest(&mut self) -> Option<FabricAddr> {
        while let Some(place) = self.removed.pop() {
            if let Some(addr) = self.table.reclaim(place) {
                return Some(addr);
            }
        }
        None
    }
}

#[cfg(all(test, feature = "std"))]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use core::net::SocketAddr;
    use std::boxed::Box;

    use allocator_api2::alloc::Global;

    use super::*;
    use crate::engine::address_table::{AddressTableAttr, AddressTableMemory};

    fn address(port: u16) -> EndpointAddr {
        SocketAddr::from(([10, 0, 0, 1], port)).into()
    }

    #[test]
    fn retired_address_keeps_its_place_until_it_is_the_oldest() {
        const PLACES: usize = 6;
        let memory = Box::leak(Box::new(AddressTableMemory::new_in(AddressTableAttr::new(PLACES), Global).unwrap()));
        let removed = Removed::new(Box::leak(Box::new([FREE; PLACES])));
        let mut addresses = Addresses::new(memory.table(), removed, Some(Room { peers: 2, addresses: 4 }));
        let insert = |addresses: &mut Addresses, place: u16| {
            addresses.table.insert_at(FabricAddr(place.into()), &address(place + 1)).unwrap().peer()
        };
        let retire = |addresses: &mut Addresses, peer: Peer| {
            let place = addresses.table.retire(peer).unwrap();
            addresses.removed.push(place);
            let gone = address(u16::try_from(place).unwrap() + 1);
            assert_eq!((addresses.table.retire(peer), addresses.table.find(&gone)), (None, None));
        };
        let [first, second] = [0, 1].map(|place| insert(&mut addresses, place));
        assert!(!addresses.has_room() && !addresses.is_full());
        retire(&mut addresses, first);
        retire(&mut addresses, second);
        assert_eq!((addresses.has_room(), addresses.table.len(), addresses.table.retired()), (true, 0, 2));
        let again = addresses.find(&address(1)).unwrap();
        assert!(again != first && again.index() == first.index());
        assert_eq!(addresses.table.address(again), Some(address(1)));
        assert_eq!((addresses.table.address(first), addresses.find(&address(9))), (None, None));
        insert(&mut addresses, 2);
        assert_eq!(addresses.find(&address(2)), None, "as many peers as there is room for");
        assert_eq!((addresses.oldest(), addresses.oldest()), (Some(FabricAddr(1)), None));
        assert_eq!((addresses.table.len(), addresses.table.retired()), (2, 0));
        assert!(addresses.table.remove(again).is_some());
        let other = addresses.table.insert_at(FabricAddr(1), &address(7)).unwrap().peer();
        assert_eq!((addresses.find(&address(7)), addresses.find(&address(2))), (Some(other), None));
    }

    #[test]
    fn the_oldest_place_comes_first_and_each_place_once() {
        let mut removed = Removed::new(Box::leak(Box::new([FREE; 4])));
        assert_eq!(removed.pop(), None);
        for place in [2, 0, 2, 3, 4] {
            removed.push(place);
        }
        assert_eq!([removed.pop(), removed.pop()], [Some(2), Some(0)]);
        removed.push(2);
        removed.push(1);
        assert_eq!([(); 4].map(|()| removed.pop()), [Some(3), Some(2), Some(1), None]);
        removed.push(1);
        assert_eq!([removed.pop(), removed.pop()], [Some(1), None]);
    }
}
