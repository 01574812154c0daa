use core::num::NonZeroU32;
use core::ops::{Deref, RangeInclusive};

use allocator_api2::alloc::Allocator;

use super::NIL;
use crate::engine::peer_table::{Peer, Peers};
use crate::error::OpenError;
use crate::storage::Array;
use crate::util::debug::debug_struct;
use crate::vocabulary::AddressError;

/// Distinct peers of an address vector, with ranks 0, 1, 2 and so on in order of insertion.
///
/// A peer removed from the vector keeps its rank until it is removed from the set or the next peer
/// of its slot is inserted.
///
/// Takes 4 bytes for each slot of the vector, and 8 for each member.
///
/// ```
/// use loom_core::{Av, Cq, allocator_api2::alloc::Global, engine::address_table::AddressSet};
///
/// # fixture::domain!(network, domain);
/// # let (av, cq) = (Av::open(&domain, 3)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
/// # let endpoints = [cq.endpoint(&av)?, cq.endpoint(&av)?, cq.endpoint(&av)?];
/// # let mut peers = Vec::new();
/// # for endpoint in &endpoints {
/// #     peers.push(av.insert(&endpoint.address()?)?);
/// # }
/// // The ranks of the members follow the order of the inserts, not that of the address vector.
/// let mut set = AddressSet::new_in(av.peer_table().places(), 3, Global)?;
/// for peer in [peers[2], peers[0], peers[1]] {
///     assert!(set.insert(peer)?);
/// }
/// assert_eq!((set.rank(peers[2]), set.rank(peers[0])), (Some(0), Some(1)));
/// assert!(!set.insert(peers[0])?, "it is a member");
/// // The members behind a peer that is removed move up.
/// set.remove(peers[2]);
/// assert_eq!(*set, [peers[0], peers[1]]);
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
///
/// # References
/// - `man fi_av_set`
#[doc(alias = "fi_av_set")]
#[doc(alias = "fid_av_set")]
pub struct AddressSet<A: Allocator> {
    members: Array<Peer, A>,
    len: usize,
    /// Ranks by slot, or `NIL`.
    ranks: Array<u32, A>,
}

/// Members by rank.
impl<A: Allocator> Deref for AddressSet<A> {
    type Target = [Peer];

    fn deref(&self) -> &[Peer] {
        self.members.get(..self.len).unwrap_or_default()
    }
}

impl<A: Allocator> AddressSet<A> {
    /// Creates an empty set of up to `count` peers of a vector with `places` slots, in two blocks
    /// of `alloc`.
    ///
    /// # Errors
    /// - [`OpenError::Size`] if a number is 2^32 - 1 or more, or does not fit into memory
    /// - [`OpenError::OutOfMemory`]
    pub fn new_in(places: usize, count: usize, alloc: A) -> Result<Self, OpenError>
    where
        A: Clone,
    {
        let count = count.min(places);
        if u32::try_from(count).map_or(true, |count| count == NIL) {
            return Err(OpenError::Size);
        }
        let members = Array::new_in(count, alloc.clone(), |_| Peer::NONE)?;
        Ok(AddressSet { members, len: 0, ranks: Array::new_in(places, alloc, |_| NIL)? })
    }

    fn set_rank(&mut self, peer: Peer, rank: u32) {
        if let Some(place) = self.ranks.get_mut(peer.index()) {
            *place = rank;
        }
    }

    fn write(&mut self, rank: usize, peer: Peer) {
        if let (Some(place), Ok(rank)) = (self.members.get_mut(rank), u32::try_from(rank)) {
            *place = peer;
            self.set_rank(peer, rank);
        }
    }

    /// Rank of a member.
    #[must_use]
    pub fn rank(&self, peer: Peer) -> Option<usize> {
        self.in_place_of(peer).filter(|(_, member)| *member == peer).map(|(rank, _)| rank)
    }

    fn in_place_of(&self, peer: Peer) -> Option<(usize, Peer)> {
        let rank = *self.ranks.get(peer.index())? as usize;
        Some((rank, *self.get(rank)?))
    }

    /// Appends a peer, and removes an earlier, stale peer of its slot. Returns `false` if the peer
    /// is a member, is stale because a later peer of its slot is one, or has no slot in this
    /// vector.
    ///
    /// # Errors
    /// [`AddressError::Full`]
    #[doc(alias = "fi_av_set_insert")]
    pub fn insert(&mut self, peer: Peer) -> Result<bool, AddressError> {
        match self.meets(peer) {
            Meets::NoMember if self.len < self.members.len() => self.append(peer),
            Meets::NoMember => return Err(AddressError::Full),
            Meets::Earlier(earlier) => {
                self.remove(earlier);
                self.append(peer);
            }
            Meets::Itself => return Ok(false),
        }
        Ok(true)
    }

