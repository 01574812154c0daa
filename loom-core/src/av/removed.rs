//! [`Addresses`]: the addresses of a vector, and those of removed peers that the provider still holds.
//!
//! Where the provider can remove an address beside open endpoints, a removed peer's address is retired: it stays in the provider's vector and in
//! the table, so that its place is not the next insertion's, and messages which come late name a place without a peer. The oldest one is
//! removed from the provider when the room is used up and another address is inserted.

use crate::engine::address_table::AddressTable;
use crate::engine::peer_table::Peer;
use crate::vocabulary::{EndpointAddr, FabricAddr};

/// Not in the list.
const FREE: u32 = u32::MAX;
/// In the list, and the last.
const END: u32 = u32::MAX - 1;

/// Places of removed peers, the oldest first. If its address is inserted again, a place stays in the list until its turn.
#[derive(Debug)]
pub(super) struct Removed {
    /// The next one of each place.
    next: &'static mut [u32],
    ends: Option<(u32, u32)>,
}

impl Removed {
    /// The link of a place that is not in the list.
    pub(super) const LINK: u32 = FREE;

    /// An empty list, over a link for each place that can be in it.
    pub(super) fn new(next: &'static mut [u32]) -> Self {
        Removed { next, ends: None }
    }

    fn push(&mut self, place: u32) {
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

/// Room of a vector that retires removed addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Maximum number of peers.
    pub(super) peers: usize,
    /// Maximum number of addresses that the provider holds, for peers and for removed ones.
    pub(super) addresses: usize,
}

/// The addresses of a vector.
#[derive(Debug)]
pub(crate) struct Addresses {
    pub(super) table: AddressTable<'static>,
    removed: Removed,
    room: Option<Room>,
}

impl Addresses {
    pub(super) fn new(table: AddressTable<'static>, removed: Removed, room: Option<Room>) -> Self {
        Addresses { table, removed, room }
    }

    /// Returns `true` if addresses may be removed from the provider's vector at any time.
    pub(super) const fn are_removed(&self) -> bool {
        self.room.is_some()
    }

    /// Maximum number of peers.
    pub(super) fn most(&self) -> usize {
        self.room.map_or(self.table.peers().places(), |room| room.peers)
    }

    /// Returns `true` if another peer has room, if some removed addresses are removed from the provider.
    pub(super) fn has_room(&self) -> bool {
        self.room.is_none_or(|room| self.table.len() < room.peers)
    }

    /// Returns `true` if the provider holds as many addresses as the vector has room for.
    pub(super) fn is_full(&self) -> bool {
        self.room.is_some_and(|room| self.table.len() + self.table.retired() >= room.addresses)
    }

    /// The peer that has an address: one that is in the vector, or a new one at the place of a removed one that had the address.
    pub(super) fn find(&mut self, address: &EndpointAddr) -> Option<Peer> {
        let found = self.table.find(address);
        found.or_else(|| if self.has_room() { self.table.revive(address) } else { None })
    }

    /// Retires the address in a place.
    pub(super) fn push(&mut self, place: u32) {
        self.removed.push(place);
    }

    /// Forgets the address that was retired first, and returns its fabric address: the provider is to remove it.
    pub(super) fn oldest(&mut self) -> Option<FabricAddr> {
        while let Some(place) = self.removed.pop() {
            // The address may have been inserted again.
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

    use super::*;
    use crate::engine::address_table::{AddressTableAttr, AddressTableMemory};

    fn address(port: u16) -> EndpointAddr {
        SocketAddr::from(([10, 0, 0, 1], port)).into()
    }

    #[test]
    fn retired_address_keeps_its_place_until_it_is_the_oldest() {
        const PLACES: usize = 6;
        let memory = Box::leak(Box::new(AddressTableMemory::new(AddressTableAttr::new(PLACES)).unwrap()));
        let removed = Removed::new(Box::leak(Box::new([FREE; PLACES])));
        let mut addresses = Addresses::new(memory.table(), removed, Some(Room { peers: 2, addresses: 4 }));
        let insert = |addresses: &mut Addresses, place: u16| {
            addresses.table.insert_at(FabricAddr(place.into()), &address(place + 1)).unwrap().peer()
        };
        let retire = |addresses: &mut Addresses, peer: Peer| {
            let place = addresses.table.retire(peer).unwrap();
            addresses.push(place);
            let gone = address(u16::try_from(place).unwrap() + 1);
            assert_eq!((addresses.table.retire(peer), addresses.table.find(&gone)), (None, None));
        };
        let [first, second] = [0, 1].map(|place| insert(&mut addresses, place));
        assert!(!addresses.has_room() && !addresses.is_full());
        retire(&mut addresses, first);
        retire(&mut addresses, second);
        assert_eq!((addresses.has_room(), addresses.table.len(), addresses.table.retired()), (true, 0, 2));
        // An address that is inserted again is a new peer at its place.
        let again = addresses.find(&address(1)).unwrap();
        assert!(again != first && again.index() == first.index());
        assert_eq!(addresses.table.address(again), Some(address(1)));
        assert_eq!((addresses.table.address(first), addresses.find(&address(9))), (None, None));
        insert(&mut addresses, 2);
        assert_eq!(addresses.find(&address(2)), None, "as many peers as there is room for");
        assert_eq!((addresses.oldest(), addresses.oldest()), (Some(FabricAddr(1)), None));
        assert_eq!((addresses.table.len(), addresses.table.retired()), (2, 0));
        // The place of the forgotten address is another's.
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
