use core::net::SocketAddr;

use super::Inserted;
use super::free::Free;
use super::index::{Held, Index, Way};
use super::key::{AddressRef, Key};
use super::store::{Cell, Store};
use super::symmetric::{RangePeer, Segments, SymmetricRange};
use crate::engine::peer_table::{Peer, PeerTable, Peers};
use crate::vocabulary::{AddressError, AddressFormat, AvType, EndpointAddr, FabricAddr};

/// Peers and their addresses. See the [module](super).
///
/// ```
/// use std::net::SocketAddr;
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_core::{engine::address_table::{AddressTableAttr, AddressTableMemory}, vocabulary::FabricAddr};
///
/// let mut memory = AddressTableMemory::new_in(AddressTableAttr::new(8), Global)?;
/// let mut table = memory.table();
/// let [first, second]: [SocketAddr; 2] = ["10.0.0.1:7471".parse()?, "10.0.0.2:7471".parse()?];
/// let gone = table.insert(first)?.peer();
/// assert_eq!(table.remove(gone), Some(FabricAddr(0)));
/// // The next peer uses the slot. The handle of the removed peer stays stale.
/// let peer = table.insert(second)?.peer();
/// assert_eq!((table.peers().addr(peer), table.peers().addr(gone)), (Some(FabricAddr(0)), None));
/// assert_eq!((table.socket(peer), table.socket(gone)), (Some(second), None));
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AddressTable<'s> {
    pub(super) format: AddressFormat,
    pub(super) av_type: AvType,
    pub(super) seed: u64,
    pub(super) peers: PeerTable<'s>,
    pub(super) index: Index<'s>,
    pub(super) store: Store<'s>,
    pub(super) segments: Segments<'s>,
    pub(super) free: Free<'s>,
    pub(super) len: usize,
    pub(super) retired: usize,
}