    fn append(&mut self, peer: Peer) {
        self.write(self.len, peer);
        self.len += 1;
    }

    fn meets(&self, peer: Peer) -> Meets {
        match self.in_place_of(peer) {
            None if peer.index() < self.ranks.len() => Meets::NoMember,
            Some((_, member)) if member.is_before(peer) => Meets::Earlier(member),
            _ => Meets::Itself,
        }
    }

    /// Removes a peer and keeps the order of the others. Returns `true` if it was a member.
    #[doc(alias = "fi_av_set_remove")]
    pub fn remove(&mut self, peer: Peer) -> bool {
        let was = self.rank(peer).is_some();
        if was {
            self.retain(|member| member != peer);
        }
        was
    }

    fn retain(&mut self, keep: impl Fn(Peer) -> bool) {
        let mut kept = 0;
        for rank in 0..self.len {
            let Some(member) = self.get(rank).copied() else { break };
            if !keep(member) {
                self.set_rank(member, NIL);
                continue;
            }
            self.write(kept, member);
            kept += 1;
        }
        self.len = kept;
    }

    /// Appends the members of another set that are not in this one, in order.
    ///
    /// # Errors
    /// [`AddressError::Full`] if not all fit. The set is unchanged then.
    #[doc(alias = "fi_av_set_union")]
    pub fn union<B: Allocator>(&mut self, other: &AddressSet<B>) -> Result<(), AddressError> {
        self.extend(|| other.iter().copied())
    }

    /// Appends the peers of a table in these slots, in steps of `stride`. `0..=u32::MAX` by 1 has
    /// all peers (`FI_UNIVERSE`).
    ///
    /// # Errors
    /// [`AddressError::Full`] if not all fit. The set is unchanged then.
    #[doc(alias = "FI_UNIVERSE")]
    #[doc(alias = "start_addr")]
    pub fn insert_range(
        &mut self,
        table: Peers<'_>,
        places: RangeInclusive<u32>,
        stride: NonZeroU32,
    ) -> Result<(), AddressError> {
        let (first, last) = (*places.start() as usize, (*places.end() as usize).min(table.places().saturating_sub(1)));
        self.extend(|| {
            let places = (first..=last).step_by(stride.get() as usize).filter_map(|place| u32::try_from(place).ok());
            places.filter_map(|place| table.at(place))
        })
    }

    fn extend<I: Iterator<Item = Peer>>(&mut self, peers: impl Fn() -> I) -> Result<(), AddressError> {
        let new = peers().filter(|peer| matches!(self.meets(*peer), Meets::NoMember)).count();
        if new > self.members.len() - self.len {
            return Err(AddressError::Full);
        }
        let mut left = new;
        for peer in peers() {
            if matches!(self.meets(peer), Meets::NoMember) {
                let Some(fewer) = left.checked_sub(1) else { continue };
                left = fewer;
            }
            self.insert(peer)?;
        }
        Ok(())
    }

    /// Removes the members that are not in another set, keeping the order.
    #[doc(alias = "fi_av_set_intersect")]
    pub fn intersect<B: Allocator>(&mut self, other: &AddressSet<B>) {
        self.retain(|member| other.rank(member).is_some());
    }

    /// Removes the members that are in another set, keeping the order.
    #[doc(alias = "fi_av_set_diff")]
    pub fn difference<B: Allocator>(&mut self, other: &AddressSet<B>) {
        self.retain(|member| other.rank(member).is_none());
    }
}

enum Meets {
    NoMember,
    Earlier(Peer),
    /// The peer itself, or a later peer of its slot, or a peer of another vector.
    Itself,
}

debug_struct!([A: Allocator] AddressSet[A], |it| members: &**it);

#[cfg(all(test, feature = "std"))]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use core::cell::Cell;

    use allocator_api2::alloc::Global;

    use super::*;
    use crate::engine::peer_table::{PeerSlot, PeerTable};
    use crate::vocabulary::FabricAddr;

    #[test]
    fn peers_that_come_while_a_range_is_added_do_not_make_it_fail_halfway() {
        let mut entries = [(); 4].map(|()| PeerSlot::default());
        let mut table = PeerTable::new(&mut entries);
        let peers = [0, 1, 2, 3].map(|place| table.insert(FabricAddr(place)).unwrap());
        let mut set = AddressSet::new_in(4, 3, Global).unwrap();
        set.insert(peers[1]).unwrap();
        let looks = Cell::new(0);
        let grows = || {
            looks.set(looks.get() + 1);
            peers[..2 * looks.get()].iter().copied()
        };
        assert_eq!(set.extend(grows), Ok(()));
        assert_eq!(*set, [peers[1], peers[0]]);
        assert_eq!(set.extend(|| peers.iter().copied()), Err(AddressError::Full));
        assert_eq!(*set, [peers[1], peers[0]]);
    }
}