impl<'s> AddressTable<'s> {
    /// Handles and fabric addresses, readable by other threads while the table changes.
    #[inline]
    #[must_use]
    pub fn peers(&self) -> Peers<'s> {
        *self.peers
    }

    /// Number of peers.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a table that begins empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Number of range records in use.
    #[must_use]
    pub fn ranges(&self) -> usize {
        self.segments.count
    }

    /// Number of free bytes for addresses other than IPv4 sockets.
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.store.free() * size_of::<Cell>()
    }

    #[inline]
    fn way<'k>(&self, address: AddressRef<'k>) -> Way<'k> {
        Way::new(self.seed, Key::of(address, self.format))
    }

    /// Peer that has an address.
    #[inline]
    #[must_use]
    pub fn find<'k>(&self, address: impl Into<AddressRef<'k>>) -> Option<Peer> {
        let address = address.into();
        if let AddressRef::Socket(SocketAddr::V4(socket)) = address
            && let Some(place) = self.index.find_v4(self.seed, socket.ip().to_bits(), socket.port())
        {
            return self.peers.at(place);
        }
        self.find_on(&self.way(address))
    }

    fn find_on(&self, way: &Way<'_>) -> Option<Peer> {
        let single = self.index.find(&self.store, way);
        let place = single.or_else(|| self.find_member(way.key()));
        self.peers.at(place?)
    }

    fn find_member(&self, key: &Key<'_>) -> Option<u32> {
        if self.segments.count == 0 {
            return None;
        }
        self.segments.places(key.socket()?).find(|place| has_member(&self.index, &self.peers, *place))
    }

    #[inline]
    fn left_by(&self, key: &Key<'_>) -> Option<u32> {
        if self.segments.count == 0 {
            return None;
        }
        let is_free = |place: &u32| self.peers.at(*place).is_none() && self.peers.is_fresh(*place);
        self.segments.places(key.socket()?).filter(is_free).min()
    }

    /// Address of a peer in canonical form. `None` if the peer was removed, or [inserted
    /// without](Self::insert_unnamed_at) one.
    #[doc(alias = "fi_av_lookup")]
    #[must_use]
    pub fn address(&self, peer: Peer) -> Option<EndpointAddr> {
        self.read(peer, |key| self.written(&key)).flatten()
    }

    /// Socket address of a peer, if it has one.
    #[must_use]
    pub fn socket(&self, peer: Peer) -> Option<core::net::SocketAddr> {
        self.read(peer, |key| key.socket()).flatten()
    }

    fn read<R>(&self, peer: Peer, read: impl FnOnce(Key<'_>) -> R) -> Option<R> {
        self.peers.addr(peer)?;
        self.read_place(peer.place(), read)
    }

    fn read_place<R>(&self, place: u32, read: impl FnOnce(Key<'_>) -> R) -> Option<R> {
        match self.index.held(place) {
            Held::V4 { ip, port } => Some(read(Key::V4 { ip, port })),
            Held::Stored(cell) => self.store.read(cell, read),
            Held::Nothing => self.segments.socket(place).map(|socket| read(socket.into())),
            Held::Unnamed => None,
        }
    }

    fn written(&self, key: &Key<'_>) -> Option<EndpointAddr> {
        match (key, key.socket()) {
            (_, Some(socket)) => Some(match self.format {
                AddressFormat::SOCKADDR | AddressFormat::SOCKADDR_IP => EndpointAddr::from_socket(self.format, socket),
                _ => socket.into(),
            }),
            (Key::Raw { format, bytes }, None) => EndpointAddr::new(*format, bytes).ok(),
            (Key::V4 { .. } | Key::V6 { .. }, None) => None,
        }
    }

    /// Inserts an address into the lowest free slot, or a removed member of a range into its former
    /// slot. A duplicate returns the existing peer.
    ///
    /// # Errors
    /// [`AddressError`]: the table is unchanged.
    pub fn insert<'k>(&mut self, address: impl Into<AddressRef<'k>>) -> Result<Inserted, AddressError> {
        let address = address.into();
        let way = self.way(address);
        match self.find_on(&way) {
            Some(peer) => Ok(Inserted::Known(peer)),
            None => {
                let addr = self.next_addr(&way)?;
                self.insert_new(&way, address, addr)
            }
        }
    }

    /// [Inserts](Self::insert) the addresses of a range, and passes the results to `each` in order.
    ///
    /// # Errors
    /// [`AddressError::Full`] if the range exceeds the number of slots. Neither the table is changed nor
    /// `each` called.
    #[doc(alias = "fi_av_insertsym")]
    pub fn insert_symmetric(
        &mut self,
        range: SymmetricRange,
        mut each: impl FnMut(Result<Inserted, AddressError>),
    ) -> Result<usize, AddressError> {
        if range.len() > self.peers.places() as u64 {
            return Err(AddressError::Full);
        }
        let results = range.members().map(|member| self.insert(&member));
        Ok(results.inspect(|result| each(*result)).filter(Result::is_ok).count())
    }

    fn next_place(&self) -> Option<u32> {
        let lowest = u32::try_from(self.free.lowest()?).ok()?;
        let mut place = lowest;
        while place as usize >= self.index.len()
            && let Some(end) = self.segments.end_over(place)
        {
            let Some(next) = self.free.lowest_from(end as usize) else { return Some(lowest) };
            place = u32::try_from(next).ok()?;
        }
        Some(place)
    }

    fn next_addr(&self, way: &Way<'_>) -> Result<FabricAddr, AddressError> {
        let place = self.left_by(way.key()).or_else(|| self.next_place()).ok_or(AddressError::Full)?;
        let generation = if self.av_type == AvType::MAP { self.peers.next_generation(place) } else { 0 };
        Ok(FabricAddr(u64::from(generation) << 32 | u64::from(place)))
    }

    /// Inserts an address under a fabric address that a provider has chosen, with the slot index in
    /// its low 32 bits. A duplicate address or fabric address returns the existing peer.
    ///
    /// # Errors
    /// [`AddressError`], also if the slot does not exist. The table is unchanged.
    pub fn insert_at<'k>(
        &mut self,
        addr: FabricAddr,
        address: impl Into<AddressRef<'k>>,
    ) -> Result<Inserted, AddressError> {
        let address = address.into();
        let way = self.way(address);
        match self.find_on(&way).or_else(|| self.peers.peer(addr)) {
            Some(peer) => Ok(Inserted::Known(peer)),
            None => self.insert_new(&way, address, addr),
        }
    }

    /// Inserts a peer with an address that the provider does not report, like
    /// [`insert_at`](Self::insert_at). It is not [found](Self::find), and has no
    /// [address](Self::address).
    pub fn insert_unnamed_at(&mut self, addr: FabricAddr) -> Result<Inserted, AddressError> {
        if let Some(peer) = self.peers.peer(addr) {
            return Ok(Inserted::Known(peer));
        }
        let place = self.place_for_single(addr)?;
        self.vacate(place);
        self.index.put(place, Held::Unnamed);
        self.take(addr)
    }

    fn place_for_single(&self, addr: FabricAddr) -> Result<u32, AddressError> {
        let place = self.peers.place_for(addr).ok_or(AddressError::Full)?;
        if place as usize >= self.index.len() {
            return Err(AddressError::Full);
        }
        Ok(place)
    }

    fn insert_new(
        &mut self,
        way: &Way<'_>,
        address: AddressRef<'_>,
        addr: FabricAddr,
    ) -> Result<Inserted, AddressError> {
        let place = self.peers.place_for(addr).ok_or(AddressError::Full)?;
        let left_by = self.segments.socket(place);
        if left_by.is_some() && left_by == way.key().socket() {
            self.vacate(place);
            self.segments.come_back(place);
        } else if let AddressRef::Member(member) = address
            && self.has_record(member, place)
        {
            self.vacate(place);
            self.segments.add(member, place, |place| has_member(&self.index, &self.peers, place));
        } else {
            return self.insert_single(way, addr);
        }
        self.take(addr)
    }

    fn has_record(&self, member: &RangePeer, place: u32) -> bool {
        let is_single = (place as usize) < self.index.len() && self.segments.end_over(place).is_some();
        !is_single && self.segments.takes(member, place, |place| has_member(&self.index, &self.peers, place))
    }

    fn insert_single(&mut self, way: &Way<'_>, addr: FabricAddr) -> Result<Inserted, AddressError> {
        let place = self.place_for_single(addr)?;
        let held = match *way.key() {
            Key::V4 { ip, port } if port != 0 => Held::V4 { ip, port },
            ref key => Held::Stored(self.store.put(key).ok_or(AddressError::OutOfBytes)?),
        };
        self.vacate(place);
        if !self.index.insert(way, place, held) {
            if let Held::Stored(cell) = held {
                self.store.give_back(cell);
            }
            return Err(AddressError::Full);
        }
        self.take(addr)
    }

    fn take(&mut self, addr: FabricAddr) -> Result<Inserted, AddressError> {
        let peer = self.peers.insert(addr).ok_or(AddressError::Full)?;
        self.free.clear(peer.index());
        self.len += 1;
        Ok(Inserted::New(peer))
    }

    /// Removes a peer and returns its fabric address, unless the handle is stale.
    #[doc(alias = "fi_av_remove")]
    pub fn remove(&mut self, peer: Peer) -> Option<FabricAddr> {
        let addr = self.peers.addr(peer)?;
        self.vacate(peer.place());
        Some(addr)
    }

    /// Removes a peer but keeps its address, so that no insertion gets the slot until it is
    /// [revived](Self::revive) or [reclaimed](Self::reclaim). `None` if the handle is stale, or the
    /// peer is a member of a range and has no address of its own.
    pub(crate) fn retire(&mut self, peer: Peer) -> Option<u32> {
        let place = peer.place();
        if self.peers.addr(peer).is_none() || self.index.held(place) == Held::Nothing {
            return None;
        }
        self.peers.remove(peer);
        self.len -= 1;
        self.retired += 1;
        Some(place)
    }

    pub(crate) const fn retired(&self) -> usize {
        self.retired
    }

    pub(crate) fn is_retired(&self, place: u32) -> bool {
        self.peers.last_addr(place).is_some() && self.index.held(place) != Held::Nothing
    }

    pub(crate) fn revive<'k>(&mut self, address: impl Into<AddressRef<'k>>) -> Option<Peer> {
        if self.retired == 0 {
            return None;
        }
        let place = self.index.find(&self.store, &self.way(address.into()))?;
        self.revive_at(place)
    }

    pub(crate) fn revive_at(&mut self, place: u32) -> Option<Peer> {
        if !self.is_retired(place) {
            return None;
        }
        let addr = self.peers.last_addr(place)?;
        let peer = self.take(addr).ok()?.peer();
        self.retired -= 1;
        Some(peer)
    }

    pub(crate) fn reclaim(&mut self, place: u32) -> Option<FabricAddr> {
        if !self.is_retired(place) {
            return None;
        }
        let addr = self.peers.last_addr(place)?;
        self.vacate(place);
        Some(addr)
    }

    fn vacate(&mut self, place: u32) {
        let peer = self.peers.at(place);
        match self.index.held(place) {
            Held::Nothing if peer.is_none() => return,
            Held::Nothing => self.segments.remove(place),
            Held::Unnamed => self.index.put(place, Held::Nothing),
            Held::V4 { ip, port } => self.index.remove(&Way::new(self.seed, Key::V4 { ip, port }), place),
            Held::Stored(cell) => {
                let (index, seed) = (&mut self.index, self.seed);
                self.store.read(cell, |key| index.remove(&Way::new(seed, key), place));
                self.store.give_back(cell);
            }
        }
        if let Some(peer) = peer {
            self.peers.remove(peer);
            self.len -= 1;
        } else {
            self.retired -= 1;
        }
        if self.peers.is_fresh(place) {
            self.free.set(place as usize);
        }
    }
}

#[inline]
fn has_member(index: &Index<'_>, peers: &Peers<'_>, place: u32) -> bool {
    index.held(place) == Held::Nothing && peers.at(place).is_some()
}
